"""Tables as CSV in which no spreadsheet runs a formula: a text that looks like one gets an apostrophe in front."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

RUN = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: "pandas.DataFrame", path: Path) -> None:
    """The table without its index; numbers stay numbers, negative ones too."""
    texts = table.select_dtypes(exclude=["number", "bool"])
    harmless = table.assign(**{name: column.astype(object).map(_harmless) for name, column in texts.items()})
    # pandas quotes a lone \r inside a text only when lines end in one; unquoted, it would begin a new row
    harmless.rename(columns=_harmless).to_csv(path, index=False, lineterminator="\r\n")


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(RUN) else cell
