"""A read-out as plain records: the same for JSON and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot import legible

if TYPE_CHECKING:
    import xarray

TITLES = {"jacobian": "Jacobian lens", "logit": "logit lens", "tuned": "tuned lens"}


def is_read_out(ds: Any) -> bool:
    """Whether this is a Dataset of `Lens.read` or `Lens.trace`."""
    return {"lens", "layer", "candidate"} <= set(getattr(ds, "dims", ())) and "place" in ds


def record(ds: xarray.Dataset) -> dict[str, Any]:
    """One entry per token, in it one per layer, in that one per lens."""
    tokens = [_token(ds.isel(token=place)) for place in range(ds.sizes["token"])]
    shares = ds.data_vars.get("agreement")
    agreement = {} if shares is None else {str(kind): _numbers(shares.sel(lens=kind)) for kind in ds["lens"].values}
    about = {name: ds.attrs[name] for name in ("model", "text", "parameters") if name in ds.attrs}
    return about | {"layers": ds["layer"].values.tolist(), "agreement": agreement, "tokens": tokens}


def _token(ds: xarray.Dataset) -> dict[str, Any]:
    return {
        "position": int(ds["token"]),
        "token": legible(str(ds["token_text"].item())),
        "answer": legible(str(ds["answer_token"].item())),
        "probability": _number(ds["final_probability"].item()),
        "layers": [
            {"layer": int(layer)} | {str(kind): _cell(ds.sel(layer=layer, lens=kind)) for kind in ds["lens"].values}
            for layer in ds["layer"].values
        ],
    }


def _cell(ds: xarray.Dataset) -> dict[str, Any]:
    rows = zip(ds["candidate_token"].values, ds["probability"].values, ds["probability_se"].values, strict=True)
    return {
        "place": int(ds["place"]),
        "answer_probability": _number(ds["answer_probability"].item()),
        "best": [[legible(str(token)), _number(share), _number(error)] for token, share, error in rows],
    }


def _numbers(values: xarray.DataArray) -> list[float | None]:
    return [_number(value) for value in values.values.tolist()]


def _number(value: float | np.floating[Any]) -> float | None:
    """As JSON has it: six digits, null where there is none."""
    return float(f"{value:.6g}") if value == value else None
