"""How the stages of the LM head agree, and what the same head says after every layer, in rows for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.plot import legible

if TYPE_CHECKING:
    import xarray


def lens(ds: xarray.Dataset) -> list[dict[str, Any]]:
    """One entry per position; none when the Dataset has no lens."""
    if "lens_top" not in ds:
        return []
    return [_position(ds.isel(position=place)) for place in range(ds.sizes["position"])]


def _position(ds: xarray.Dataset) -> dict[str, Any]:
    words, scores = ds["lens_top"].transpose("state", ...).values, ds["lens_top_score"].transpose("state", ...).values
    predicted = ds.isel(candidate=0)
    places, chances = predicted["lens_place"].values, predicted["lens_probability"].values.astype(float).tolist()
    agreement = ds["head_spearman"].transpose("stage", "other_stage").values
    return {
        "position": int(ds["position"]),
        "stages": [str(stage) for stage in ds["stage"].values],
        "spearman": [[round(float(value), 4) for value in row] for row in agreement],
        "rows": [
            {
                "stage": f"after layer {layer}" if layer else "embedding",
                "place": int(place),
                "best": [legible(str(word)) for word in best],
                "scores": row_scores,
                "chance": chance,
            }
            for layer, place, best, row_scores, chance in zip(
                ds["state"].values, places, words, scores.astype(float).tolist(), chances, strict=True
            )
        ],
    }
