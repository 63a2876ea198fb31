"""Which states are the same: a name made of the weights, the tokenizer, the corpus and how it was read."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from typing import Any

import torch

from whence.models.affine import adapters
from whence.models.load import Model
from whence.text.sentence import Sentence, sentence

FORMAT = 1  # of the files on disk; a new one makes the old ones unknown
LENGTH = 20


def weights_digest(model: Model) -> str:
    """Every parameter and buffer byte by byte: fine-tuning in place changes it, a new name for the same model not."""
    found = hashlib.blake2b(digest_size=LENGTH)
    found.update(type(model.model).__name__.encode())
    found.update(_text(_settings(model.model.config)))
    for name, values in chain(model.model.named_parameters(), model.model.named_buffers()):
        found.update(f"{name} {tuple(values.shape)} {values.dtype}".encode())
        found.update(values.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    for layer in adapters(model.model):
        found.update(repr(layer).encode())
    return found.hexdigest()


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
        "tokenizer": _tokenizer_digest(model.tokenizer),
        "corpus": corpus,
        "parameters": parameters,
        "format": FORMAT,
        "transformers": version("transformers"),
    }
    return digest(made)


def digest(described: Any) -> str:
    return hashlib.blake2b(_text(described), digest_size=LENGTH).hexdigest()


def _tokenizer_digest(tokenizer: Any) -> str:
    parts = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else sorted(tokenizer.get_vocab().items())
    return digest([type(tokenizer).__name__, parts, tokenizer.model_max_length])


def _settings(config: Any) -> dict[str, Any]:
    """What the configuration says of the computation; not where it came from."""
    return {name: value for name, value in config.to_dict().items() if name not in ("_name_or_path", "_commit_hash")}


def _text(described: Any) -> bytes:
    return json.dumps(described, sort_keys=True, default=str).encode()
