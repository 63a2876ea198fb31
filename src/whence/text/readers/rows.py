"""Lines to rows: tab-separated, comma-separated, JSON."""

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from whence.errors import BadInput
from whence.text.readers.lines import LONGEST, Line, lines
from whence.text.readers.skipped import Skipped

# the csv module's own limit is an eighth of the longest line allowed; it holds for the whole process
csv.field_size_limit(max(LONGEST, csv.field_size_limit()))


@dataclass(frozen=True)
class Row:
    """The cells of a record by column, and the line where it begins."""

    number: int
    cells: Mapping[str, object]
    under_header: bool = True
    "All rows have these columns."


def tab_rows(path: str, skipped: Skipped, header: bool = True, names: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of a tab-separated file; empty lines are not rows.

    Without a header the columns are called `names`, or 1, 2, 3 … up to the length of the first row.
    """
    split = ((line, line.text.split("\t")) for line in lines(path) if line.fault or line.text)
    return _named(split, skipped, header, names)


def comma_rows(path: str, skipped: Skipped, header: bool = True) -> Iterator[Row]:
    """Rows of a comma-separated file, in the same way."""
    return _named(_records(lines(path)), skipped, header)


def json_rows(path: str, skipped: Skipped) -> Iterator[Row]:
    """One JSON object per line."""
    for line in lines(path):
        if not (line.fault or line.text.strip()):
            continue
        try:
            cells = _object(line)
        except BadInput as error:
            skipped.bad(line.kind or "malformed", str(error), line.number)
        else:
            yield Row(line.number, cells, under_header=False)


def _object(line: Line) -> Mapping[str, object]:
    if line.fault:
        raise BadInput(line.fault)
    try:
        value = json.loads(line.text, object_pairs_hook=_members)
    except BadInput:
        raise
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the line is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadInput(f'the line is a {type(value).__name__}, and an object such as {{"text": …}} was expected.')
    return value


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; of two members with the same name, the json module would silently keep the last."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadInput(f"two members are called {next(name for name in names if names.count(name) > 1)!r:.40}.")
    return members


def _named(
    records: Iterable[tuple[Line, list[str]]], skipped: Skipped, header: bool, names: Sequence[str] = ()
) -> Iterator[Row]:
    for line, cells in records:
        if not names and header:
            names = _header(line, cells, skipped.name)
        elif line.fault:
            skipped.bad(line.kind, line.fault, line.number)
        else:
            names = names or [str(number) for number in range(1, len(cells) + 1)]
            if len(cells) == len(names):
                yield Row(line.number, dict(zip(names, cells, strict=True)))
            else:
                reason = f"the row has {len(cells)} columns, and {len(names)} were expected."
                skipped.bad("malformed", reason, line.number)


def _header(line: Line, cells: list[str], path: str) -> list[str]:
    """The names of the columns; never skipped, or the rows would be read under wrong names."""
    twice = next((name for name in cells if cells.count(name) > 1), None)
    fault = line.fault or (f"two columns are called {twice!r}." if twice is not None else "")
    if fault:
        raise BadInput(f"{path}, line {line.number}, which names the columns: {fault}")
    return cells


def _records(source: Iterator[Line]) -> Iterator[tuple[Line, list[str]]]:
    """Lines, joined while a quoted cell is open; when that fails, the lines after the first are records themselves."""
    waiting: deque[Line] = deque()
    while (line := _next(waiting, source)) is not None:
        if not (line.fault or line.text):
            continue
        taken, closed = _to_closing_mark(line, waiting, source)
        record, cells = _cells(line, taken, closed)
        if record.fault:
            waiting.extendleft(reversed(taken))
        yield record, cells


def _to_closing_mark(line: Line, waiting: deque[Line], source: Iterator[Line]) -> tuple[list[Line], bool]:
    """The following lines up to the closing quotation mark, and whether there is one."""
    taken: list[Line] = []
    size, is_open = len(line.text), line.text.count('"') % 2
    while is_open and size <= LONGEST and (following := _next(waiting, source)) is not None:
        taken.append(following)
        if following.fault:
            break
        size += len(following.text)
        is_open ^= following.text.count('"') % 2
    return taken, not is_open


def _next(waiting: deque[Line], source: Iterator[Line]) -> Line | None:
    return waiting.popleft() if waiting else next(source, None)


def _cells(line: Line, following: list[Line], closed: bool) -> tuple[Line, list[str]]:
    if line.fault:
        return line, []
    if not closed:
        return Line(line.number, "", "malformed", "a quotation mark is opened and not closed."), []
    try:
        (cells,) = csv.reader(["\n".join(part.text for part in (line, *following))], strict=True)
    except (csv.Error, ValueError) as error:
        return Line(line.number, "", "malformed", f"the row is not comma-separated: {error}."), []
    return line, cells
