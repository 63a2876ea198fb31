"""How an explained prediction looks in a terminal: the text shaded by its shares, or with plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from whence.plot.palette import amount, ink_on, signed
from whence.plot.stacks import layer_names, texts
from whence.plot.terminal import BOLD, DIM, _closed, _cut, _short, _theme, _wrapped
from whence.plot.terminal_scene import grids, in_scene
from whence.plot.why import (
    CONSTANTS,
    LINE,
    OTHERS,
    SINK,
    VALUES,
    Explained,
    chance,
    components,
    explained,
    gaps,
    in_percent,
    kind,
    limit,
    measures,
    number,
    profile,
    rows,
    sink_of,
    whole,
    worded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import xarray

MOST_SOURCES = 8
MOST_TOKENS = 400  # shaded; of a longer text its beginning and its end
LONGEST = 32  # cells of a source's name
BARS = "▁▂▃▄▅▆▇█"
TITLES = {"share": "share", "dependence": "dependence", "carried": "through the answer"}
UNITS = {"share": "Part of the {value}", "dependence": "Length of the derivative"}


def picture(ds: xarray.Dataset, layers: Sequence[int], width: int, color: bool) -> Text:
    """What is predicted and why, no line wider than `width` cells; `str()` of it is plain text."""
    predictions = explained(ds)
    lines = list(_one(ds.isel(predicted=0), predictions[0], layers, width, color) if len(predictions) == 1 else ())
    if len(predictions) > 1:
        lines += _several(ds, predictions, layers, width, color)
    text = Text("\n", no_wrap=True, overflow="ignore").join(_cut(line, width) for line in lines)
    return text if color else Text(text.plain, no_wrap=True, overflow="ignore")


def _one(ds: xarray.Dataset, prediction: Explained, layers: Sequence[int], width: int, color: bool) -> Iterator[Text]:
    yield from _wrapped(prediction.finding, width, BOLD)
    if prediction.alternatives:
        best = [f"{_closed(token)} {chance(share)}" for token, share in prediction.alternatives]
        yield from _parts(Text(f"{OTHERS[kind(ds)]}: ", style=DIM), best, width)
    yield from _shaded(ds, layers, width, color)
    yield from [Text(), *_sources(ds, width)]
    if "component_share" in ds:
        yield from [Text(), *_components(ds, width)]
    yield from _depth(ds, prediction, width, color)


def _several(
    ds: xarray.Dataset, predictions: list[Explained], layers: Sequence[int], width: int, color: bool
) -> Iterator[Text]:
    answer = " ".join(str(ds.attrs.get("answer", "")).split())
    yield from _wrapped(f"The answer: {worded(answer)}" if answer else f"{len(predictions)} predictions", width, BOLD)
    yield from _wrapped(f"Each token with its strongest sources at layer 0.{_columns(ds)}", width, DIM)
    longest = max(min(max(cell_len(prediction.token) for prediction in predictions), LONGEST // 2), len("token"))
    yield from [Text(), Text(f"{'token':<{longest}}  {_head(ds)}  strongest sources", style=DIM)]
    for place, prediction in enumerate(predictions):
        yield from _block(ds.isel(predicted=place), prediction, longest, width)
    total = whole(ds)
    if total is not None:
        yield from [Text(), Text("All of them together", style=BOLD), *_shaded(total, layers, width, color)]
        yield from [Text(), *_sources(total, width)]
    if total is not None and "component_share" in ds:
        yield from [Text(), *_components(total, width)]


def _columns(ds: xarray.Dataset) -> str:
    """What the columns mean that the Dataset has."""
    depth = " Layer: from there on, half of the logit sits at the position that predicts." if "share" in ds else ""
    return depth + (" By answer: the part that came by the answer's own tokens." if "carried_through" in ds else "")


def _head(ds: xarray.Dataset) -> str:
    return "chance" + "  layer" * ("share" in ds) + "  by answer" * ("carried_through" in ds)


def _block(ds: xarray.Dataset, prediction: Explained, longest: int, width: int) -> Iterator[Text]:
    """One token: its probability, the layer where it is settled, its three strongest sources."""
    token, name = _short(prediction.token, longest), measures(ds)[0]
    numbers = f"  {prediction.chance:>6.6}"
    if "share" in ds:
        numbers += f"  {'–' if prediction.settled is None else prediction.settled:>5}"
    if "carried_through" in ds:
        numbers += f"  {_percent(float(ds['carried_through'])):>9}"
    head = Text().append(_closed(token) + " " * (longest - cell_len(token)), BOLD).append(f"{numbers}  ", DIM)
    room = max(LONGEST // 2, (width - head.cell_len) // 3 - 14)
    best = [f"{_short(row.name, room)}{' (sink)' * row.is_sink} {number(row.values[name])}" for row in rows(ds)[:3]]
    yield from _parts(head, best, width)


def _parts(head: Text, parts: Sequence[str], width: int, between: str = ", ") -> Iterator[Text]:
    """A list behind its head, broken into lines between its parts."""
    indent = min(head.cell_len, width // 2)
    line = head
    for place, part in enumerate(parts):
        shown = part + between.rstrip() * (place < len(parts) - 1)
        if place and line.cell_len + cell_len(shown) > width:
            line.rstrip()
            yield line
            line = Text(" " * indent, style=head.style)
        line.append(shown + " ")
    line.rstrip()
    yield line


# The text


def _shaded(ds: xarray.Dataset, layers: Sequence[int], width: int, color: bool) -> Iterator[Text]:
    name = measures(ds)[0]
    for layer in layers:
        values = ds[name].sel(layer=layer).values
        sink = sink_of(ds, name, values)
        end = limit(values, sink)
        drawn = in_scene(ds, "source")
        scaled = f", per cent of {number(end)}" if drawn.any() and not color and "source_row" in ds.coords else ""
        yield from [Text(), *_wrapped(f"{_unit(ds, name)} by token, at {_layer(ds, layer)}{scaled}:", width, DIM)]
        if drawn.any():
            yield from grids(ds, "source", values, end, width, _theme() if color else None)
        for title, places in _parts_of(ds, drawn):
            yield from [Text(title, style=DIM)] if title and places else []
            yield from _flowing(ds, values, places, sink, end, width, color)
        if color:
            yield from [*_legend(name, end, values, sink, width)]


def _layer(ds: xarray.Dataset, layer: int) -> str:
    """How a layer is spoken of; that of two stacks by its own as well."""
    if layer == 0:
        return "layer 0 (the embeddings)"
    names = layer_names(ds)
    return f"layer {layer}" + (f" ({names[ds['layer'].values.tolist().index(layer)]})" if names else "")


def _parts_of(ds: xarray.Dataset, drawn: np.ndarray) -> list[tuple[str, list[int]]]:
    """The texts of an encoder-decoder, each with its title and its places; else all, without one."""
    parts = texts(ds) or [("", 0)]
    ends = [first for _, first in parts[1:]] + [ds.sizes["source"]]
    return [
        (title, [place for place in range(first, end) if not drawn[place]])
        for (title, first), end in zip(parts, ends, strict=True)
    ]


def _unit(ds: xarray.Dataset, name: str) -> str:
    lead = name == "share" and "against_token" in ds.coords
    return "Part of the lead" if lead else UNITS[name].format(value=VALUES[kind(ds)])


def _flowing(
    ds: xarray.Dataset, values: np.ndarray, places: list[int], sink: int | None, end: float, width: int, color: bool
) -> Iterator[Text]:
    """The tokens as a text, broken into lines between tokens; without colours each with its number."""
    tokens = [str(token) for token in ds["source_token"].values]
    spaces = gaps(tokens)
    special = ds["source_is_special"].values
    line = Text()
    for place in _kept(places):
        if place is None:
            piece, before = Text(f"… {len(places) - MOST_TOKENS} tokens …", style=DIM), "  "
        else:
            style = _look(float(values[place]), place == sink, bool(special[place]), end, bool((values < 0).any()))
            piece = Text(_closed(worded(tokens[place])), style=style)
            before = " " if spaces[place] and line.cell_len else ""
            if not color:
                piece.append(f" {number(values[place])}" + f" {SINK}" * (place == sink))
                before = "   " if line.cell_len else ""
        if line.cell_len and line.cell_len + len(before) + piece.cell_len > width:
            yield line
            line, before = Text(), ""
        line.append(before).append_text(piece)
        if place is not None and tokens[place].endswith(LINE) and color:
            yield line
            line = Text()
    yield from [line] if line.cell_len else []


def _kept(places: list[int]) -> Iterator[int | None]:
    """The places that are shown as text; None stands for those left out."""
    if len(places) <= MOST_TOKENS:
        yield from places
        return
    yield from places[: MOST_TOKENS // 3]
    yield None
    yield from places[MOST_TOKENS // 3 - MOST_TOKENS :]


def _look(value: float, sink: bool, special: bool, end: float, both: bool) -> Style:
    if sink:
        return Style(dim=True, italic=True)
    beneath = signed(value / end, _theme()) if both else amount(value / end, _theme())
    return Style(bgcolor=beneath, color=ink_on(beneath), italic=special)


def _legend(name: str, end: float, values: np.ndarray, sink: int | None, width: int) -> Iterator[Text]:
    both = bool((values < 0).any())
    line = Text().append(f"{number(-end) if both else '0'} ", DIM)
    for step in range(17):
        share = step / 16
        line.append(" ", Style(bgcolor=signed(2 * share - 1, _theme()) if both else amount(share, _theme())))
    yield line.append(f" {number(end)}", DIM)
    if sink is not None:
        yield from _wrapped(f"The {SINK} has {number(values[sink])} and is left out of the scale.", width, DIM)


# The sources


def _sources(ds: xarray.Dataset, width: int) -> Iterator[Text]:
    """The strongest spans, with the part of each in per cent where parts have one sign."""
    listed = rows(ds)
    columns = [name for name in TITLES if name in listed[0].values]
    bias = float(ds["bias"].sel(layer=0)) if "bias" in ds else 0.0
    shares = np.array([row.values["share"] for row in listed]) if "share" in columns else np.zeros(0)
    of_all = abs(shares).sum() + abs(bias) if in_percent(shares, bias) else None
    names = [_short(row.labelled, min(LONGEST + 22 * bool(row.sink), width - 30)) for row in listed[:MOST_SOURCES]]
    wide = max(cell_len(name) for name in [*names, "Strongest sources"])
    head = "  ".join(f"{TITLES[name]:>10}" for name in columns) + ("    of all" if of_all else "")
    yield Text().append(f"{'Strongest sources':<{wide}}  {head}", DIM)
    for name, row in zip(names, listed, strict=False):
        line = Text(_closed(name) + " " * (wide - cell_len(name)))
        for column in columns:
            line.append(f"  {_written(column, row.values[column]):>{max(10, len(TITLES[column]))}}")
        yield line.append(f"  {_percent(row.values['share'] / of_all):>8}" if of_all else "")
    if len(listed) > MOST_SOURCES:
        yield Text(f"and {len(listed) - MOST_SOURCES} more", style=DIM)
    if abs(bias) >= 0.005:
        yield Text(f"{CONSTANTS:<{wide}}  {number(bias):>10}", style=DIM)


def _written(column: str, value: float) -> str:
    return _percent(value) if column == "carried" else number(value)


def _percent(value: float | np.floating[Any]) -> str:
    return f"{100 * value:.0f} %".replace("-", "−")


def _components(ds: xarray.Dataset, width: int) -> Iterator[Text]:
    best = [f"{name} {number(value)}" for name, value in components(ds, MOST_SOURCES)]
    yield from [Text("Strongest heads and feed-forwards", style=DIM), *_parts(Text(), best, width, "; ")]


# The depth


def _depth(ds: xarray.Dataset, prediction: Explained, width: int, color: bool) -> Iterator[Text]:
    """How much of the logit sits at the position that predicts, layer by layer."""
    parts = profile(ds)
    if parts is None:
        return
    layers = ds["layer"].values
    since = "" if prediction.settled is None else f": half of it from layer {prediction.settled} on"
    yield Text()
    yield from _wrapped(f"{_unit(ds, 'share')} that sits at “{prediction.at}” itself{since}", width, BOLD)
    if color and len(layers) + 12 <= width:
        steps = np.clip(np.round(parts * (len(BARS) - 1)), 0, len(BARS) - 1).astype(int)
        bars = "".join(BARS[step] for step in steps)
        yield (
            Text()
            .append(f"layer {layers[0]} ", DIM)
            .append(bars, Style(color=amount(0.6, _theme())))
            .append(f" {layers[-1]}", DIM)
        )
    chosen = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 9)).round().astype(int))
    told = [f"{_percent(parts[place])} at {layers[place]}" for place in chosen]
    yield from _parts(Text("By layer: ", style=DIM), told, width)
