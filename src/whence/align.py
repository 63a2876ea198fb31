"""Which word each token belongs to, by character offsets."""

from bisect import bisect_right
from itertools import pairwise

import regex

Span = tuple[int, int]

# Unicode's default word boundaries (UAX 29): "Don't" and "3.14" are words, every Han character is one
_BOUNDARY = regex.compile(r"(?w)\b")


def words(text: str) -> list[Span]:
    """The spans of the words and punctuation marks of a text, white space left out."""
    edges = sorted({match.start() for match in _BOUNDARY.finditer(text)} | {0, len(text)})
    return [span for span in pairwise(edges) if text[slice(*span)].strip()]


def words_of_tokens(text: str, tokens: list[Span]) -> list[str]:
    """The word each token starts in; white space in front belongs to the token in byte-level vocabularies."""
    spans = words(text)
    starts = [start for start, _ in spans]
    found = []
    for start, end in tokens:
        first = start + len(text[start:end]) - len(text[start:end].lstrip())
        place = bisect_right(starts, first if first < end else start) - 1
        inside = place >= 0 and first < spans[place][1]
        found.append(text[slice(*spans[place])] if inside else text[start:end].strip())
    return found
