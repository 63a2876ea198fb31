"""How two stacks look in a terminal: the encoder, the decoder, and which tokens of either text each token rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from whence.plot import SOURCE_ORDER, flattened, legible, style
from whence.plot.terminal import BOLD, DIM, _closed, _cut, _short, _wrapped, picture

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray

LONGEST, MOST = 16, 3  # cells of a token; sources that are named


def both_stacks(tree: xarray.DataTree, width: int, color: bool) -> Text:
    """Three pictures below each other, no line wider than `width` cells."""
    lines: list[Text] = []
    for name in ("encoder", "decoder"):
        ds = tree[name].to_dataset()
        if ds.data_vars:
            lines += [Text(name.capitalize(), style=BOLD), *picture(_alone(ds, name), width, color).split("\n"), Text()]
    lines += _both(tree, width, color)
    text = Text("\n", no_wrap=True, overflow="ignore").join(_cut(line, width) for line in lines)
    return text if color else Text(text.plain, no_wrap=True, overflow="ignore")


def _alone(ds: xarray.Dataset, name: str) -> xarray.Dataset:
    """A decoder's maps are half of their rows, and shown with the other half."""
    maps = [variable for variable in ds.data_vars if "source" in ds[variable].dims] if name == "decoder" else []
    return ds.drop_vars(maps) if len(maps) < len(ds.data_vars) else ds


def _both(tree: xarray.DataTree, width: int, color: bool) -> Iterator[Text]:
    """Each token of the answer with its main sources in either text, at the last layer."""
    decoder, cross = (flattened(tree[name].to_dataset()) for name in ("decoder", "cross"))
    name = next((variable for variable in SOURCE_ORDER if variable in cross), None)
    if name is None:
        return
    parts = [ds[name].transpose("layer", "target", "source").values[-1] for ds in (cross, decoder)]
    rows = np.nan_to_num(np.concatenate(parts, axis=1))
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-30)
    own = [f"“{_named(token)}”" for token in decoder["source_token"].values]
    names = [_named(token) for token in cross["source_token"].values] + own
    heading = f"Main sources at layer {cross['layer'].values[-1]}, per cent of {style(name).title}"
    yield from _wrapped(f"{heading}; “tokens” are the answer's own:", width, DIM)
    for target, row in zip(cross["target"].values, shares, strict=True):
        line = Text(_named(decoder["source_token"].values[target])).append(" ← " if color else " <- ", DIM)
        strongest = [source for source in np.argsort(-row, kind="stable")[:MOST] if row[source] > 0]
        for place, source in enumerate(strongest):
            itself = source == len(names) - len(own) + target
            line.append(", " if place else "").append("itself" if itself else names[source])
            line.append(f" {100 * row[source]:.0f}", BOLD)
        yield line


def _named(token: object) -> str:
    return _closed(_short(legible(str(token)), LONGEST))
