"""What pictures say of rows that rest on the first token; words from the table of style.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot.style import SINK

if TYPE_CHECKING:
    import xarray

MEAN, BY_HEAD = "sink", "head_sink"  # the coordinates of whence.measure
SEEN = 0.005  # a share that would be written as 0 % is not worth a sentence


def rows(ds: xarray.Dataset, layer: Any, head: int | None = None) -> np.ndarray:
    """Whether the row of each target rests on the first token in a layer, in a head or by the mean of all."""
    name = MEAN if head is None else BY_HEAD
    if name not in ds.coords:
        return np.zeros(ds.sizes["target"], dtype=bool)
    at = {"layer": layer} if head is None else {"layer": layer, "head": head}
    return ds[name].sel(at).values


def sink_finding(ds: xarray.Dataset, first: str) -> str:
    """How many rows rest on the first token, in a sentence; nothing when there are none."""
    if MEAN not in ds.coords or "target" not in ds.indexes:
        return ""
    others = ds[MEAN].sel(target=ds["target"] > 0)
    share = float(others.mean()) if others.size else 0.0
    return SINK["finding"].format(first=first, share=f"{100 * share:.0f} %") if share >= SEEN else ""


def sinks(ds: xarray.Dataset) -> dict[str, Any]:
    """For a page: the words, and a text of 0 and 1 for each layer, and for each head of it; empty without a sink."""
    if MEAN not in ds.coords or not ds[MEAN].any():
        return {}
    by_layer = ds[MEAN].transpose("layer", "target").values
    by_head: Any = ds[BY_HEAD].transpose("layer", "head", "target").values if BY_HEAD in ds.coords else []
    return {
        "words": SINK,
        "rows": [_text(layer) for layer in by_layer],
        "heads": [[_text(head) for head in layer] for layer in by_head],
    }


def _text(flags: np.ndarray) -> str:
    return "".join("1" if flag else "0" for flag in flags)
