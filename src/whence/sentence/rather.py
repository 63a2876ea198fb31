"""Why a prediction is made rather than the second choice: what a page begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.sentence.lm_head import lm_head
from whence.sentence.why import NEEDS, why

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray

    from whence.models.load import Model


def measures_given(model: Model) -> list[str]:
    """What can be said of a prediction of this model, the best first: shares, or else dependence."""
    if model.anatomy.side_paths:
        return []
    return [name for name in NEEDS if NEEDS[name] | {"lm_head"} <= model.gives]


def rather(
    model: Model, text: object, position: Iterable[int] | None = None, truncate: bool = False, **options: Any
) -> xarray.Dataset:
    """Why each prediction is made; a single one is told from the token that comes second.

    A logit alone is not a choice: much of it is given to every token alike, and what sets the best token off from the
    next is what decided.
    """
    usual: dict[str, Any] = {"measures": measures_given(model)[:1]} | second(model, text, position, truncate)
    return why(model, text, position=position, truncate=truncate, **(usual | options))


def second(model: Model, text: object, position: Iterable[int] | None, truncate: bool) -> dict[str, int]:
    """The best token and the one behind it, of a single prediction; nothing for several."""
    best = lm_head(model, text, position, k=2, truncate=truncate)["top_id"].isel(stage=-1)
    if best.sizes["position"] > 1:
        return {}
    first, behind = best.isel(position=0).values.ravel().tolist()
    return {"token": first, "against": behind}
