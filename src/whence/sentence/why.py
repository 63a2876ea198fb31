"""Why this token: what every token, at every layer, gave to a prediction, and how much the prediction depends on it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence._arguments import whole
from whence.errors import BadInput, Unsupported
from whence.measures.flow.prediction import Predicted, dependence, shares
from whence.measures.lm_head.ranks import place
from whence.measures.lm_head.stages import scores, stages_of, states_at
from whence.measures.registry import DERIVATIVES, SECANT
from whence.models.encode import Encoded, encode
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.models.precision import reported
from whence.sentence.label import tokens_of
from whence.sentence.lm_head import named, positions_of
from whence.text.sentence import sentence

NEEDS = {"share": SECANT, "dependence": DERIVATIVES}
DIMS = ("predicted", "layer", "source")


def why(
    model: Model,
    text: object,
    token: int | str | None = None,
    against: int | str | None = None,
    position: int | Iterable[int] | None = None,
    measures: str | Iterable[str] = tuple(NEEDS),
    *,
    truncate: bool = False,
) -> xarray.Dataset:
    """Why the model predicts a token at each mask, or in a decoder after the text: what it was made of.

    token     the predicted token, by its text or number in the vocabulary; the model's best one when None
    against   another token: then all is about the difference of the two
    position  where the prediction stands, unless at every mask or behind the last token
    measures  share, dependence, or both

    share (predicted, layer, source)       signed part of the logit that the token's state at that layer gave; over
                                           sources, with `bias` (predicted, layer), they add up to `logit` exactly
    dependence (predicted, layer, source)  length of the derivative of the log-probability by that state
    logit, probability, place (predicted)  of the token; `logit` is the difference of two with `against`

    Layer 0 is the output of the embeddings. A share says what the prediction was made of, with attention weights, norm
    scales and activation slopes as they were; a dependence how it would change.

    >>> ds = whence.why(whence.load(), "Paris is the capital of [MASK].")
    >>> bool(abs(ds.share.sum("source") + ds.bias - ds.logit).max() < 1e-3)
    True
    """
    names = _names(loaded(model), measures)
    parsed = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, parsed, truncate)
    places = positions_of(model, encoded, position)
    logits = _logits(model, encoded, places)
    best = logits.argmax(dim=-1).tolist() if token is None else [_token(model, token)] * len(places)
    other = None if against is None else _token(model, against)
    predicted = [Predicted(place, number, other) for place, number in zip(places, best, strict=True)]
    data = _measured(model, encoded, predicted, names) | _about(logits, predicted)
    options = {"token": best, "against": other, "position": places}
    attributes = provenance(model, names, options) | {"text": parsed.text, "pair": parsed.pair or ""}
    return xarray.Dataset(data, _coordinates(model, encoded, predicted), attributes)


def _names(model: Model, measures: str | Iterable[str]) -> list[str]:
    names = [measures] if isinstance(measures, str) else list(measures)
    if unknown := [name for name in names if name not in NEEDS]:
        raise BadInput(f"There is no {unknown[0]!r} of a prediction; there are: {', '.join(NEEDS)}.")
    if not names:
        raise BadInput(f"No measure of the prediction was asked for; there are: {', '.join(NEEDS)}.")
    stages_of(model.anatomy)  # refuses a model without a head
    for name in names:
        if lacking := sorted((NEEDS[name] | {"lm_head"}) - model.gives):
            rest = [other for other in NEEDS if NEEDS[other] | {"lm_head"} <= model.gives]
            raise Unsupported(
                f"{name!r} needs {', '.join(lacking)}, which the family {model.anatomy.family!r} does not give; "
                + (f"ask for {rest[0]!r} alone (measures=)." if rest else "take another model.")
            )
    if model.anatomy.side_paths:
        raise Unsupported(
            f"Blocks of {type(model.model).__name__} read more of the embeddings than their states, so a prediction is"
            " not made of the states of a layer alone."
        )
    return names


def _token(model: Model, token: int | str) -> int:
    """Its number in the vocabulary; a text that is not one token is refused."""
    if not isinstance(token, str):
        return whole("number of a token", token, 0, len(model.tokenizer) - 1)
    numbers = model.tokenizer(token, add_special_tokens=False)["input_ids"]
    if len(numbers) != 1:
        raise BadInput(
            f"{token!r} is {len(numbers)} tokens, and one is asked for; within a text most tokens begin with a space,"
            " and the number of a token is taken as well."
        )
    return int(numbers[0])


def _logits(model: Model, encoded: Encoded, places: list[int]) -> Tensor:
    stages = stages_of(model.anatomy)
    states = states_at(model.anatomy, encoded.batch, [0] * len(places), places, [model.anatomy.layers])
    return scores(stages, states[0])[:, -1]


def _measured(
    model: Model, encoded: Encoded, predicted: list[Predicted], names: list[str]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    data: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    with torch.autocast(model.model.device.type, enabled=False):
        if "share" in names:
            parts = shares(model.anatomy, encoded.batch, predicted)
            data |= {"share": (DIMS, _numpy(parts.share)), "bias": (DIMS[:2], _numpy(parts.bias))}
        if "dependence" in names:
            data["dependence"] = DIMS, _numpy(dependence(model.anatomy, encoded.batch, predicted))
    return data


def _about(logits: Tensor, predicted: list[Predicted]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The logit, or the difference of two, and of the token its probability and place."""
    tokens = torch.tensor([each.token for each in predicted], device=logits.device)
    rows = torch.arange(len(predicted), device=logits.device)
    value = logits[rows, tokens]
    if predicted[0].against is not None:
        value = value - logits[:, predicted[0].against]
    values_of = {"logit": value, "probability": logits.softmax(dim=-1)[rows, tokens], "place": place(logits, tokens)}
    return {name: (DIMS[:1], _numpy(values)) for name, values in values_of.items()}


def _coordinates(model: Model, encoded: Encoded, predicted: list[Predicted]) -> Mapping[str, Any]:
    numbers = [each.token for each in predicted]
    coordinates: dict[str, Any] = {
        "predicted": [each.position for each in predicted],
        "predicted_token": ("predicted", named(model, numbers)),
        "predicted_token_id": ("predicted", numbers),
        "layer": range(model.anatomy.layers + 1),
        "source": range(len(encoded.tokens)),
    }
    other = [each.against for each in predicted if each.against is not None]
    if other:
        coordinates |= {"against_token": ("predicted", named(model, other)), "against_token_id": ("predicted", other)}
    return coordinates | {f"source_{name}": ("source", values) for name, values in tokens_of(encoded).items()}


def _numpy(values: Tensor) -> np.ndarray:
    return (values.to(reported(values.dtype)) if values.is_floating_point() else values).cpu().numpy()
