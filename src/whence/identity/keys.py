"""Which states are the same: a name made of the weights, the tokenizer, the corpus and how it was read."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from whence.models.fingerprint import tokenizer_sha256
from whence.models.load import Model
from whence.text.sentence import Sentence, sentence

FORMAT = 1  # of the files on disk; a new one makes the old ones unknown
LENGTH = 20


class Digested:
    """A corpus whose sentences are checked, counted and digested as they are read."""

    def __init__(self, corpus: Iterable[object]):
        self.count = 0
        self._corpus, self._found = corpus, hashlib.blake2b(digest_size=LENGTH)

    def __iter__(self) -> Iterator[Sentence]:
        for given in self._corpus:
            checked = sentence(given)
            self._found.update(_text([checked.text, checked.pair]))
            self.count += 1
            yield checked

    @property
    def digest(self) -> str:
        """Of what was read so far."""
        return self._found.hexdigest()


def corpus_digest(corpus: Iterable[object]) -> tuple[str, int]:
    """A digest of the texts, and how many sentences there are."""
    read = Digested(corpus)
    for _ in read:
        pass
    return read.digest, read.count


def key(model: Model, weights: str, corpus: str, parameters: dict[str, Any]) -> str:
    """The name of the folder that holds the states."""
    made = {
        "model": model.id,
        "revision": model.revision,
        "weights": weights,
        "tokenizer": tokenizer_sha256(model.tokenizer),
        "corpus": corpus,
        "parameters": parameters,
        "format": FORMAT,
        "transformers": version("transformers"),
    }
    return digest(made)


def digest(described: Any) -> str:
    return hashlib.blake2b(_text(described), digest_size=LENGTH).hexdigest()


def _text(described: Any) -> bytes:
    return json.dumps(described, sort_keys=True, default=str).encode()
