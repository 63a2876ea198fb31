"""Sentences made ready for a study: so many of them, of a length, with words masked."""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from whence.errors import BadInput
from whence.models.fingerprint import corpus_sha256
from whence.text.align import words
from whence.text.readers import Corpus
from whence.text.sentence import MASK, Sentence

Prepare = Callable[[Sentence], Sentence | None]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The first `most` sentences of a corpus that `prepare` does not leave out."""

    corpus: Corpus
    most: int
    prepare: Prepare | None = None

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def name(self) -> str:
        return self.corpus.name

    @property
    def count(self) -> int:
        return len(self)

    @cached_property
    def sha256(self) -> str:
        return corpus_sha256(self._found)

    @cached_property
    def _found(self) -> list[Sentence]:
        found: list[Sentence] = []
        for given in self.corpus:
            if len(found) == self.most:
                break
            kept = given if self.prepare is None else self.prepare(given)
            if kept is not None:
                found.append(kept)
        if not found:
            raise BadInput(f"The corpus {self.name!r} has no sentence that this study can use.")
        return found


def at_most(count: int, least: int = 1) -> Prepare:
    """The first `count` words of a text; texts of fewer than `least` are left out. Pairs stay as they are.

    Of a pair the words of both texts count.
    """

    def cut(given: Sentence) -> Sentence | None:
        spans = words(given.text)
        if len(spans) + len(words(given.pair or "")) < least:
            return None
        if given.pair is not None or len(spans) <= count:
            return given
        end = spans[count - 1][1]
        kept = tuple(word for word in given.words if word.end <= end)
        outside = (word.governor is None or word.governor >= len(kept) for word in kept)
        kept = tuple(replace(word, governor=None) if cut else word for word, cut in zip(kept, outside, strict=True))
        mentions = tuple(mention for mention in given.mentions if max(mention.words) < len(kept))
        return replace(given, text=given.text[:end], words=kept, mentions=mentions)

    return cut


def of_length(least: int, most: int) -> Prepare:
    """Only texts of so many words, whole."""
    return lambda given: given if least <= len(words(given.text)) <= most else None


def masked(share: float, count: int, least: int = 1) -> Prepare:
    """The same with a share of the words masked, always the same ones; annotations are given up."""
    cut = at_most(count, least)

    def mask(given: Sentence) -> Sentence | None:
        found = cut(given)
        if found is None or found.pair is not None:
            return found
        draw = random.Random(zlib.crc32(found.text.encode()))
        text, end, pieces = found.text, 0, []
        for start, stop in words(text):
            if text[start:stop].isalnum() and draw.random() < share:
                pieces += [text[end:start], MASK]
                end = stop
        return Sentence("".join([*pieces, text[end:]]), None, found.id, found.document)

    return mask
