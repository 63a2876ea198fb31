"""A study's report: one HTML file that opens offline, in light and dark, and prints."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas

from whence.page.bundle import style
from whence.page.templates import rendered
from whence.studies.frame.study import Answered, Finding, Study

_VERDICTS = {"confirmed": "yes", "contradicted": "no", "undecided": "open"}
_SHORT = 14  # rows; a longer table is folded
_MOST = 40  # rows of a table on the page; all of them are in the file
# name -> theme -> the picture itself as an item of a srcset
Pictures = Mapping[str, Mapping[str, str]]


def page(
    study: Study,
    about: Mapping[str, Any],
    answers: Sequence[Answered],
    pictures: Pictures,
    models: Sequence[tuple[str, str]] = (),
    interactive: bool = True,
) -> str:
    """The whole report as text; its content security policy allows its own style and no script."""
    return rendered(
        "study.html",
        title=study.title,
        style=style("study.css"),
        study=study,
        about=about,
        answers=answers,
        claims=[item for answer in answers for item in answer.items if isinstance(item, Finding)],
        verdicts=_VERDICTS,
        pictures=pictures,
        models=models,
        interactive=interactive,
        short=_SHORT,
        most=_MOST,
        cells=_cells,
    )


def _cells(table: pandas.DataFrame) -> tuple[list[tuple[str, str]], list[list[tuple[str, str]]]]:
    """The heading and the rows of a table, every cell with the kind of its column."""
    kinds = ["number" if pandas.api.types.is_numeric_dtype(dtype) else "text" for dtype in table.dtypes]
    columns = [_column(table.iloc[:, place]) for place in range(table.shape[1])]
    rows = [list(zip(kinds, row, strict=True)) for row in zip(*columns, strict=True)]
    return list(zip(kinds, table.columns, strict=True)), rows


def _column(column: pandas.Series) -> list[str]:
    """The cells of a column: whole numbers if all of them are, else three digits of each."""
    whole = pandas.api.types.is_float_dtype(column.dtype) and bool((column.dropna() % 1 == 0).all())
    return [_cell(int(value) if whole and not pandas.isna(value) else value) for value in column.tolist()]


def _cell(value: Any) -> str:
    if pandas.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:#.3g}".rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
