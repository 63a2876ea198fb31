"""Charts of one sentence's Dataset, as Altair objects: save them as SVG, PNG, PDF or HTML."""

from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair
import numpy as np
import pandas
import xarray

from whence.errors import BadInput
from whence.plot import SOURCE_ORDER, flattened, legible, mixing_analysis, mixing_finding, percent, style
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL
from whence.plot.predictions import headline
from whence.plot.sinks import rows as sink_rows
from whence.plot.stacks import CROSS, aligned, words
from whence.plot.style import CAUTION, ROLLED, SINK

CELL = 22
COMPACT = 60
WIDTH = 340  # pixels of a chart that is no grid
LEAST = 320  # pixels of a heading
LARGE, SMALL = 7.6, 6.2  # pixels of a character in a title, in a subtitle
APART = "\u2063"  # an invisible separator
INK = FURNITURE["light"]["ink"]


def overview(ds: xarray.Dataset) -> Any:
    """What a text says at a glance: the mixing ratios of all layers, or without them a map of the last layer.

    Args:
        ds: what `whence.measure` gives

    Returns:
        An Altair chart.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention", "mixing"])
        >>> from whence.plot import charts
        >>> charts.overview(ds).to_dict()["mark"]["type"]
        'rect'
    """
    flat = flattened(ds)
    names = [str(name) for name in flat.data_vars if {"layer", "target", "source"} <= set(flat[name].dims)]
    if "mixing" not in flat and not names:
        raise BadInput("A chart needs mixing or a map of targets by sources; ask for one of them, such as attention.")
    best = sorted(names, key=lambda name: SOURCE_ORDER.index(name) if name in SOURCE_ORDER else -1)
    chart = mixing_grid(ds) if "mixing" in flat else maps(ds, best[:1], int(flat["layer"].values[-1]))
    if told := headline(ds):
        chart.title.text = [*wrap(told, int(max(LEAST, _wide(ds.sizes["target"])) / LARGE)), *chart.title.text]
    return chart


def mixing_grid(ds: xarray.Dataset, analysis: str | None = None) -> Any:
    """Layers x tokens, coloured by the share that came from other tokens; the last layer on top.

    Args:
        ds: what `whence.measure` gives
        analysis: which of the analyses; the most complete one unless given

    Returns:
        An Altair chart.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention", "mixing"])
        >>> from whence.plot import charts
        >>> charts.mixing_grid(ds, "attn_n").to_dict()["mark"]["type"]
        'rect'
    """
    ds = flattened(ds)
    analysis = analysis or mixing_analysis(ds)
    values = _at(ds["mixing"], "analysis", analysis)
    rows = _long(values.values, ("layer", "target"), ds)
    chart: Any = _cells(rows, "target", "layer", float(values.max()), signed=False, descending=True)
    sample = f"share from other tokens by {style(analysis).title}; {_sample(ds)}"
    subtitle: str | list[str] = sample
    resting = np.array([sink_rows(ds, layer) for layer in ds["layer"].values])
    if resting.any():
        chart, subtitle = _dotted(chart, rows[resting.ravel()]), [sample, SINK["dots"]]
    return finished(chart, mixing_finding(ds.sel({"analysis": [analysis]})), subtitle, _wide(ds.sizes["target"]))


def _dotted(chart: altair.Chart, rows: pandas.DataFrame) -> Any:
    """The cells, with a dot in some of them."""
    dots = altair.Chart(rows).mark_circle(size=12, color=INK, opacity=0.9, stroke="white", strokeWidth=0.6)
    places = {"x": altair.X("target:N", sort=None), "y": altair.Y("layer:N", sort="descending")}
    return altair.layer(chart, dots.encode(**places)).properties(width=chart.width, height=chart.height)


def mixing_lines(ds: xarray.Dataset) -> altair.LayerChart:
    """Mean mixing ratio by layer, a line per analysis, labelled directly.

    Args:
        ds: what `whence.measure` gives

    Returns:
        An Altair chart.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention", "mixing"])
        >>> from whence.plot import charts
        >>> len(charts.mixing_lines(ds).layer)
        2
    """
    ds = flattened(ds)
    mean = ds["mixing"].mean("target")
    names = [str(name) for name in ds["analysis"].values]
    scale = altair.Scale(domain=names, range=[style(name).colored("light") for name in names])
    base = altair.Chart(mean.to_dataframe().reset_index()).encode(
        x=altair.X("layer:O", title="layer", axis=altair.Axis(labelAngle=0)),
        y=altair.Y("mixing:Q", title="from other tokens", axis=altair.Axis(format="%"), scale={"domain": [0, 1]}),
        color=altair.Color("analysis:N", scale=scale, legend=None),
    )
    labels = base.mark_text(align="left", dx=10, fontSize=11).encode(text="title:N")
    labels.data = _line_ends(mean)
    chart = (base.mark_line(point=True, strokeWidth=2) + labels).properties(width=WIDTH, height=260)
    overall = mean.mean("layer")
    low, high = percent(float(overall.min())), percent(float(overall.max()))
    title = f"From {low} to {high} came from other tokens, depending on what is counted"
    return finished(chart, title, f"mean over {_sample(ds)}")


def maps(ds: xarray.Dataset, names: list[str], layer: int, head: int | None = None) -> altair.HConcatChart:
    """Targets x sources of one layer, side by side; heads averaged unless one is named. Rows read from columns.

    Maps of one unit share their limits, so that a colour means the same amount in each.

    Args:
        ds: what `whence.measure` gives
        names: of the maps: attention, attn_n, contribution, …
        layer: 1 is the first
        head: one of them

    Returns:
        An Altair chart.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention", "mixing"])
        >>> from whence.plot import charts
        >>> len(charts.maps(ds, ["attention"], layer=6, head=0).hconcat)
        1
    """
    ds = flattened(ds)
    by_name = {name: _map(_at(_named(ds, name), "layer", layer), head) for name in names}
    units = {name: "length" if ds[name].attrs.get("units") == "length" else "share" for name in names}
    charts, marked = [], False
    for name, values in by_name.items():
        most = max(float(abs(other).max()) for twin, other in by_name.items() if units[twin] == units[name])
        resting = sink_rows(ds, layer, head if "head" in ds[name].dims else None)
        rows = _long(values.values, ("target", "source"), ds, resting)
        marked |= bool(resting.any())
        signed = float(values.min()) < -1e-6
        chart = _cells(rows, "source", "target", most, signed, descending=False, share=units[name] == "share")
        charts.append(chart.properties(title=style(name).title))
    heads = ", mean of the heads" if head is None else f", head {head}"
    if not any("head" in ds[name].dims for name in names):
        heads = ""
    row = altair.hconcat(*charts).resolve_scale(color="independent")
    rolled = any(style(name).wording is ROLLED for name in names)
    notes = [*([SINK["rows"]] if marked else []), *([f"rolled out: {CAUTION}"] if rolled else [])]
    subtitle = [f"rows are targets, columns are sources; {_sample(ds)}", *notes]
    return finished(row, f"Layer {layer}{heads}", subtitle, len(names) * _wide(ds.sizes["source"]))


def alignment(tree: xarray.DataTree, name: str | None = None, layer: int | None = None) -> Any:
    """Words of an answer x words of its source: how much of each comes from where; the last layer unless one is named.

    By contributions, or the best map there is of shares. Pieces of a source word are added, those of an answer's word
    averaged, and so are heads.
    """
    name, layer, values = aligned(tree, name, layer)
    cross = tree[CROSS].to_dataset()
    places = np.indices(values.shape)
    rows = pandas.DataFrame({"value": values.ravel()})
    for axis, place in zip(("target", "source"), places, strict=True):
        rows[axis] = np.asarray(_word_names(cross, axis))[place.ravel()]
    chart = _cells(rows, "source", "target", float(values.max()), signed=False, descending=False)
    sample = f"{style(name).title}; {values.shape[0]} and {values.shape[1]} words, {tree.attrs.get('model', '')}"
    subtitle = ["rows are words of the answer, columns words of the source", sample]
    return finished(chart, f"Layer {layer}", subtitle, _wide(values.shape[1]))


def _word_names(ds: xarray.Dataset, axis: str) -> list[str]:
    """Words with their position behind a separator, as `_names` has tokens; a token that is of no word is itself."""
    tokens, named, special = (ds[f"{axis}_{name}"].values for name in ("token", "word", "is_special"))
    return [
        f"{legible(str(named[first] or tokens[first]))}{APART}{place}{APART if special[first] else ''}"
        for place, (first, _) in enumerate(words(ds, axis))
    ]


def write(chart: Any, path: str | Path) -> None:
    """By the file's ending: .svg, .pdf, .png, .html, .json; a page carries all it needs and opens offline.

    Args:
        chart: what a function of this module gives, changed or not
        path: the file; what is there is replaced

    Returns:
        None.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention", "mixing"])
        >>> from whence.plot import charts
        >>> charts.write(charts.mixing_grid(ds), "grid.svg")
    """
    options: dict[str, dict[str, Any]] = {".html": {"inline": True}, ".png": {"scale_factor": 2}}
    chart.save(path, **options.get(Path(path).suffix, {}))


def _sample(ds: xarray.Dataset) -> str:
    return f"{ds.sizes['target']} tokens, {ds.attrs.get('model', '')}"


def _line_ends(mean: xarray.DataArray) -> pandas.DataFrame:
    """Where each line ends, moved apart so that the names can be read."""
    last = mean.isel(layer=-1).to_series().sort_values()
    apart = last.to_numpy().copy()
    for place in range(1, len(apart)):
        apart[place] = max(apart[place], apart[place - 1] + 0.06)
    names = [style(str(name)).title for name in last.index]
    return pandas.DataFrame(
        {"analysis": last.index, "mixing": apart, "title": names, "layer": int(mean["layer"].values[-1])}
    )


def _map(values: xarray.DataArray, head: int | None) -> xarray.DataArray:
    if "head" not in values.dims:
        return values
    return values.mean("head") if head is None else _at(values, "head", head)


def _named(ds: xarray.Dataset, name: str) -> xarray.DataArray:
    available = [str(variable) for variable in ds.data_vars if {"layer", "target", "source"} <= set(ds[variable].dims)]
    if name not in available:
        raise _missing("map", name, available)
    return ds[name]


def _at(values: xarray.DataArray, axis: str, label: object) -> xarray.DataArray:
    """The values at one label of an axis."""
    labels = values[axis].values.tolist()
    if label not in labels:
        raise _missing(axis, label, labels)
    return values.sel({axis: label})


def _missing(kind: str, name: object, labels: Iterable[object]) -> BadInput:
    return BadInput(f"There is no {kind} {name!r} in the Dataset; there are: {', '.join(map(str, labels)) or 'none'}.")


def _long(
    values: np.ndarray, axes: tuple[str, str], ds: xarray.Dataset, resting: np.ndarray | None = None
) -> pandas.DataFrame:
    """One row per cell, tokens numbered so that equal ones stay apart; targets that rest on the first token say so."""
    first, second = np.indices(values.shape)
    frame = pandas.DataFrame({axes[0]: first.ravel(), axes[1]: second.ravel(), "value": values.ravel()})
    for axis in axes:
        names = ds["layer"].values if axis == "layer" else _names(ds, axis, resting if axis == "target" else None)
        frame[axis] = np.asarray(names)[frame[axis]]
    return frame


def _names(ds: xarray.Dataset, axis: str, resting: np.ndarray | None) -> list[str]:
    """Tokens with their position behind a separator that the axis does not show; one more behind special tokens."""
    tokens = enumerate(zip(ds[f"{axis}_token"].values, ds[f"{axis}_is_special"].values, strict=True))
    words = [f" ({SINK['label']})" if resting is not None and resting[place] else "" for place in range(ds.sizes[axis])]
    return [
        f"{legible(str(token))}{words[place]}{APART}{place}{APART if special else ''}"
        for place, (token, special) in tokens
    ]


def _cells(
    rows: pandas.DataFrame, across: str, down: str, most: float, signed: bool, descending: bool, share: bool = True
) -> altair.Chart:
    most = most or 1.0
    domain, colours = ([-most, most], DIVERGING["light"]) if signed else ([0, most], SEQUENTIAL["light"])
    special = f"length(split(datum.label, '{APART}')) > 2"
    tokens = altair.Axis(
        labelExpr=f"split(datum.label, '{APART}')[0]",
        title=None,
        labelFont="monospace",
        labelColor={"condition": {"test": special, "value": FURNITURE["light"]["muted"]}, "value": INK},
        labelFontStyle={"condition": {"test": special, "value": "italic"}, "value": "normal"},
        ticks=False,
    )
    layers = altair.Axis(title="layer", ticks=False)
    return (
        altair.Chart(rows)
        .mark_rect()
        .encode(
            x=altair.X(f"{across}:N", sort=None, axis=tokens),
            y=altair.Y(
                f"{down}:N", sort="descending" if descending else None, axis=layers if down == "layer" else tokens
            ),
            color=altair.Color(
                "value:Q",
                scale=altair.Scale(domain=domain, range=list(colours), interpolate="rgb"),
                legend=altair.Legend(title=None, format=".0%" if share else ".2", orient="bottom", gradientLength=140),
            ),
            tooltip=[down, across, altair.Tooltip("value:Q", format=".3")],
        )
        .properties(width={"step": _pixels(rows[across].nunique())}, height={"step": _pixels(rows[down].nunique())})
    )


def _pixels(places: int) -> int:
    """For each place on an axis."""
    return CELL if places <= COMPACT else 6


def _wide(columns: int) -> int:
    return columns * _pixels(columns)


def finished(chart, title: str, subtitle: str | list[str], width: int = WIDTH):
    """The chart, so many pixels wide, under its heading. Vega cuts a heading that is wider, so it is wrapped."""
    colours, room = FURNITURE["light"], max(LEAST, width)
    notes = [subtitle] if isinstance(subtitle, str) else subtitle
    heading = altair.TitleParams(
        wrap(title, int(room / LARGE)),
        subtitle=[line for note in notes for line in wrap(note, int(room / SMALL))],
        anchor="start",
        offset=12,
        subtitleColor=colours["muted"],
    )
    return (
        chart.properties(title=heading, padding={"left": 5, "top": 5, "bottom": 5, "right": 5 + room - width})
        .configure(font="system-ui, sans-serif", background=colours["paper"])
        .configure_view(stroke=None)
        .configure_axis(grid=False, domain=False, labelColor=colours["ink"], titleColor=colours["muted"])
    )
