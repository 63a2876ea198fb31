"""What goes into a page: the sentence, the arrays, and what everything is called."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.citations import credit
from whence.page.arrays import DIMS, differences, embedded
from whence.page.fields import ERROR, PER_LAYER, fields, flows, head_maps, maps
from whence.page.lens import lens
from whence.page.rows import filled, measured
from whence.page.scene import PICTURE, scene
from whence.plot import finding, flattened, legible, style
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL, THEMES, opposed
from whence.plot.predictions import Prediction, headline, predictions
from whence.plot.sinks import sinks
from whence.plot.stacks import alignments, texts, words
from whence.plot.style import LM_HEAD, SUMS, WORDINGS
from whence.plot.terms import STEPS, terms

if TYPE_CHECKING:
    import xarray

# A panel is the module of the same name among the views, with one `render(container, data, state, palette)`.
PANELS = ("alignment", "left", "whence", "flow", "maps", "heads", "prediction", "compare")


def payload(ds: xarray.Dataset) -> dict[str, Any]:
    """Everything the page draws, ready for JSON."""
    ds = flattened(filled(ds))
    derived = differences(ds)
    names = [name for name in drawn(ds) if name not in derived]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib lets go of the interpreter lock
        arrays = dict(zip(names, pool.map(embedded, (ds[name] for name in names)), strict=True))
    return describe(ds) | {"variables": arrays | derived}


def drawn(ds: xarray.Dataset) -> list[str]:
    """The variables a page can draw."""
    return [str(name) for name in ds.data_vars if set(ds[name].dims) <= set(DIMS) and ds[name].dtype.kind in "fiu"]


def describe(ds: xarray.Dataset) -> dict[str, Any]:
    """What a page has to know besides the arrays: the sentence, the names, the colours, the finding."""
    names = drawn(ds)
    analyses = [str(analysis) for analysis in ds["analysis"].values] if "analysis" in ds.coords else []
    styled = (*names, *analyses)
    return {
        "finding": (headline(_head(ds)) or finding(ds)).replace(" %", "\N{NO-BREAK SPACE}%"),
        "credit": credit(ds),
        "attrs": {str(name): _plain(str(value)) for name, value in ds.attrs.items() if name != PICTURE},
        "causal": int(ds.attrs.get("causal", 0)) == 1 and not _looks_ahead(ds),
        "tokens": _tokens(ds),
        "rows": measured(ds),
        "scene": scene(ds, "target"),
        "layers": ds["layer"].values.tolist() if "layer" in ds.coords else [],
        "heads": int(ds.sizes.get("head", 0)),
        "maps": maps(ds),
        "head_maps": head_maps(ds),
        "flows": _flows(ds),
        "fields": fields(ds),
        "sums": [asdict(group) | {"names": [name for name in group.names if name in names]} for group in SUMS],
        "notes": [name for name in names if set(ds[name].dims) == {"layer", "head"} and style(name).note],
        "errors": {name: name + ERROR for name in names if name + ERROR in names},
        "absent": {name: layers for name in names if (layers := _absent(ds[name]))},
        "predictions": [_prediction(prediction) for prediction in predictions(_head(ds))],
        "lens": lens(ds),
        "sinks": sinks(ds),
        "texts": [{"title": title, "first": first} for title, first in texts(ds)],
        "alignment": {"maps": alignments(ds), "words": words(ds)} if texts(ds) else None,
        "lm_head": LM_HEAD,
        "steps": STEPS,
        "panels": panels(ds),
        "styles": {name: _style(name) for name in styled},
        "wordings": {name: asdict(wording) for name, wording in WORDINGS.items()},
        "palette": _palette(styled),
        "terms": terms(),
        "signed": {theme: opposed(theme) for theme in THEMES},
    }


def panels(ds: xarray.Dataset) -> list[str]:
    """The panels this Dataset has the variables for, in reading order; a flow needs all layers and all targets."""
    all_maps, kinds = [*maps(ds), *head_maps(ds)], {row["kind"] for row in fields(ds)}
    available = {
        "alignment": texts(ds) and alignments(ds),
        "left": kinds - {"sources"},
        "whence": kinds & {"sources"},
        "flow": _flows(ds),
        "maps": all_maps,
        "heads": head_maps(ds),
        "prediction": "top" in ds,
        "compare": kinds,
    }
    return [panel for panel in PANELS if available[panel]]


def _flows(ds: xarray.Dataset) -> list[str]:
    """Maps that every layer and target has, else a path would end where one is missing."""
    return [name for name in flows(ds) if measured(ds) is None and not _absent(ds[name])]


def _absent(variable: xarray.DataArray) -> list[int]:
    """Places of the layers without this map, because they do not attend."""
    if not set(PER_LAYER) <= set(variable.dims):
        return []
    edge = variable.isel(source=0).isnull().all("target")
    return [int(place) for place in np.flatnonzero(edge.any([dim for dim in edge.dims if dim != "layer"]))]


def _tokens(ds: xarray.Dataset) -> list[dict[str, Any]]:
    if "target_token" not in ds:  # of the heads alone, say
        return []
    return [
        {"text": _plain(str(token)), "shown": legible(str(token)), "word": _plain(str(word)), "special": bool(special)}
        for token, word, special in zip(
            ds["target_token"].values, ds["target_word"].values, ds["target_is_special"].values, strict=True
        )
    ]


def _looks_ahead(ds: xarray.Dataset) -> bool:
    """Whether tokens of a picture see each other in a model that otherwise reads from left to right (Gemma 3)."""
    if "target_row" not in ds.coords or measured(ds) is not None:
        return False
    names = [*maps(ds), *head_maps(ds)]
    orders = (ds[name].transpose(..., "target", "source").values for name in names)
    return any(bool(np.triu(np.nan_to_num(values), 1).any()) for values in orders)


def _head(ds: xarray.Dataset) -> xarray.Dataset:
    """What is known of the LM head."""
    return ds[[name for name in ("top", "top_score", "place", "probability") if name in ds]]


def _prediction(prediction: Prediction) -> dict[str, Any]:
    return prediction._asdict() | {"finding": prediction.finding, "rows": [row._asdict() for row in prediction.rows]}


def _style(name: str) -> dict[str, Any]:
    row = style(name)
    return {
        "title": row.title,
        "meaning": row.meaning,
        "percent": row.percent,
        "note": row.note,
        "wording": next(name for name, wording in WORDINGS.items() if wording is row.wording),
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
