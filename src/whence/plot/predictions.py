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
        sentence = f"“{self.token}” is predicted {'after' if self.causal else 'at'} “{self.at}”"
        ahead = [row.place == 1 for row in self.rows]
        since = len(ahead) - next((run for run, first in enumerate(reversed(ahead)) if not first), len(ahead))
        if since == 0:
            return f"{sentence}, and leads at every step of the head"
        first, start = self.rows[min(since, len(self.rows) - 1)], self.rows[0]
        return f"{sentence}: first from {first.stage} on, in place {start.place:,} at {start.stage}"


def predictions(ds: xarray.Dataset) -> list[Prediction]:
    """The predictions in a Dataset of whence.lm_head, one per position; of several layers those of the last."""
    if "top" not in ds:
        return []
    last_layer = ds[["top", "top_score", "place"]]
    last_layer = last_layer.isel(layer=-1) if "layer" in last_layer["top"].dims else last_layer
    several = last_layer.sizes["position"] > 1
    return [_prediction(last_layer.isel(position=place), several) for place in range(last_layer.sizes["position"])]


def _prediction(ds: xarray.Dataset, several: bool) -> Prediction:
    words = np.vectorize(lambda token: legible(str(token)), otypes=[object])(
        ds["top"].transpose("stage", "best").values
    )
    scores, places = ds["top_score"].transpose("stage", "best").values, ds["place"].isel(candidate=0).values
    rows = [
        Row(str(stage), int(place), list(best), [float(score) for score in row_scores])
        for stage, place, best, row_scores in zip(ds["stage"].values, places, words, scores, strict=True)
    ]
    position, token = int(ds["position"]), legible(str(ds["position_token"].values))
    at = f"{token}({position})" if several else token
    return Prediction(position, at, rows[-1].best[0], rows, bool(ds.attrs.get("causal", 0)))
