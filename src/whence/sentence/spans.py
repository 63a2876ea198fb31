"""Sources by word, line, sentence, paragraph, turn of a chat, or given characters: which span each token is of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import regex

from whence.errors import BadInput
from whence.models.encode import Encoded
from whence.text.align import Span
from whence.text.sentence import Sentence

# the edges of each kind of span: what is matched ends one
_ENDS = {
    "line": regex.compile(r"\n+"),
    "sentence": regex.compile(r"""[.!?。！？]+["'”’)\]]*\s+|\n+|[。！？]+"""),
    "paragraph": regex.compile(r"\n\s*\n\s*"),
}
KINDS = ("word", *_ENDS, "turn")
TEMPLATE, ANSWER = "template", "answer"
Place = tuple[int, Span, str]  # the text it is in, its characters there, its name


@dataclass(frozen=True)
class Spans:
    """Each source's span, and each span's name; every source is in just one, so that parts add up as before."""

    of_source: list[int]
    names: list[str]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The last axis, sources, summed to spans."""
        onto = np.zeros((len(self.of_source), len(self.names)), dtype=values.dtype)
        onto[range(len(self.of_source)), self.of_source] = 1
        return values @ onto


def spans_of(encoded: Encoded, spans: str | Iterable[Span], answer: int | None = None) -> Spans:
    """A token is of the span it starts in; special tokens, and what is in no span, are spans of their own.

    By turn, what the template wrote is one span, and the answer, from its first token on, another.
    """
    places = _places(encoded, spans)
    kind = spans if isinstance(spans, str) else ""
    keys: list[object] = []
    names: dict[object, str] = {}
    for token in range(len(encoded.tokens)):
        said = kind == "turn" and answer is not None and token >= answer
        key, name = (ANSWER, ANSWER) if said else _span_of(encoded, token, places, kind)
        keys.append(key)
        names.setdefault(key, name)
    order = {key: number for number, key in enumerate(names)}
    return Spans([order[key] for key in keys], list(names.values()))


def _span_of(encoded: Encoded, token: int, places: Sequence[Place], kind: str) -> tuple[object, str]:
    part, span = encoded.parts[token], encoded.spans[token]
    if kind != "turn" and (part is None or span is None):
        return ("special", token), encoded.tokens[token]
    if part is not None and span is not None:
        start = _first_letter(encoded.sentence.texts[part], span)
        for number, (own, (begin, end), name) in enumerate(places):
            if own == part and begin <= start < end:
                return number, name
    return (TEMPLATE, TEMPLATE) if kind == "turn" else ("rest", "the rest")


def _first_letter(text: str, span: Span) -> int:
    """Where the token's text begins, past the white space that many tokens begin with."""
    start, end = span
    return start + len(text[start:end]) - len(text[start:end].lstrip()) if text[start:end].strip() else start


def _places(encoded: Encoded, spans: str | Iterable[Span]) -> list[Place]:
    if not isinstance(spans, str):
        return [(0, span, encoded.sentence.text[slice(*span)]) for span in _checked(encoded.sentence.text, spans)]
    if spans not in KINDS:
        raise BadInput(f"There are no spans {spans!r}; there are: {', '.join(KINDS)}, and (start, end) characters.")
    return _MAKERS.get(spans, lambda sentence: _cut(sentence, spans))(encoded.sentence)


def _words(sentence: Sentence) -> list[Place]:
    return [
        (int(word.in_pair), (word.start, word.end), sentence.word(place)) for place, word in enumerate(sentence.words)
    ]


def _turns(sentence: Sentence) -> list[Place]:
    if not sentence.turns:
        raise BadInput("Spans by turn are of a chat; give a list of messages, or other spans (spans=).")
    return [(0, turn.span, turn.role) for turn in sentence.turns]


_MAKERS: dict[str, Callable[[Sentence], list[Place]]] = {"word": _words, "turn": _turns}


def _cut(sentence: Sentence, kind: str) -> list[Place]:
    places: list[Place] = []
    for part, text in enumerate(sentence.texts):
        edges = [0, *(match.end() for match in _ENDS[kind].finditer(text)), len(text)]
        for begin, end in pairwise(edges):
            if text[begin:end].strip():
                places.append((part, (begin, end), text[begin:end].strip()))
    return places


def _checked(text: str, spans: Iterable[Span]) -> list[Span]:
    checked: list[Span] = []
    for span in spans if isinstance(spans, Iterable) else [spans]:
        if not _is_span(span, len(text)):
            raise BadInput(f"A span is (start, end) of the text's {len(text):,} characters, and {span!r} was given.")
        if any(span[0] < end and begin < span[1] for begin, end in checked):
            raise BadInput(f"The span {span!r} overlaps another one, so that parts would count twice.")
        checked.append((span[0], span[1]))
    return checked


def _is_span(span: Any, letters: int) -> bool:
    if not isinstance(span, Sequence) or len(span) != 2 or not all(isinstance(edge, int) for edge in span):
        return False
    return bool(0 <= span[0] < span[1] <= letters)
