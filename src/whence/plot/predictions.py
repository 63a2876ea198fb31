"""What the steps of the LM head predict, in words and rows: the same in the terminal, on the page and in charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from whence.plot import legible, percent
from whence.plot.why import worded

if TYPE_CHECKING:
    import xarray

RUNNERS_UP = 2
MOST = 3  # masks in one headline


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
    chances: tuple[float, ...] = ()
    "the probabilities of the best tokens of the last step"

    @property
    def sentence(self) -> str:
        return f"“{worded(self.token)}” is predicted {'after' if self.causal else 'at'} “{worded(self.at)}”"

    @property
    def runners_up(self) -> str:
        """The tokens behind the first, with their probabilities."""
        behind = list(zip(self.rows[-1].best, self.chances, strict=True))[1 : RUNNERS_UP + 1]
        return " and ".join(f"“{worded(token)}” ({chance(share)})" for token, share in behind)

    @property
    def finding(self) -> str:
        """One sentence a reader can check in the rows."""
        sentence = self.sentence
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
    last_layer = ds[[name for name in ("top", "top_score", "place", "probability") if name in ds]]
    last_layer = last_layer.isel(layer=-1) if "layer" in last_layer["top"].dims else last_layer
    several = last_layer.sizes["position"] > 1
    return [_prediction(last_layer.isel(position=place), several) for place in range(last_layer.sizes["position"])]


def headline(ds: xarray.Dataset) -> str:
    """What is predicted, with its probability: after a decoder's last token, or at the masks; else nothing."""
    return ", ".join(f"{prediction.sentence} with {chance(prediction.chances[0])}" for prediction in _told(ds))


def long_headline(ds: xarray.Dataset) -> str:
    """The same with the runners-up, where one token is predicted."""
    told = _told(ds)
    behind = told[0].runners_up if len(told) == 1 else ""
    return f"{headline(ds)}, before {behind}" if behind else headline(ds)


def _told(ds: xarray.Dataset) -> list[Prediction]:
    answered = [prediction for prediction in predictions(ds) if prediction.chances]
    return answered[-1:] if answered and answered[0].causal else answered[:MOST]


def chance(share: float) -> str:
    """A probability in per cent that never says none or all of what is a little less or more."""
    if not 0.005 <= share < 0.995:
        return "less than 1 %" if share < 0.005 else "more than 99 %"
    return percent(share)


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
    chances = tuple(map(float, ds["probability"].values)) if "probability" in ds else ()
    return Prediction(position, at, rows[-1].best[0], rows, bool(ds.attrs.get("causal", 0)), chances)
