"""What a page can draw layer by token: how much of a token is its own, how much came from others, and from where."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot import MIXING_ORDER, SOURCE_ORDER, WHOLE_MODEL, style
from whence.plot.style import OTHERS, OWN, OWN_ROLLED, PAID, ROLLED, SOURCES, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import xarray

PER_HEAD = ("layer", "head", "target", "source")
PER_LAYER = ("layer", "target", "source")
PER_TOKEN = ("layer", "target")
ERROR = "_se"
ROUNDING = 0.01
Field = dict[str, Any]


def maps(ds: xarray.Dataset) -> list[str]:
    """The maps of sources to targets, one per layer, best first."""
    return sorted((name for name in _with(ds, PER_LAYER) if not name.endswith(ERROR)), key=_place(SOURCE_ORDER))


def head_maps(ds: xarray.Dataset) -> list[str]:
    """The maps of sources to targets, one per head."""
    return _with(ds, PER_HEAD)


def flows(ds: xarray.Dataset) -> list[str]:
    """The maps a flow can be drawn by: the decomposition, which is exact, then layer after layer, then the others.

    Shares are drawn, so that lengths of the same vectors would be the same picture.
    """
    names = [name for name in (*maps(ds), *head_maps(ds)) if f"{name}_share" not in ds]
    return sorted(names, key=lambda name: (name != WHOLE_MODEL, _since(name)))


def fields(ds: xarray.Dataset) -> list[Field]:
    """One row for each field, with its sentences; `read` says how the page gets its values from the `variable`.

    own     the diagonal of a map            others  one minus it, mean of the heads
    values  the values themselves            row     the chosen token's row of a map
    """
    left = list(_left(ds))
    known = any(row["kind"] in (OWN.kind, OTHERS.kind) for row in left)
    return [*([] if known else _paid(ds)), *left, *_sources(ds)]


def _left(ds: xarray.Dataset) -> Iterator[Field]:
    """What is left of a token: its own part of each map since the input, what a mixing ratio says, and the like."""
    since = [name for name in maps(ds) if _since(name) and _adds_up(ds[name])]
    yield from (_own(name) for name in since if name in SOURCE_ORDER)
    for name in _with(ds, ("analysis", *PER_TOKEN)):
        analyses = [str(analysis) for analysis in ds["analysis"].values]
        for analysis in sorted(analyses, key=_place(MIXING_ORDER)):
            row = _field(name, "values", style(name).reading, analysis)
            yield row | {"key": f"{name} {analysis}", "place": analyses.index(analysis)}
    yield from (_own(name) for name in since if name not in SOURCE_ORDER)
    for name in _with(ds, PER_TOKEN):
        yield _field(name, "values", style(name).reading)


def _own(name: str) -> Field:
    return _field(name, "own", OWN_ROLLED if style(name).wording is ROLLED else OWN)


def _paid(ds: xarray.Dataset) -> Iterator[Field]:
    """The weight that a token gives to others, where nothing says more."""
    for name in _shared(ds):
        yield _field(name, "others", PAID)


def _sources(ds: xarray.Dataset) -> Iterator[Field]:
    """Where the chosen token came from: by maps, and by the mean of heads where no map is that mean."""
    names = maps(ds)
    means = {style(name).mean_of for name in names}
    for name in (*names, *(name for name in _shared(ds) if name not in means)):
        title = style(name).title + ("" if name in names else ", mean of heads")
        yield _field(name, "row", SOURCES, title=title) | {"key": f"sources {name}", "since_input": _since(name)}


def _shared(ds: xarray.Dataset) -> list[str]:
    """Maps by head whose rows are shares."""
    return [name for name in head_maps(ds) if style(name).unit == "share"]


def _field(name: str, read: str, reading: Reading, styled: str = "", title: str = "") -> Field:
    """The row of a variable; `styled` is the analysis after which it is called and coloured, where it has several."""
    row = style(styled or name)
    filling = {"title": title or row.title, "about": style(name).meaning}
    words = {part: _filled(text, filling) for part, text in asdict(reading).items()}
    own = {"key": name, "variable": name, "read": read, "place": 0, "style": styled or name, "title": filling["title"]}
    return words | own | {"percent": read == "row" or style(name).percent}


def _filled(text: Any, filling: dict[str, str]) -> Any:
    if not isinstance(text, str):
        return text
    for name, value in filling.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _since(name: str) -> bool:
    return style(name).wording.since_input


def _adds_up(variable: xarray.DataArray) -> bool:
    """Whether the rows of the last layer are shares, as those of contributions are; Jacobian norms are not."""
    last = variable.transpose(*PER_LAYER).values[-1]
    rows = np.nansum(last, axis=-1)[np.isfinite(last).any(axis=-1)]
    return bool(rows.size and (abs(rows - 1) <= ROUNDING).all())


def _with(ds: xarray.Dataset, dims: tuple[str, ...]) -> list[str]:
    return [str(name) for name in ds.data_vars if set(ds[name].dims) == set(dims) and ds[name].dtype.kind in "fiu"]


def _place(order: tuple[str, ...]) -> Callable[[str], int]:
    return lambda name: order.index(name) if name in order else len(order)
