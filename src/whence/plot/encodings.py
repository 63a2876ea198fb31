"""The axes and the colours of a chart, and what is drawn beside its own marks: published values and reference lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import altair
import pandas

from whence.plot.palette import FURNITURE, Theme, amount
from whence.plot.style import named_color

if TYPE_CHECKING:
    from whence.plot.drawing import Drawing

MARKED = 24  # places on the x axis up to which each is marked on a line
LEAST = 320  # pixels of a chart
LABELLED = 150  # cells up to which a grid shows its numbers
WORDS, CHARACTER = 12, 5.6  # characters of a line below an axis, and pixels of each
CLOSE, CROWDED = 60, 120  # places on an axis beyond which their names are small, and left out
# categories that no measure has a colour for, in this order (Okabe & Ito)
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
# names may be told apart by a number behind an invisible separator, which is not shown
SEPARATOR = "\u2063"
_STEP = re.compile(r"(?:layer )?(\d+)(?:[-–]\d+|\+)?")
BARE = f"split(datum.label, '{SEPARATOR}')[0]"


def accent(theme: Theme) -> str:
    return "#0072b2" if theme == "light" else "#2a93d5"


def x_axis(drawing: Drawing, rows: pandas.DataFrame) -> altair.X:
    title = axis_title(drawing.x_title, drawing.x)
    numeric = pandas.api.types.is_numeric_dtype(rows[drawing.x])
    if drawing.ticks is not None:
        names = json.dumps({str(place): name for place, name in drawing.ticks.items()})
        axis = altair.Axis(values=list(drawing.ticks), labelExpr=f"split({names}[datum.value], '\\n')")
        return altair.X(f"{drawing.x}:Q", title=title, axis=axis, scale=altair.Scale(type="log", nice=False))
    if numeric and (drawing.kind == "points" or rows[drawing.x].nunique() > MARKED):
        return altair.X(f"{drawing.x}:Q", title=title, scale=altair.Scale(zero=False))
    if not numeric and drawing.kind == "grid" and rows[drawing.x].nunique() > CROWDED:
        return altair.X(f"{drawing.x}:N", title=title, sort=None, axis=altair.Axis(labels=False, ticks=False))
    labels = {} if numeric else {name: wrap(name.split(SEPARATOR)[0], WORDS) for name in rows[drawing.x].astype(str)}
    longest = max((len(line) for lines in labels.values() for line in lines), default=0)
    fits = drawing.by is None and CHARACTER * longest <= step(drawing)
    tilted = not fits and any(len(name) > 4 for name in labels)
    return altair.X(
        f"{drawing.x}:{'O' if numeric else 'N'}",
        title=title,
        sort=list(drawing.order) if drawing.order and drawing.color is None else None,
        axis=altair.Axis(
            labelAngle=(-90 if drawing.kind == "grid" else -40) if tilted else 0,
            labelExpr=f"{json.dumps(labels)}[datum.label]" if labels and fits else BARE,
            labelFontSize=8 if rows[drawing.x].nunique() > CLOSE else altair.Undefined,
        ),
    )


def step(drawing: Drawing) -> int:
    """Pixels for each place on an axis of categories, so that no chart is narrower than its title."""
    count = drawing.table[drawing.x].nunique()
    least = 42 if drawing.kind == "grid" and len(drawing.table) <= LABELLED else 30 if drawing.kind != "grid" else 14
    return max(least, min(70, LEAST // count))


def axis_title(title: str | None, column: str) -> str | None:
    """Of an axis: the column's name unless another is given; an empty one means none."""
    return column if title is None else title or None


def y_axis(drawing: Drawing, column: str | None = None) -> altair.Y:
    limits = drawing.limits if drawing.kind != "steps" else None
    return altair.Y(
        f"{column or drawing.y}:Q",
        title=axis_title(drawing.y_title, drawing.y),
        axis=altair.Axis(
            format="%" if drawing.share and drawing.kind != "steps" else altair.Undefined, tickCount=6, grid=False
        ),
        scale=domain(limits),
    )


def domain(limits: tuple[float, float] | None) -> Any:
    return altair.Undefined if limits is None else altair.Scale(domain=list(limits))


def color_of(drawing: Drawing, rows: pandas.DataFrame, theme: Theme, legend: bool = False) -> Any:
    if drawing.color is None:
        return altair.value(accent(theme))
    names = [str(name) for name in (drawing.order or dict.fromkeys(drawing.table[drawing.color]))]
    colors = steps(names, theme) or distinct(
        [named_color((drawing.measures or {}).get(name, name), theme) for name in names]
    )
    shown = altair.Legend(title=None, orient="bottom") if legend else None
    return altair.Color(f"{drawing.color}:N", scale=altair.Scale(domain=names, range=colors), legend=shown)


def steps(names: Sequence[str], theme: Theme) -> list[str]:
    """Layers and other numbered steps: one hue, from light to dark (in the dark, dark to light) in their own order."""
    numbers = [int(match[1]) for name in names if (match := _STEP.fullmatch(name))]
    if len(numbers) < len(names) or len(names) < 2:
        return []
    places = {number: place / (len(names) - 1) for place, number in enumerate(sorted(numbers))}
    return [amount(0.5 + 0.5 * places[number], theme) for number in numbers]


def distinct(colors: Sequence[str | None]) -> list[str]:
    """Each category's own colour if nobody before it has it, else the next that is free; over again when none is."""
    taken: list[str] = []
    for place, color in enumerate(colors):
        if color is None or color in taken:
            wanted = {*taken, *colors[place + 1 :]}
            color = next((other for other in CYCLE if other not in wanted), CYCLE[place % len(CYCLE)])
        taken.append(color)
    return taken


def published_marks(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> list[Any]:
    """Hollow marks where the paper gives a number, in the colour of ours unless they would lie on it."""
    if not has_published(drawing, rows):
        return []
    published = rows.dropna(subset=[drawing.published])
    marks = altair.Chart(published).mark_point(filled=False, size=70, strokeWidth=1.6, shape="diamond")
    colored = drawing.color is not None and drawing.kind in ("lines", "points")
    color = color_of(drawing, rows, theme) if colored else altair.value(FURNITURE[theme]["ink"])
    return [marks.encode(x=x_axis(drawing, rows), y=f"{drawing.published}:Q", color=color)]


def has_published(drawing: Drawing, rows: pandas.DataFrame) -> bool:
    return drawing.published in rows and not rows[drawing.published].isna().all()


def rules(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> list[Any]:
    """The lines of reference, each with its name."""
    muted, marks = FURNITURE[theme]["muted"], []
    if drawing.rule is not None:
        across = _reference(*drawing.rule)
        marks.append(across.mark_rule(strokeDash=[4, 3], color=muted).encode(y="at:Q"))
        name = across.mark_text(align="left", dy=-6, dx=4, color=muted, fontSize=10)
        marks.append(name.encode(y="at:Q", x=altair.value(0), text="name:N"))
    if drawing.upright is not None:
        column, says = drawing.upright
        upright = _reference(float(rows[column].iloc[0]), says)
        marks.append(upright.mark_rule(strokeDash=[4, 3], color=muted).encode(x="at:Q"))
        name = upright.mark_text(align="left", dy=4, dx=4, color=muted, fontSize=10, baseline="top")
        marks.append(name.encode(x="at:Q", y=altair.value(0), text="name:N"))
    return marks


def _reference(place: float, says: str) -> altair.Chart:
    return altair.Chart(pandas.DataFrame({"at": [place], "name": [says]}))
