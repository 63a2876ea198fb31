"""Which rows belong together: a table split by the columns that a statistic is wanted for each of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas

from whence.errors import BadInput


def cells(
    table: pandas.DataFrame, by: str | Sequence[str], columns: Iterable[str | None]
) -> Iterator[tuple[dict[str, Any], pandas.DataFrame]]:
    """The values of `by` and the rows that have them; rows that lack one of the columns needed are left out."""
    by, needed = names(by), list(dict.fromkeys(column for column in columns if column is not None))
    if missing := [column for column in (*by, *needed) if column not in table]:
        raise BadInput(f"The table has no column {missing[0]!r}; it has: {', '.join(map(str, table.columns))}.")
    whole = table[[*by, *(column for column in needed if column not in by)]].dropna()
    if whole.empty:
        raise BadInput(f"No row of the table has all of: {', '.join((*by, *needed))}.")
    if not by:
        yield {}, whole
        return
    for key, rows in whole.groupby(by, sort=True, observed=True):
        yield dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)), rows


def names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
