"""Cuts a corpus into numbered parts, in its own order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from whence.errors import BadInput
from whence.models.fingerprint import corpus_sha256
from whence.text.sentence import Sentence, sentence


@dataclass(frozen=True)
class Part:
    """Sentences `first` and following, counted from 0."""

    number: int
    first: int
    sentences: tuple[Sentence, ...]

    @cached_property
    def sha256(self) -> str:
        """The hash of its texts and annotations: what the part's tables are made from."""
        return corpus_sha256(self.sentences)


def cut(corpus: Iterable[object], size: int) -> Iterator[Part]:
    """Parts of `size` sentences, the last one smaller; only one is in memory at a time."""
    checked = (_checked(number, item) for number, item in enumerate(corpus))
    number = 0
    while sentences := tuple(islice(checked, size)):
        yield Part(number, number * size, sentences)
        number += 1


def _checked(number: int, item: object) -> Sentence:
    try:
        return sentence(item)
    except BadInput as error:
        raise BadInput(f"Sentence {number:,} of the corpus, counted from 0: {error}") from error
