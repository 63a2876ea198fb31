"""The sentences of a study: how many, how long, with which words masked."""

import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from whence.errors import BadInput
from whence.models.fingerprint import corpus_sha256
from whence.text.align import words
from whence.text.readers import Corpus
from whence.text.sentence import MASK, Sentence

Prepare = Callable[[Sentence], Sentence | None]


POOL = 2000  # sentences that a sample is taken from


@dataclass(frozen=True, eq=False)
class Chosen:
    """At most `most` sentences of a corpus, each changed by `prepare`, which leaves one out by returning None.

    They are the first ones; or, with `spread`, those of as many documents as there are, in the order of the corpus.
    """

    corpus: Corpus
    most: int
    prepare: Prepare | None = None
    spread: bool = False

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self._sentences)

    def __len__(self) -> int:
        return len(self._sentences)

    @property
    def name(self) -> str:
        return self.corpus.name

    @cached_property
    def sha256(self) -> str:
        return corpus_sha256(self._sentences)

    @cached_property
    def _sentences(self) -> list[Sentence]:
        prepared = self.corpus if self.prepare is None else map(self.prepare, self.corpus)
        usable = (sentence for sentence in prepared if sentence is not None)
        kept = (
            _spread(islice(usable, max(POOL, self.most)), self.most) if self.spread else list(islice(usable, self.most))
        )
        if not kept:
            raise BadInput(f"The corpus {self.name!r} has no sentence that this study can use.")
        return kept


def _spread(sentences: Iterable[Sentence], most: int) -> list[Sentence]:
    """One of every document, then a second of every document, until there are enough; in the order of the corpus.

    Which of a document is chance, the same every time: its first sentences are often headings.
    """
    pool, documents = list(sentences), defaultdict[object, list[int]](list)
    for place, sentence in enumerate(pool):
        documents[place if sentence.document is None else sentence.document].append(place)
    turns = [
        (turn, place)
        for places in documents.values()
        for turn, place in enumerate(sorted(places, key=lambda place: zlib.crc32(pool[place].text.encode())))
    ]
    return [pool[place] for place in sorted(place for _, place in sorted(turns)[:most])]


def at_most(count: int, least: int = 1) -> Prepare:
    """Cuts a text after `count` words and leaves out texts of fewer than `least`. Pairs are not cut.

    The words of a pair are those of both texts.
    """

    def cut(sentence: Sentence) -> Sentence | None:
        spans = words(sentence.text)
        if len(spans) + len(words(sentence.pair or "")) < least:
            return None
        if sentence.pair is not None or len(spans) <= count:
            return sentence
        end = spans[count - 1][1]
        kept = [word for word in sentence.words if word.end <= end]
        mentions = tuple(mention for mention in sentence.mentions if max(mention.words) < len(kept))
        for place, word in enumerate(kept):
            if word.governor is not None and word.governor >= len(kept):
                kept[place] = replace(word, governor=None)
        return replace(sentence, text=sentence.text[:end], words=tuple(kept), mentions=mentions)

    return cut


def of_length(least: int, most: int) -> Prepare:
    """Keeps texts of `least` to `most` words, uncut."""
    return lambda sentence: sentence if least <= len(words(sentence.text)) <= most else None


def masked(share: float, count: int, least: int = 1) -> Prepare:
    """Cuts a text like `at_most` and masks a share of its words, the same ones every time; annotations are dropped."""
    cut = at_most(count, least)

    def mask(sentence: Sentence) -> Sentence | None:
        shortened = cut(sentence)
        if shortened is None or shortened.pair is not None:
            return shortened
        text, end, pieces = shortened.text, 0, []
        generator = random.Random(zlib.crc32(text.encode()))
        for start, stop in words(text):
            if text[start:stop].isalnum() and generator.random() < share:
                pieces += [text[end:start], MASK]
                end = stop
        return Sentence("".join([*pieces, text[end:]]), None, shortened.id, shortened.document)

    return mask
