"""What goes into the page of a lens: what every state says by each lens, and one token from both sides where traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot import legible
from whence.plot.lens import TITLES, record
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL, THEMES
from whence.plot.terminal_lens import finding

if TYPE_CHECKING:
    import xarray

CAME = {
    "contribution": "how much each input token has to do with this token, by the norm of its derivative",
    "decomposition_share": "of the lengths of the vectors that this token is the sum of, the part of each input token",
}


def payload(ds: xarray.Dataset) -> dict[str, Any]:
    """Everything the page draws, ready for JSON."""
    traced = "token" not in ds.dims
    read = ds.drop_vars("agreement").expand_dims("token") if traced else ds
    words = read.assign_coords(token_text=("token", np.atleast_1d(ds["token_text"].values)))
    data = record(words)
    chosen = _opened(words)
    return {
        "finding": _plain(finding(words.isel(token=chosen)).replace(" %", "\N{NO-BREAK SPACE}%")),
        "attrs": {str(name): _plain(str(value)) for name, value in ds.attrs.items()},
        "lenses": [
            {"name": str(kind), "title": TITLES[str(kind)][0].upper() + TITLES[str(kind)][1:]}
            for kind in ds["lens"].values
        ],
        "layers": data["layers"],
        "agreement": data["agreement"],
        "tokens": [token | {"shown": token["token"]} for token in data["tokens"]],
        "opened": chosen,
        "trace": _trace(ds) if traced else None,
        "palette": {
            theme: {**FURNITURE[theme], "sequential": SEQUENTIAL[theme], "diverging": DIVERGING[theme], "measures": {}}
            for theme in THEMES
        },
    }


def _opened(ds: xarray.Dataset) -> int:
    """A mask, or the last token of a decoder."""
    if int(ds.attrs.get("causal", 0)):
        return ds.sizes["token"] - 1
    return next((place for place, text in enumerate(ds["token_text"].values) if "mask" in str(text).lower()), 0)


def _trace(ds: xarray.Dataset) -> dict[str, Any]:
    came = {name: _rows(ds[name].transpose("layer", "source").values) for name in CAME if name in ds}
    carried = None
    if "share" in ds:
        carried = {
            "predicted": ds["predicted"].values.tolist(),
            "tokens": [legible(str(token)) for token in ds["predicted_token"].values],
            "probability": _row(ds["predicted_probability"].values),
            "share": _rows(ds["share"].transpose("layer", "predicted").values),
            "share_of_all": _rows(ds["share_of_all"].transpose("layer", "predicted").values),
        }
    return {
        "token": int(ds.attrs["traced"]),
        "sources": [legible(str(token)) for token in ds["source_token"].values],
        "came": came,
        "meaning": {name: CAME[name] for name in came},
        "given": carried,
    }


def _rows(values: np.ndarray) -> list[list[float | None]]:
    return [_row(row) for row in values]


def _row(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.6g}") if value == value else None for value in values.tolist()]


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
