"""Which rows belong together: a table split into cells by the values of some columns."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas

from whence.errors import BadInput


def cells(
    table: pandas.DataFrame, by: str | Sequence[str], columns: Iterable[str | None]
) -> Iterator[tuple[dict[str, Any], pandas.DataFrame]]:
    """The values of `by` and the rows that have them; rows with a missing value in a needed column are left out."""
    by, needed = names(by), list(dict.fromkeys(column for column in columns if column is not None))
    if missing := [column for column in (*by, *needed) if column not in table]:
        raise BadInput(f"The table has no column {missing[0]!r}; it has: {', '.join(map(str, table.columns))}.")
    complete = table[[*by, *(column for column in needed if column not in by)]].dropna()
    if complete.empty:
        raise BadInput(f"No row of the table has all of: {', '.join((*by, *needed))}.")
    if not by:
        yield {}, complete
        return
    for key, rows in complete.groupby(by, sort=True, observed=True):
        yield dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)), rows


def names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)
