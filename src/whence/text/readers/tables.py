"""Tables with named columns to sentences: which columns hold the text, its pair, its label."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whence.errors import BadInput
from whence.text.readers.plain import place
from whence.text.readers.rows import Row, comma_rows, json_rows, tab_rows
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence, check, check_encodable

TEXT = ("text", "sentence")  # columns looked for when none is named


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; of several names, the first that the table has."""

    text: tuple[str, ...] = TEXT
    pair: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    document: tuple[str, ...] = ()


class NoColumn(BadInput):
    """The table has no such column."""


def tsv(
    path: str,
    skipped: Skipped,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    document: str | None = None,
    header: bool = True,
) -> Iterator[Sentence]:
    """Tab-separated columns, quotation marks being ordinary characters; without a header they are called 1, 2, 3 …"""
    return sentences(path, skipped, tab_rows(path, skipped, header), columns(text, pair, label, id, document))


def csv(
    path: str,
    skipped: Skipped,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    document: str | None = None,
    header: bool = True,
) -> Iterator[Sentence]:
    """Comma-separated columns, quoted as in RFC 4180; a quoted cell may hold line breaks."""
    return sentences(path, skipped, comma_rows(path, skipped, header), columns(text, pair, label, id, document))


def jsonl(
    path: str,
    skipped: Skipped,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    document: str | None = None,
) -> Iterator[Sentence]:
    """One JSON object per line, its members being the columns."""
    return sentences(path, skipped, json_rows(path, skipped), columns(text, pair, label, id, document))


def columns(*named: str | None) -> Columns:
    """The columns a user named: text, pair, label, id, document."""
    text, *others = [() if name is None else (str(name),) for name in named]
    return Columns(text or TEXT, *others)


def sentences(path: str, skipped: Skipped, rows: Iterable[Row], named: Columns) -> Iterator[Sentence]:
    """The rows as sentences."""
    for row in rows:
        try:
            sentence = _sentence(path, row, named)
        except NoColumn as error:
            if row.under_header:  # no row has it, and nobody wants all of them left out
                raise BadInput(f"{path}: {error}") from error
            skipped.bad("malformed", str(error), row.number)
        except BadInput as error:
            skipped.bad("malformed", str(error), row.number)
        else:
            yield sentence


def _sentence(path: str, row: Row, named: Columns) -> Sentence:
    text = _text(row, named.text)
    pair = _text(row, named.pair) if named.pair else None
    id = _name(row, named.id) if named.id else place(path, row.number)
    document = _name(row, named.document) if named.document else id
    labels = {"label": _name(row, named.label)} if named.label else {}
    return Sentence(text, pair, id, document, labels=labels)


def _text(row: Row, names: tuple[str, ...]) -> str:
    name, value = cell(row, names)
    if not isinstance(value, str):
        raise BadInput(f"the column {name!r} holds {value!r:.40}, and a text was expected.")
    check(value)
    return value


def _name(row: Row, names: tuple[str, ...]) -> str:
    name, value = cell(row, names)
    if not isinstance(value, str | int | float):
        raise BadInput(f"the column {name!r} holds {value!r:.40}, and a name or a number was expected.")
    check_encodable(str(value), f"the column {name!r}:")
    return str(value)


def cell(row: Row, names: tuple[str, ...]) -> tuple[str, object]:
    """The first of the columns that the row has, and its value."""
    name = next((name for name in names if name in row.cells), None)
    if name is None:
        expected = " or ".join(repr(name) for name in names)
        there = ", ".join(map(repr, row.cells))
        how = "; say which holds the text: --read text=COLUMN (in Python: text=)" if names == TEXT else ""
        raise NoColumn(f"There is no column {expected}; the columns are {there}{how}.")
    return name, row.cells[name]
