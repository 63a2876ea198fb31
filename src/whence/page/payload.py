"""What goes into a page: the sentence, the arrays, and what everything is called."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.page.arrays import DIMS, differences, embedded
from whence.page.lens import lens
from whence.plot import MIXING_ORDER, SOURCE_ORDER, finding, flattened, legible, style
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL, THEMES
from whence.plot.predictions import Prediction, predictions
from whence.plot.style import WORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import xarray

PER_HEAD = ("layer", "head", "target", "source")
PER_LAYER = ("layer", "target", "source")

# Which panel needs which: it is shown when one of these names, or a variable with one of these dims, is there.
# A panel is the module of the same name in this folder, with one `render(container, data, state)`.
PANELS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "left": ("mixing", "contribution", "attention"),
    "whence": (PER_LAYER, "attention"),
    "flow": (PER_LAYER, PER_HEAD),
    "maps": (PER_HEAD, PER_LAYER),
    "heads": (PER_HEAD,),
    "prediction": ("top",),
    "compare": (PER_LAYER, "mixing", "attention"),
}


def payload(ds: xarray.Dataset) -> dict[str, Any]:
    """Everything the page draws, ready for JSON."""
    ds = flattened(ds)
    given = differences(ds)
    names = [name for name in drawn(ds) if name not in given]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib lets go of the interpreter lock
        arrays = dict(zip(names, pool.map(embedded, (ds[name] for name in names)), strict=True))
    return describe(ds) | {"variables": arrays | given}


def drawn(ds: xarray.Dataset) -> list[str]:
    """The variables a page can draw."""
    return [str(name) for name in ds.data_vars if set(ds[name].dims) <= set(DIMS) and ds[name].dtype.kind in "fiu"]


def describe(ds: xarray.Dataset) -> dict[str, Any]:
    """What a page has to know besides the arrays: the sentence, the names, the colours, the finding."""
    names = drawn(ds)
    analyses = [str(analysis) for analysis in ds["analysis"].values] if "analysis" in ds.coords else []
    maps = [name for name in names if set(ds[name].dims) == set(PER_LAYER) and not name.endswith("_se")]
    return {
        "finding": finding(ds).replace(" %", "\N{NO-BREAK SPACE}%"),
        "attrs": {str(name): _plain(str(value)) for name, value in ds.attrs.items()},
        "causal": int(ds.attrs.get("causal", 0)) == 1,
        "tokens": _tokens(ds),
        "layers": ds["layer"].values.tolist() if "layer" in ds.coords else [],
        "heads": int(ds.sizes.get("head", 0)),
        "analyses": sorted(analyses, key=_rank(MIXING_ORDER)),
        "analysis_places": {analysis: place for place, analysis in enumerate(analyses)},
        "maps": sorted(maps, key=_rank(SOURCE_ORDER)),
        "head_maps": [name for name in names if set(ds[name].dims) == set(PER_HEAD)],
        "absent": {name: layers for name in names if (layers := _absent(ds[name]))},
        "predictions": [_prediction(one) for one in predictions(_head(ds))],
        "lens": lens(ds),
        "panels": panels(ds),
        "styles": {name: _style(name) for name in (*names, *analyses)},
        "wordings": {verb: asdict(wording) for verb, wording in WORDINGS.items()},
        "palette": _palette((*names, *analyses)),
    }


def panels(ds: xarray.Dataset) -> list[str]:
    """The panels this Dataset has the variables for, in reading order; a flow needs all layers."""
    whole = [name for name in ds.data_vars if not _absent(ds[name])]
    return [
        panel
        for panel, needs in PANELS.items()
        if _there(ds, whole if panel == "flow" else list(ds.data_vars)) & set(needs)
    ]


def _there(ds: xarray.Dataset, names: list[Hashable]) -> set[str | tuple[str, ...]]:
    """Names of variables, and their axes."""
    return {str(name) for name in names} | {tuple(dim for dim in DIMS if dim in ds[name].dims) for name in names}


def _absent(variable: xarray.DataArray) -> list[int]:
    """Places of the layers without this map, because they do not attend."""
    if not set(PER_LAYER) <= set(variable.dims):
        return []
    corner = variable.isel(target=0, source=0).isnull()
    return [int(place) for place in np.flatnonzero(corner.any([dim for dim in corner.dims if dim != "layer"]))]


def _tokens(ds: xarray.Dataset) -> list[dict[str, Any]]:
    if "target_token" not in ds:  # of the heads alone, say
        return []
    return [
        {"text": _plain(str(token)), "shown": legible(str(token)), "word": _plain(str(word)), "special": bool(special)}
        for token, word, special in zip(
            ds["target_token"].values, ds["target_word"].values, ds["target_is_special"].values, strict=True
        )
    ]


def _head(ds: xarray.Dataset) -> xarray.Dataset:
    """What is known of the LM head."""
    return ds[[name for name in ("top", "top_score", "place") if name in ds]]


def _prediction(one: Prediction) -> dict[str, Any]:
    return one._asdict() | {"finding": one.finding, "rows": [row._asdict() for row in one.rows]}


def _rank(order: tuple[str, ...]) -> Callable[[str], int]:
    return lambda name: order.index(name) if name in order else len(order)


def _style(name: str) -> dict[str, Any]:
    row = style(name)
    return {
        "title": row.title,
        "meaning": row.meaning,
        "unit": row.unit,
        "percent": row.percent,
        "note": row.note,
        "wording": row.wording.verb,
    }


def _palette(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        theme: {
            **FURNITURE[theme],
            "sequential": SEQUENTIAL[theme],
            "diverging": DIVERGING[theme],
            "measures": {name: style(name).colored(theme) for name in names},
        }
        for theme in THEMES
    }


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
