"""Tables as CSV that no spreadsheet runs: a text that would be taken for a formula gets an apostrophe in front."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

RUN = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: "pandas.DataFrame", path: Path) -> None:
    """The table without its index; numbers stay numbers, negative ones too."""
    texts = table.select_dtypes(exclude=["number", "bool"])
    harmless = table.assign(**{name: column.astype(object).map(_harmless) for name, column in texts.items()})
    # a lone \r inside a text is quoted only when lines end so; unquoted, what follows it would be a cell of its own
    harmless.rename(columns=_harmless).to_csv(path, index=False, lineterminator="\r\n")


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(RUN) else cell
