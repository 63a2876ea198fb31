"""What the explorer shows of the LM head: the best tokens after every stage and every layer, and how stages agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.sentence.lm_head import lm_head

if TYPE_CHECKING:
    import xarray

    from whence.models.load import Model
    from whence.text.sentence import Sentence

BEST = 10


def prediction(model: Model, parsed: Sentence, positions: list[int] | None, truncate: bool) -> xarray.Dataset:
    """Stages of the last layer (position, stage, …) and the last stage of every layer (`state`, position, …).

    `state` counts layers from 0, the embeddings; the scores over the whole vocabulary are dropped.
    """
    ds = lm_head(model, parsed, positions, layer="all", k=BEST, truncate=truncate)
    stages, lens = ds.isel(layer=-1), ds.isel(stage=-1).rename(layer="state")
    best = stages[["top", "top_id", "top_score", "place", "probability"]].assign(head_spearman=stages["spearman"])
    by_layer = {f"lens_{name}": lens[name] for name in ("top", "top_score", "place", "probability")}
    return best.assign(by_layer).drop_vars(["layer", "stage"], errors="ignore").assign_coords(stage=ds["stage"])
