"""A study's report: one HTML file that opens offline, in light and dark, and prints."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas

from whence.page.bundle import style
from whence.page.templates import rendered
from whence.studies.frame.study import Answered, Claim, Study

_VERDICTS = {True: ("yes", "confirmed"), False: ("no", "not confirmed"), None: ("open", "not decided")}
_SHORT = 14  # rows; a longer table is folded
_MOST = 40  # rows of a table on the page; all of them are in the file
# name -> theme -> the picture itself as an item of a srcset
Pictures = Mapping[str, Mapping[str, str]]


def page(study: Study, about: Mapping[str, Any], answers: Sequence[Answered], pictures: Pictures) -> str:
    """The whole report as text; its content security policy allows its own style and no script."""
    return rendered(
        "study.html",
        title=study.title,
        style=style("study.css"),
        study=study,
        about=about,
        answers=answers,
        claims=[item for answer in answers for item in answer.items if isinstance(item, Claim)],
        verdicts=_VERDICTS,
        pictures=pictures,
        short=_SHORT,
        most=_MOST,
        kind_of=lambda item: type(item).__name__,
        kinds_of=_kinds_of,
        cell=_cell,
    )


def _kinds_of(table: pandas.DataFrame) -> list[str]:
    return ["number" if pandas.api.types.is_numeric_dtype(kind) else "text" for kind in table.dtypes]


def _cell(value: Any) -> str:
    if pandas.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
