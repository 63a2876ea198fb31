"""Which word each token belongs to, by character offsets, and averages and sums over a word's tokens."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import regex

from whence.text.sentence import MASK, Sentence, Word

Span = tuple[int, int]

# Unicode's default word boundaries (UAX 29): "Don't" and "3.14" are words, every Han character is one
_BOUNDARY = regex.compile(r"(?w)\b")
_MASK = regex.compile(regex.escape(MASK))


def words(text: str) -> list[Span]:
    """The spans of the words and punctuation marks of a text, white space left out; [MASK] is a word."""
    masks = [match.span() for match in _MASK.finditer(text)]
    edges = {match.start() for match in _BOUNDARY.finditer(text)} | {0, len(text)}
    for start, end in masks:
        edges = edges - set(range(start, end)) | {start, end}
    return [span for span in pairwise(sorted(edges)) if text[slice(*span)].strip()]


def worded(sentence: Sentence) -> Sentence:
    """The sentence, its words by Unicode's boundaries where they are not annotated."""
    if sentence.words:
        return sentence
    default = tuple(Word(*span, in_pair=bool(pair)) for pair, text in enumerate(sentence.texts) for span in words(text))
    return replace(sentence, words=default)


def words_over_tokens(spans_of_words: Sequence[Span], spans_of_tokens: Sequence[Span]) -> list[list[int]]:
    """The words each token shares characters with, the one it starts in first.

    White space belongs to no word, so "▁cat" starts in "cat". Tokens without characters have no word.
    """
    last = max((end for _, end in (*spans_of_words, *spans_of_tokens)), default=0)
    owners: list[list[int]] = [[] for _ in range(last)]
    for place, span in enumerate(spans_of_words):
        for character in range(*span):
            owners[character].append(place)
    return [list(dict.fromkeys(chain.from_iterable(owners[slice(*span)]))) for span in spans_of_tokens]


def tokens_of_words(spans_of_words: Sequence[Span], spans_of_tokens: Sequence[Span]) -> list[list[int]]:
    """The tokens that share characters with each word; a token over two words is a piece of both."""
    return _inverted(words_over_tokens(spans_of_words, spans_of_tokens), len(spans_of_words))


def tokens_starting_in_words(spans_of_words: Sequence[Span], spans_of_tokens: Sequence[Span]) -> list[list[int]]:
    """The tokens that start in each word: no token twice, so that sums over words are sums over tokens."""
    over = words_over_tokens(spans_of_words, spans_of_tokens)
    return _inverted([places[:1] for places in over], len(spans_of_words))


def averaged(values: np.ndarray, pieces: Sequence[Sequence[int]], axis: int = -1) -> np.ndarray:
    """The mean over each word's tokens along one axis; NaN for a word without any.

    A map becomes one between words by averaging its targets and then its sources (Brunner et al. 2020, Westera 2019).
    """
    counts = np.array([len(tokens) for tokens in pieces], dtype=float)
    with np.errstate(invalid="ignore"):
        return np.moveaxis(np.moveaxis(summed(values, pieces, axis), axis, -1) / counts, -1, axis)


def summed(values: np.ndarray, pieces: Sequence[Sequence[int]], axis: int = -1) -> np.ndarray:
    """The sum over each word's tokens along one axis: a word's total share in rows that sum to one.

    Give it tokens_starting_in_words, or a token over two words is counted in both.
    """
    moved = np.moveaxis(np.asarray(values), axis, -1)
    sums = [moved[..., list(tokens)].sum(axis=-1) for tokens in pieces]
    empty = np.zeros((*moved.shape[:-1], 0), dtype=moved.dtype)
    return np.moveaxis(np.stack(sums, axis=-1) if sums else empty, -1, axis)


def _inverted(over: Sequence[Iterable[int]], count: int) -> list[list[int]]:
    tokens: list[list[int]] = [[] for _ in range(count)]
    for token, places in enumerate(over):
        for place in places:
            tokens[place].append(token)
    return tokens


_MARKS = regex.compile(r"^##|▁|Ġ|</w>$|@@$")
_BYTE = regex.compile(r"<0x[0-9A-F]{2}>")
_REACH = 40  # letters that unknown and byte pieces may stand for


def located(text: str, pieces: Sequence[str], unknown: Collection[str] = ()) -> list[Span | None]:
    """Where pieces of a tokenizer that keeps no offsets stand in the text, by their letters.

    Case, accents, compatibility forms and the marks of word pieces (##, ▁, </w>, @@) do not count. Pieces for the
    unknown and for single bytes have the characters between their neighbours. When the letters of one piece do not
    follow those of the piece before, nothing is known of any.
    """
    letters, origins = _plain(text)
    spans: list[Span | None] = []
    cursor, reach = 0, 0
    for piece in pieces:
        spelled, _ = _plain(_MARKS.sub("", piece))
        if piece in unknown or _BYTE.fullmatch(piece):
            spans.append(None)
            reach = _REACH
        elif not spelled:
            spans.append((0, 0))
        elif (start := letters.find(spelled, cursor, cursor + len(spelled) + reach)) >= 0:
            cursor, reach = start + len(spelled), 0
            spans.append((origins[start], origins[cursor - 1] + 1))
        else:
            return [None] * len(pieces)
    return _filled(text, spans)


def _plain(text: str) -> tuple[str, list[int]]:
    """Letters without case and accents, and the offset of each in the text."""
    letters, origins = [], []
    for place, letter in enumerate(text):
        for plain in unicodedata.normalize("NFKD", letter).casefold():
            if not unicodedata.combining(plain) and not plain.isspace():
                letters.append(plain)
                origins.append(place)
    return "".join(letters), origins


def _filled(text: str, partial: Sequence[Span | None]) -> list[Span | None]:
    """The spans, those that are missing filled from the gaps between the others; None for pieces of white space."""
    spans: list[Span | None] = []
    before = 0
    for place, span in enumerate(partial):
        if span is not None:
            before = max(before, span[1])
            spans.append(span if span[1] else None)
            continue
        after = next((later[0] for later in partial[place:] if later and later[1]), len(text))
        start = before + len(text[before:after]) - len(text[before:after].lstrip())
        end = start + len(text[start:after].rstrip())
        spans.append((start, end) if start < end else None)
    return spans
