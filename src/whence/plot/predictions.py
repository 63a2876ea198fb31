"""What the steps of the LM head predict, in words and rows: the same in the terminal, on the page and in charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from whence.plot import legible

if TYPE_CHECKING:
    import xarray


class Row(NamedTuple):
    """One stage: where it puts the token that is predicted in the end, and its own best."""

    stage: str
    place: int
    best: list[str]
    scores: list[float]


class Prediction(NamedTuple):
    """One position, with the stages in the order of the computation."""

    position: int
    at: str
    token: str
    rows: list[Row]
    causal: bool = False

    @property
    def finding(self) -> str:
        """One sentence a reader can check in the rows."""
        said = f"“{self.token}” is predicted {'after' if self.causal else 'at'} “{self.at}”"
        ahead = [row.place == 1 for row in self.rows]
        since = len(ahead) - next((run for run, first in enumerate(reversed(ahead)) if not first), len(ahead))
        if since == 0:
            return f"{said}, and leads at every step of the head"
        first, start = self.rows[min(since, len(self.rows) - 1)], self.rows[0]
        return f"{said}: first from {first.stage} on, in place {start.place:,} at {start.stage}"


def predictions(ds: xarray.Dataset) -> list[Prediction]:
    """Those of a Dataset of whence.lm_head, one a position; the last layer's when there are several."""
    if "top" not in ds:
        return []
    found = ds[["top", "top_score", "place"]]
    found = found.isel(layer=-1) if "layer" in found["top"].dims else found
    several = found.sizes["position"] > 1
    return [_prediction(found.isel(position=place), several) for place in range(found.sizes["position"])]


def _prediction(ds: xarray.Dataset, several: bool) -> Prediction:
    words = np.vectorize(lambda token: legible(str(token)), otypes=[object])(
        ds["top"].transpose("stage", "best").values
    )
    scores, places = ds["top_score"].transpose("stage", "best").values, ds["place"].isel(candidate=0).values
    rows = [
        Row(str(stage), int(place), list(best), [float(score) for score in own])
        for stage, place, best, own in zip(ds["stage"].values, places, words, scores, strict=True)
    ]
    position, token = int(ds["position"]), legible(str(ds["position_token"].values))
    at = f"{token}({position})" if several else token
    return Prediction(position, at, rows[-1].best[0], rows, bool(ds.attrs.get("causal", 0)))
