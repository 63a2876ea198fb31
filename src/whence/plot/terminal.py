"""How one sentence looks in a terminal: layers by tokens, as coloured blocks or as plain numbers."""

from __future__ import annotations

import math
import os
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from . import SOURCE_ORDER, contribution_finding, flattened, legible, mean, mixed, mixing_finding, percent, style
from .palette import Theme, amount, ink_on
from .predictions import Prediction, long_headline, predictions
from .sinks import rows as sink_rows
from .sinks import sink_finding
from .style import SINK
from .terminal_scene import grids, in_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray

LONGEST_TOKEN = 16  # cells; a longer token is cut, the page shows it whole
MOST_TOKENS = 40  # rows of the list of main sources
MOST_PREDICTIONS = 3  # masks; the page shows them all
DIM, BOLD = Style(dim=True), Style(bold=True)
LEFT_TO_RIGHT = "\u200e"  # ends a right-to-left token, so that terminals with bidi do not swap columns


class Column(NamedTuple):
    token: str
    special: bool
    width: int


def picture(ds: xarray.Dataset, width: int, color: bool) -> Text:
    """The sentence layer by layer, no line wider than `width` cells; `str()` of it is plain text."""
    ds = flattened(ds)
    lines = [*_headline(ds, width), *_wrapped(mixing_finding(ds), width, BOLD)]
    if "mixing" in ds or "attention" in ds:
        title, values = mixed(ds)
        lines += _wrapped(f"Per cent: {title}; {_sample(ds)}.", width, DIM)
        limit = _limit(values)
        drawn = _drawn(ds, values, limit, width, color)
        lines += [Text(), *(drawn or _bands(ds, values, limit, width))]
        lines += [Text(), _legend(limit)] if color else []
    resting = sink_finding(ds, _first(ds))
    lines += [Text(), *_wrapped(f"{resting}.", width, BOLD)] if resting else []
    name = next((name for name in SOURCE_ORDER if name in ds), None)
    if name:
        lines += [Text(), *_sources(ds, name, width, color)]
    predicted = predictions(ds)
    for prediction in predicted[:MOST_PREDICTIONS]:
        lines += [Text(), *stages(prediction, width)]
    if len(predicted) > MOST_PREDICTIONS:
        lines += [Text(), Text(f"and {len(predicted) - MOST_PREDICTIONS} more: the page shows them", style=DIM)]
    text = Text("\n", no_wrap=True, overflow="ignore").join(_cut(line, width) for line in lines)
    return text if color else Text(text.plain, no_wrap=True, overflow="ignore")


def _headline(ds: xarray.Dataset, width: int) -> Iterator[Text]:
    """What is predicted, before everything else."""
    if told := long_headline(ds):
        yield from _wrapped(told, width, BOLD)
        yield Text()


def _first(ds: xarray.Dataset) -> str:
    """The first token, as it stands in a sentence; without a map, by its place."""
    return f"“{legible(str(ds['source_token'].values[0]))}”" if "source_token" in ds.coords else "Token 0"


def _sample(ds: xarray.Dataset) -> str:
    special = int(ds["target_is_special"].values.sum())
    of_them = f", {special} special" if special else ""
    count = ds.sizes["target"]
    return f"mean over {count} token{'s' if count > 1 else ''}{of_them}; last layer on top"


def _limit(values: np.ndarray) -> float:
    """The share at the deep end of the scale: the largest, rounded up to a tenth."""
    largest = float(np.nanmax(values, initial=0.1, where=np.isfinite(values)))
    return min(math.ceil(largest * 10 - 1e-6) / 10, 1.0)


# The grid


def _bands(ds: xarray.Dataset, values: np.ndarray, limit: float, width: int) -> Iterator[Text]:
    layers = [str(layer) for layer in ds["layer"].values]
    gutter = max(len("layer"), *map(len, layers))
    means, cells = mean(values, axis=1).tolist(), values.tolist()
    room = max(width - gutter - 8, 4)  # after "layer  mean  "
    for place, band in enumerate(_split(_columns(ds, min(room - 1, LONGEST_TOKEN)), room)):
        yield from [Text()] if place else []
        yield _head([column for _, column in band], gutter)
        for row in reversed(range(len(layers))):
            line = Text(f"{layers[row]:>{gutter}}  {_number(means[row]):>4}  ")
            for target, column in band:
                line.append(*_cell(cells[row][target], column.width, limit))
            yield line


def _drawn(ds: xarray.Dataset, values: np.ndarray, limit: float, width: int, color: bool) -> list[Text]:
    """The last layer's values over the picture or the sound, where most tokens stand for a part of one."""
    if in_scene(ds, "target").mean() <= 0.5:
        return []
    layers, means = ds["layer"].values.tolist(), mean(values, axis=1).tolist()
    told = ", ".join(f"{_number(value)} at {layer}" for layer, value in zip(layers, means, strict=True))
    how = "patch by patch" if "target_row" in ds.coords else "along time"
    return [
        *_wrapped(f"Mean by layer: {told}. Layer {layers[-1]}, {how}:", width, DIM),
        *grids(ds, "target", values[-1], limit if color else 1.0, width, _theme() if color else None),
    ]


def _columns(ds: xarray.Dataset, longest: int) -> list[Column]:
    tokens = [_short(legible(str(token)), max(longest, 1)) for token in ds["target_token"].values]
    return [
        Column(token, bool(special), max(cell_len(token), 3) + 1)
        for token, special in zip(tokens, ds["target_is_special"].values, strict=True)
    ]


def _split(columns: list[Column], room: int) -> Iterator[list[tuple[int, Column]]]:
    """Columns in bands of at most `room` cells, each with its place in the sentence."""
    ends = np.cumsum([column.width for column in columns])
    cuts, start = [0], 0
    for place, end in enumerate(ends):
        if end - start > room and place > cuts[-1]:
            cuts.append(place)
            start = ends[place - 1]
    for first, last in pairwise([*cuts, len(columns)]):
        yield [(place, columns[place]) for place in range(first, last)]


def _head(columns: list[Column], gutter: int) -> Text:
    line = Text().append(f"{'layer':>{gutter}}  mean  ", DIM)
    for column in columns:
        padding = " " * (column.width - cell_len(column.token))
        line.append(padding + _closed(column.token), _token_style(column.special))
    return line


def _cell(value: float, width: int, limit: float) -> tuple[str, Style]:
    number = _number(value).rjust(width)
    if not math.isfinite(value):
        return number, Style()
    beneath = amount(value / limit, _theme())
    return number, Style(bgcolor=beneath, color=ink_on(beneath))


def _legend(limit: float) -> Text:
    line = Text().append("0 % ", DIM)
    for step in range(16):
        line.append(" ", Style(bgcolor=amount(step / 15, _theme())))
    return line.append(f" {percent(limit)}", DIM)


# Where each token came from


def _sources(ds: xarray.Dataset, name: str, width: int, color: bool) -> Iterator[Text]:
    """Each token's three main sources at the last layer, in as many columns as fit."""
    rows = np.nan_to_num(ds[name].transpose("layer", "target", "source").values[-1])
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-30)
    if name == "contribution":
        yield from _wrapped(contribution_finding(ds), width, BOLD)
    since = "after" if name in ("contribution", "jacobian") or name.startswith("rollout") else "in"
    heading = f"Main sources {since} layer {ds['layer'].values[-1]}, per cent of {style(name).title}"
    yield from _wrapped(f"{heading}{_accuracy(ds, name)}:", width, DIM)
    tokens = _told_apart([_short(legible(str(token)), LONGEST_TOKEN) for token in ds["source_token"].values])
    special = [bool(flag) for flag in ds["source_is_special"].values]
    targets = ds["target"].values if "target" in ds.indexes else np.arange(len(rows))
    resting = sink_rows(ds, ds["layer"].values[-1])
    listed = _last_first(targets, ds)[:MOST_TOKENS]
    entries = [
        _entry(int(targets[row]), shares[row].tolist(), tokens, special, color, bool(resting[row])) for row in listed
    ]
    column = max(entry.cell_len for entry in entries) + 3
    across = max((width + 3) // column, 1)
    down = -(-len(entries) // across)
    for row in range(down):
        line = Text()
        for entry in entries[row::down]:
            line.append_text(entry).append(" " * (column - entry.cell_len))
        line.rstrip()
        yield line
    if len(targets) > MOST_TOKENS:
        yield Text(f"and {len(targets) - MOST_TOKENS} more tokens: the page shows them", style=DIM)
    if resting[listed].any():
        yield from _wrapped(f"{SINK['list']}.", width, DIM)


def _last_first(targets: np.ndarray, ds: xarray.Dataset) -> list[int]:
    """The rows in reading order; in a decoder the last comes first, from which the prediction is made."""
    order = list(range(len(targets)))
    return order[::-1] if ds.attrs.get("causal", 0) else order


def _accuracy(ds: xarray.Dataset, name: str) -> str:
    """What an estimate says of itself."""
    share = float(ds[name].attrs.get("misplaced", 0.0))
    estimate = f"about {percent(share)}" if share >= 0.005 else "less than 1 %"
    return f" (estimated, {estimate} are at the wrong source)" if share > 0 else ""


def _entry(target: int, shares: list[float], tokens: list[str], special: list[bool], color: bool, sink: bool) -> Text:
    line = Text().append(_closed(tokens[target]), _token_style(special[target]))
    line.append(" ← " if color else " <- ", DIM)
    main = [int(source) for source in np.argsort(shares, kind="stable")[::-1][:3] if shares[source] > 0]
    for place, source in enumerate([*main, 0] if sink and 0 not in main else main):
        line.append(", " if place else "")
        if source == target:
            line.append("itself")
        else:
            line.append(_closed(tokens[source]), _token_style(special[source]))
        line.append(f" {_number(shares[source])}", BOLD)
        line.append(f" ({SINK['label']})" if sink and source == 0 else "", DIM)
    return line


def _told_apart(tokens: list[str]) -> list[str]:
    """Tokens that occur more than once carry their place in the sentence."""
    times = Counter(tokens)
    return [f"{token}({place})" if times[token] > 1 else token for place, token in enumerate(tokens)]


# What is predicted


def stages(prediction: Prediction, width: int) -> Iterator[Text]:
    """The best tokens after every step of the head, the last step on top, as many as fit."""
    yield from _wrapped(prediction.finding, width, BOLD)
    caption = f"Best tokens after each step of the LM head, last step on top; place: that of “{prediction.token}”."
    yield from _wrapped(caption, width, DIM)
    gutter = max(len(row.stage) for row in prediction.rows)
    digits = max(len("place"), *(len(f"{row.place:,}") for row in prediction.rows))
    yield Text(f"{'step':<{gutter}}  {'place':>{digits}}  best", style=DIM)
    for row in reversed(prediction.rows):
        line = Text(f"{row.stage:<{gutter}}  ").append(f"{row.place:>{digits},}  ", DIM)
        for token in row.best:
            shown = _closed(_short(token, LONGEST_TOKEN))
            if line.cell_len + cell_len(shown) > width:
                break
            line.append(shown, BOLD if token == prediction.token else Style()).append("  ")
        line.rstrip()
        yield line


# Words


def _number(share: float) -> str:
    return f"{100 * share:.0f}" if math.isfinite(share) else "-"


def _short(token: str, longest: int) -> str:
    return token if cell_len(token) <= longest else set_cell_size(token, max(longest - 2, 0)).rstrip() + ".."[:longest]


def _closed(token: str) -> str:
    directions = {unicodedata.bidirectional(character) for character in token}
    return token + LEFT_TO_RIGHT if directions & {"R", "AL"} else token


def _token_style(special: bool) -> Style:
    return Style(dim=True, italic=True) if special else Style()


def _theme() -> Theme:
    """Light when the terminal says its background is (COLORFGBG, set by rxvt, Konsole and others); dark otherwise."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def _wrapped(sentence: str, width: int, style: Style) -> Iterator[Text]:
    line = ""
    for word in sentence.split():
        if line and cell_len(f"{line} {word}") > width:
            yield Text(line, style=style)
            line = word
        else:
            line = f"{line} {word}".strip()
    yield Text(line, style=style)


def _cut(line: Text, width: int) -> Text:
    if cell_len(line.plain) > width:
        line.truncate(width, overflow="crop")
    return line
