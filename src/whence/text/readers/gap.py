"""GAP: a pronoun that may refer to one of two names, or to neither (Webster et al. 2018)."""

from collections.abc import Iterator
from itertools import pairwise

from whence.errors import BadInput
from whence.text.align import Span, words
from whence.text.readers.rows import Row, tab_rows
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Mention, Sentence, Word, check

COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
PRONOUN = "pronoun"


def gap(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """One document per row; a name that the pronoun refers to has the pronoun's entity, any other its own."""
    for row in tab_rows(path, skipped):
        missing = next((name for name in COLUMNS if name not in row.cells), None)
        if missing:
            raise BadInput(f"{path}: There is no column {missing!r}, which GAP has; is this another format?")
        try:
            sentence = _sentence(row)
        except BadInput as error:
            skipped.bad("malformed", str(error), row.number)
        else:
            yield sentence


def _sentence(row: Row) -> Sentence:
    cells = {name: str(value) for name, value in row.cells.items()}
    text = cells["Text"]
    check(text)
    spans = {name: _span(cells, name) for name in ("Pronoun", "A", "B")}
    meant = {name: _true(cells[f"{name}-coref"]) for name in ("A", "B")}
    word_spans = _cut(words(text), {edge for span in spans.values() for edge in span})
    mentions = (
        Mention(PRONOUN if meant.get(name, True) else name, _places(word_spans, span), {"role": name})
        for name, span in spans.items()
    )
    return Sentence(
        text,
        id=cells["ID"],
        document=cells["ID"],
        words=tuple(Word(*span) for span in word_spans),
        mentions=tuple(mentions),
        labels={name: str(value) for name, value in meant.items()},
    )


def _span(cells: dict[str, str], name: str) -> Span:
    form, offset = cells[name], cells[f"{name}-offset"]
    start = int(offset) if offset.isdecimal() and len(offset) < 10 else -1
    if not form.strip() or start < 0 or not cells["Text"].startswith(form, start):
        raise BadInput(f"{form!r:.40} does not stand at character {offset:.20} of the text.")
    return start, start + len(form)


def _true(value: str) -> bool:
    if value.upper() not in ("TRUE", "FALSE"):
        raise BadInput(f"{value!r:.20} says whether a name is meant, and TRUE or FALSE was expected.")
    return value.upper() == "TRUE"


def _cut(spans: list[Span], edges: set[int]) -> list[Span]:
    """Words, cut where a mention begins or ends inside one: the name in "Pauline's" is not the whole word."""
    return [
        part
        for start, end in spans
        for part in pairwise([start, *sorted(edge for edge in edges if start < edge < end), end])
    ]


def _places(word_spans: list[Span], span: Span) -> tuple[int, ...]:
    return tuple(place for place, (start, end) in enumerate(word_spans) if span[0] <= start and end <= span[1])
