"""One hidden token from both sides: whence it came, and whither it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import xarray

from whence._arguments import numbers
from whence.errors import BadInput
from whence.measures.registry import SECANT
from whence.models.encode import encode
from whence.sentence.measure import of_text as measure
from whence.sentence.why import why
from whence.text.sentence import sentence

if TYPE_CHECKING:
    from whence.models.load import Model
    from whence.sentence.lens import Lens

CAME = "contribution", "decomposition"
KEPT = ("contribution", "contribution_se", "decomposition_share")


def trace(
    lens: Lens,
    model: Model,
    text: object,
    token: int,
    k: int,
    truncate: bool,
    progress: Callable[[int, int], None] | None,
) -> xarray.Dataset:
    """The read-out of one token, what it is made of, and its part in every prediction from there on."""
    encoded = encode(model.anatomy, model.tokenizer, sentence(text), truncate)
    place = _place(token, len(encoded.tokens))
    whither = lens.read(model, text, k, truncate=truncate).sel(token=place)
    layers = [layer for layer in lens.layers if layer > 0] or [model.anatomy.layers]
    names = CAME if model.gives >= SECANT else CAME[:1]
    came = measure(model, text, names, layers=layers, targets=place, truncate=truncate, progress=progress)
    came = came.isel(target=0, drop=True)[[name for name in KEPT if name in came]].reindex(layer=list(lens.layers))
    merged = whither.merge(came.drop_attrs(deep=False), compat="override")
    if model.gives >= SECANT:
        merged = merged.merge(_given(model, text, place, len(encoded.tokens), truncate).sel(layer=list(lens.layers)))
    sink = {"traced": place, "measures": ",".join(("lens", *names, *(("share",) if "share" in merged else ())))}
    return merged.assign_attrs(whither.attrs | sink)


def _place(token: int, count: int) -> int:
    place = numbers("token", token)
    if len(place) != 1 or not -count <= place[0] < count:
        raise BadInput(f"The text has tokens 0 to {count - 1}, and {token!r:.40} was asked for.")
    return place[0] % count


def _given(model: Model, text: object, place: int, count: int, truncate: bool) -> xarray.Dataset:
    """The token's signed part of each prediction from it on, and that part of the sizes of all parts."""
    positions = range(place if model.anatomy.causal else 0, count)
    ds = why(model, text, position=positions, measures="share", truncate=truncate)
    sizes = abs(ds["share"]).sum("source") + abs(ds["bias"])
    own = ds["share"].isel(source=place, drop=True)
    data = {
        "share": own.assign_attrs(long_name="part of the logit that this token's state gave"),
        "share_of_all": (own / sizes).assign_attrs(long_name="that part, of the sizes of all parts"),
        "logit": ds["logit"],
        "predicted_probability": ds["probability"],
    }
    kept = xarray.Dataset(data).reset_coords(drop=True)
    words = {name: ("predicted", np.asarray(ds[name].values)) for name in ("predicted_token", "predicted_token_id")}
    return kept.assign_coords(words)
