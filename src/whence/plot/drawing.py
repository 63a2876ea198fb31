"""A chart as data: which kind, which columns, what it says; drawn in light or dark, always with the same look."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Literal

import altair
import pandas

from whence.errors import BadInput
from whence.plot.encodings import (
    BARE,
    CLOSE,
    CROWDED,
    CYCLE,
    LABELLED,
    LEAST,
    MARKED,
    SEPARATOR,
    accent,
    axis_title,
    color_of,
    domain,
    has_published,
    published_marks,
    rules,
    step,
    x_axis,
    y_axis,
)
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL, Theme

__all__ = ["SEPARATOR", "Drawing", "draw"]

WIDTH, HEIGHT = 380, 260
SMALL = 150  # how high small charts are
BETWEEN = 50  # pixels of the axis of each
LINE = 13  # and a line of text
BOX = 16  # how wide a box is
ROOMY = 6  # columns of a small grid that have room for them


@dataclass(frozen=True, eq=False)
class Drawing:
    """One row of the table is one mark. `low` and `high` are a band, `published` a hollow mark beside ours.

    Kinds: lines, points, bars, boxes (columns low, lower, middle, upper, high), grid (`value` by x and y), steps (a
    histogram: x to x2, y counts), intervals (x from low to high, a row for each y).
    """

    kind: str
    table: pandas.DataFrame
    x: str
    y: str
    title: str
    subtitle: str = ""
    color: str | None = None
    dash: str | None = None
    "Of lines: solid for its first value, dashed for the others."
    value: str | None = None
    published: str | None = None
    hollow: str = "as published"
    "What the hollow marks are, said in the subtitle."
    by: str | None = None
    "One small chart for each value of this column."
    x_title: str | None = None
    y_title: str | None = None
    share: bool = True
    "Amounts are shown in per cent."
    signed: bool = False
    order: Sequence[str] | None = None
    "Of categories: on the x axis of bars and grids, or of colours."
    measures: Mapping[str, str] | None = None
    "Of categories that are called by a title: the measure whose colour each has."
    limits: tuple[float, float] | None = None
    own_scales: bool = False
    "Small charts do not share their y axis."
    columns: int | None = None
    "How many small charts stand side by side, where their size does not say it."
    rule: tuple[float, str] | None = None
    "A horizontal line and its name: chance, or a value from theory."
    upright: tuple[str, str] | None = None
    "A vertical line: the column that says where, and its name."
    raw: str | None = None
    "Of lines: a column with the single values that the line is the mean of, drawn thin behind it."
    ticks: Mapping[int, str] | None = None
    "The x axis is logarithmic, and this is written at these places of it."


def draw(drawing: Drawing, theme: Theme = "light") -> Any:
    """The chart; one without data is refused."""
    if drawing.table.empty:
        raise BadInput(f"There is nothing to draw in {drawing.title!r}: its table has no rows.")
    if drawing.by is None:
        return _finished(_KINDS[drawing.kind](drawing, drawing.table, theme), drawing, theme)
    size, columns = _small(drawing)
    columns = drawing.columns or columns
    charts = [
        _KINDS[drawing.kind](drawing, rows, theme).properties(title=str(name), **size)
        for name, rows in drawing.table.groupby(drawing.by, sort=False)
    ]
    shared: Literal["independent", "shared"] = (
        "independent" if drawing.own_scales or drawing.kind == "grid" else "shared"
    )
    return _finished(altair.concat(*charts, columns=columns).resolve_scale(y=shared), drawing, theme)


def _small(drawing: Drawing) -> tuple[dict[str, Any], int]:
    """Size of small charts and how many stand side by side; those with many columns are stacked."""
    places = drawing.table[drawing.x].nunique()
    if drawing.kind == "intervals":
        return {"width": 240, "height": {"step": 18}}, 2
    if drawing.kind == "boxes" and places > 10:
        return {"width": {"step": BOX + 2}, "height": SMALL}, 1
    if drawing.kind == "grid" and 20 < places <= CROWDED:
        return {"width": {"step": 13 if places <= CLOSE else 9}, "height": {"step": 16}}, 1
    if drawing.kind == "grid" and 10 < places <= 20:
        return {"width": {"step": 15}, "height": {"step": 15}}, 3
    return {"width": 190, "height": 190 if drawing.kind == "grid" and places > CROWDED else SMALL}, 3


def _lines(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    base = altair.Chart(rows).encode(x=x_axis(drawing, rows), y=y_axis(drawing), color=color_of(drawing, rows, theme))
    if drawing.dash is not None:
        base = base.encode(strokeDash=_dash(drawing))
    layers: list[Any] = []
    if {"low", "high"} <= set(rows) and drawing.dash is None:
        band = altair.Chart(rows).mark_area(opacity=0.18)
        layers.append(
            band.encode(x=x_axis(drawing, rows), y="low:Q", y2="high:Q", color=color_of(drawing, rows, theme))
        )
    if drawing.raw is not None:
        thin = altair.Chart(rows).mark_line(strokeWidth=0.6, opacity=0.45)
        color = color_of(drawing, rows, theme)
        layers.append(thin.encode(x=x_axis(drawing, rows), y=f"{drawing.raw}:Q", color=color))
    marked = rows[drawing.x].nunique() <= MARKED
    layers.append(base.mark_line(strokeWidth=2, point={"size": 28} if marked else False))
    layers += published_marks(drawing, rows, theme) + rules(drawing, rows, theme)
    if drawing.color is not None:
        solid = rows if drawing.dash is None else rows[rows[drawing.dash] == rows[drawing.dash].iloc[0]]
        layers.append(_names_at_ends(drawing, solid, theme))
    return altair.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _dash(drawing: Drawing) -> altair.StrokeDash:
    names = [str(name) for name in dict.fromkeys(drawing.table[drawing.dash])]
    dashes = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3]]
    scale = altair.Scale(domain=names, range=[dashes[min(place, 3)] for place in range(len(names))])
    return altair.StrokeDash(
        f"{drawing.dash}:N", scale=scale, legend=altair.Legend(title=None, orient="bottom", symbolType="stroke")
    )


def _names_at_ends(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> altair.Chart:
    """The categories' names where their lines end, moved apart so that they can be read."""
    assert drawing.color is not None
    last = rows[rows[drawing.x] == rows[drawing.x].max()].dropna(subset=[drawing.y]).sort_values(drawing.y)
    low, high = drawing.limits or _reached(drawing, rows if drawing.own_scales else drawing.table)
    line = (high - low) * LINE / (HEIGHT if drawing.by is None else SMALL)
    table = last.assign(**{drawing.y: _apart(last[drawing.y].tolist(), line, high)})
    base = altair.Chart(table[[drawing.x, drawing.y, drawing.color]]).mark_text(align="left", dx=8, fontSize=11)
    return base.encode(
        x=x_axis(drawing, rows), y=f"{drawing.y}:Q", text=f"{drawing.color}:N", color=color_of(drawing, rows, theme)
    )


def _reached(drawing: Drawing, rows: pandas.DataFrame) -> tuple[float, float]:
    """The ends of the y axis: what is drawn, and zero."""
    columns = [name for name in (drawing.y, "low", "high", drawing.published) if name in rows]
    return min(0.0, float(rows[columns].min().min())), float(rows[columns].max().max())


def _apart(values: Sequence[float], least: float, highest: float) -> list[float]:
    """Rising values at least so far apart, none above the highest unless there is no room below."""
    places: list[float] = []
    for value in values:
        places.append(value if not places else max(value, places[-1] + least))
    top = highest
    for index in reversed(range(len(places))):
        places[index] = min(places[index], max(top, highest - (len(places) - 1 - index) * least))
        top = places[index] - least
    return places


def _points(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    marks = altair.Chart(rows).mark_point(filled=True, size=22, opacity=0.55)
    if drawing.color is None:
        marks = marks.encode(color=altair.value(CYCLE[0] if theme == "light" else "#4ba0df"))
    else:
        marks = marks.encode(color=color_of(drawing, rows, theme, legend=True))
    layers = [marks.encode(x=x_axis(drawing, rows), y=y_axis(drawing)), *published_marks(drawing, rows, theme)]
    return altair.layer(*layers, *rules(drawing, rows, theme)).properties(width=WIDTH, height=HEIGHT)


def _bars(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    color = color_of(drawing, rows, theme) if drawing.color else altair.value(accent(theme))
    bars = (
        altair.Chart(rows)
        .mark_bar(size=18, opacity=0.9)
        .encode(x=x_axis(drawing, rows), y=y_axis(drawing), color=color)
    )
    layers: list[Any] = [bars]
    if {"low", "high"} <= set(rows):
        rule = altair.Chart(rows).mark_rule(color=FURNITURE[theme]["ink"], strokeWidth=1.5)
        layers.append(rule.encode(x=x_axis(drawing, rows), y="low:Q", y2="high:Q"))
    return altair.layer(*layers, *published_marks(drawing, rows, theme), *rules(drawing, rows, theme)).properties(
        width={"step": step(drawing)}, height=HEIGHT
    )


def _boxes(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    x, chart = x_axis(drawing, rows), altair.Chart(rows)
    color = color_of(drawing, rows, theme) if drawing.color else altair.value(accent(theme))
    ink = FURNITURE[theme]["ink"]
    whiskers = chart.mark_rule(color=FURNITURE[theme]["muted"]).encode(x=x, y=y_axis(drawing, "low"), y2="high:Q")
    boxes = chart.mark_bar(size=BOX, opacity=0.75).encode(x=x, y="lower:Q", y2="upper:Q", color=color)
    middle = chart.mark_tick(color=ink, size=BOX, thickness=2).encode(x=x, y="middle:Q")
    layers = [whiskers, boxes, middle, *published_marks(drawing, rows, theme)]
    return altair.layer(*layers).properties(width={"step": step(drawing)}, height=HEIGHT)


def _grid(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    assert drawing.value is not None
    most = float(drawing.table[drawing.value].abs().max()) or 1.0  # small charts share their colours
    low, high = drawing.limits or ((-most, most) if drawing.signed else (0.0, most))
    stops = DIVERGING[theme] if drawing.signed else SEQUENTIAL[theme]
    scale = altair.Scale(domain=[low, high], range=list(stops), interpolate="rgb", clamp=True)
    form = ".0%" if drawing.share else ".2f"
    legend = altair.Legend(title=None, format=form, orient="bottom", gradientLength=140)
    place = {
        "x": x_axis(drawing, rows),
        "y": altair.Y(f"{drawing.y}:O", title=axis_title(drawing.y_title, drawing.y), sort="descending"),
    }
    if not pandas.api.types.is_numeric_dtype(rows[drawing.y]):
        crowded = rows[drawing.y].nunique() > CROWDED
        axis = altair.Axis(labels=False, ticks=False) if crowded else altair.Axis(labelExpr=BARE)
        place["y"] = altair.Y(f"{drawing.y}:N", title=axis_title(drawing.y_title, drawing.y), sort=None, axis=axis)
    cells = (
        altair.Chart(rows)
        .mark_rect()
        .encode(**place, color=altair.Color(f"{drawing.value}:Q", scale=scale, legend=legend))
    )
    layers: list[Any] = [cells]
    if len(rows) <= LABELLED and (drawing.by is None or rows[drawing.x].nunique() <= ROOMY):
        threshold = 0.55 * high if drawing.signed else low + 0.55 * (high - low)
        strong = f"datum['{drawing.value}'] > {threshold}" + (
            f" || datum['{drawing.value}'] < {-threshold}" if drawing.signed else ""
        )
        ink = altair.condition(strong, altair.value(FURNITURE[theme]["paper"]), altair.value(FURNITURE[theme]["ink"]))
        text = altair.Text(f"{drawing.value}:Q", format=form)
        layers.append(altair.Chart(rows).mark_text(fontSize=10).encode(**place, text=text, color=ink))
    return altair.layer(*layers).properties(
        width={"step": step(drawing)}, height={"step": 22 if len(layers) > 1 else 14}
    )


def _steps(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> altair.Chart:
    color = color_of(drawing, rows, theme) if drawing.color else altair.value(accent(theme))
    bars = altair.Chart(rows).mark_bar(opacity=0.85, binSpacing=0)
    x = altair.X(
        f"{drawing.x}:Q", title=axis_title(drawing.x_title, drawing.x), bin="binned", scale=domain(drawing.limits)
    )
    return bars.encode(x=x, x2=f"{drawing.x}_end:Q", y=y_axis(drawing), color=color).properties(width=WIDTH, height=160)


def _intervals(drawing: Drawing, rows: pandas.DataFrame, theme: Theme) -> Any:
    """Rows in the order of the table: a mark, and a line from low to high."""
    y = altair.Y(
        f"{drawing.y}:N", sort=None, title=axis_title(drawing.y_title, drawing.y), axis=altair.Axis(labelLimit=220)
    )
    axis = altair.Axis(format="%" if drawing.share else altair.Undefined, tickCount=5, grid=False)
    title, scale = axis_title(drawing.x_title, drawing.x), altair.Scale(zero=False)
    x = altair.X(f"{drawing.x}:Q", title=title, axis=axis, scale=scale)
    lines = altair.Chart(rows).mark_rule(color=FURNITURE[theme]["muted"], strokeWidth=1.5)
    color = color_of(drawing, rows, theme, legend=True)
    marks = altair.Chart(rows).mark_point(filled=True, size=46).encode(x=x, y=y, color=color)
    layers = [lines.encode(x=altair.X("low:Q", title=title, scale=scale), x2="high:Q", y=y), marks]
    return altair.layer(*layers).properties(width=WIDTH, height={"step": 18})


_KINDS: dict[str, Callable[[Drawing, pandas.DataFrame, Theme], Any]] = {
    "lines": _lines,
    "points": _points,
    "bars": _bars,
    "boxes": _boxes,
    "grid": _grid,
    "steps": _steps,
    "intervals": _intervals,
}


def _width(drawing: Drawing) -> int:
    if drawing.by is not None:
        size, columns = _small(drawing)
        panel = size["width"]
        across = panel["step"] * drawing.table[drawing.x].nunique() if isinstance(panel, dict) else panel
        return min(600, (across + BETWEEN) * min(drawing.columns or columns, drawing.table[drawing.by].nunique()))
    by_step = drawing.kind in ("bars", "boxes", "grid")
    return max(LEAST, step(drawing) * drawing.table[drawing.x].nunique()) if by_step else WIDTH + 60


def _margin(drawing: Drawing) -> int:
    """Room for row labels in a browser whose font is wider than the one that the chart was laid out with."""
    labels = drawing.table[drawing.y]
    words = drawing.kind in ("grid", "intervals") and not pandas.api.types.is_numeric_dtype(labels)
    return 5 + min(30, int(labels.astype(str).str.len().max())) if words else 5


def _finished(chart: Any, drawing: Drawing, theme: Theme) -> Any:
    colors = FURNITURE[theme]
    drawn = _width(drawing)
    wide = max(LEAST, drawn)
    right = max(90 if drawing.kind == "lines" else 8, wide - drawn)
    hollow = [f"hollow: {drawing.hollow}"] if has_published(drawing, drawing.table) else []
    heading = altair.TitleParams(
        wrap(drawing.title, wide // 8),
        subtitle=wrap("; ".join(filter(None, [drawing.subtitle, *hollow])), 10 * wide // 68),
        anchor="start",
        offset=12,
        color=colors["ink"],
        subtitleColor=colors["muted"],
    )
    return (
        chart.properties(
            title=heading,
            padding={"left": _margin(drawing), "right": right, "top": 5, "bottom": 5},
        )
        .configure(font="system-ui, sans-serif", background=colors["paper"])
        .configure_view(stroke=None)
        .configure_title(color=colors["ink"], subtitleColor=colors["muted"])
        .configure_axis(
            grid=False,
            domainColor=colors["line"],
            tickColor=colors["line"],
            labelColor=colors["ink"],
            titleColor=colors["muted"],
        )
        .configure_legend(labelColor=colors["ink"], titleColor=colors["muted"])
        .configure_header(labelColor=colors["ink"])
    )
