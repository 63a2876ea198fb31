"""The LM head at a text's masks, or at any position and layer: what each of its steps says, as a Dataset."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray
from jaxtyping import Float
from torch import Tensor

from whence import _arguments
from whence._arguments import numbers, whole
from whence.errors import BadInput
from whence.measures.lm_head.ranks import pearson, place, spearman
from whence.measures.lm_head.stages import Stages, scores, stages_of, states_at, top
from whence.models.encode import Encoded, encode
from whence.models.fingerprint import provenance
from whence.models.given_pair import both_of
from whence.models.load import Model, loaded
from whence.models.precision import reported
from whence.models.vocabulary import pieces
from whence.text.sentence import MASK, sentence

# the axes before the stages
LEADING = ("layer", "position")
# axes of the weights and biases of the head
_AXES = {"dense_weight": ("width", "hidden"), "project_weight": ("width", "hidden"), "decoder_bias": ("vocabulary",)}


def lm_head(
    model: Model,
    text: object,
    position: int | Iterable[int] | None = None,
    layer: int | Iterable[int] | str | None = None,
    k: int = 10,
    *,
    truncate: bool = False,
) -> xarray.Dataset:
    """What every step of the LM head says about every token of the vocabulary.

    Args:
        model: a loaded model with an LM head
        text: a text, a pair, a chat or token ids; of an encoder-decoder a source and the beginning of its answer
        position: where the prediction stands: every mask of the text, or the last token in a decoder, unless given
        layer: whose states go through the head: the last unless given; a number, a list, or "all" (0 is the embedding's
            output), which is the logit lens
        k: how many of the best tokens are named
        truncate: cut a text that is longer than the model takes, which is an error otherwise

    Returns:
        A Dataset whose variables begin with the axes layer, position and stage:

        * `scores` over the vocabulary; those of the last stage are the model's logits
        * `spearman`, `pearson`: how alike the stages are, by `other_stage`
        * `top`, `top_id`, `top_score`: the k best tokens, along `best`
        * `place`: where each stage puts the k `candidate`s, the best tokens of the last stage and layer
        * `probability` of each candidate, without the axis stage: the softmax over the scores of the last stage

    The stages are those of Podkorytov et al. (2021).

    Examples:
        >>> ds = whence.lm_head(whence.load(), "The keys to the cabinet [MASK] on the table.", k=3)
        >>> ds.place.dims
        ('layer', 'position', 'stage', 'candidate')
    """
    stages = stages_of(loaded(model, two_stacks=True).anatomy)
    k = whole("k", k, 1)
    encoded = _encoded(model, text, truncate)
    parsed = encoded.sentence
    places = positions_of(model, encoded, position)
    layers = layers_of(layer, model.anatomy.layers)
    states = states_at(model.anatomy, encoded.batch, [0] * len(places), places, layers)
    scored = scores(stages, states.flatten(0, 1)).unflatten(0, (len(layers), len(places)))
    dataset = _labelled(model, stages, encoded, scored, places, layers, k)
    options = {"position": places, "layer": layers, "k": k}
    attributes = provenance(model, ["lm_head"], options) | {"text": parsed.text, "pair": parsed.pair or ""}
    return dataset.assign_attrs(attributes)


def _encoded(model: Model, text: object, truncate: bool) -> Encoded:
    """The text; of two stacks the beginning of the answer, read with its source."""
    if model.encoder is None:
        return encode(model.anatomy, model.tokenizer, sentence(text), truncate)
    pair = both_of(model, text, truncate)
    return replace(pair.prefix, batch=pair.batch)


def predictions(model: Model, text: object, k: int = 10, truncate: bool = False) -> xarray.Dataset:
    """The best tokens after every stage at every mask, or at the last token of a decoder, to stand beside measures.

    Empty when the model has no head, or the text no mask.
    """
    if "lm_head" not in model.gives:
        return xarray.Dataset()
    encoded = encode(model.anatomy, model.tokenizer, sentence(text), truncate)
    places = [encoded.last] if model.anatomy.causal else _masks(model, encoded)
    if not places:
        return xarray.Dataset()
    stages = stages_of(model.anatomy)
    states = states_at(model.anatomy, encoded.batch, [0] * len(places), places, [model.anatomy.layers])
    scored = scores(stages, states[0])[None]
    tokens = top(scored, k)[1].unique().tolist()
    names = dict(zip(tokens, pieces(model.tokenizer, tokens), strict=True))
    best = xarray.Dataset(_best(scored, k, names)).isel(layer=0)
    return best.drop_vars("layer", errors="ignore").assign_coords(_places(encoded, places) | {"stage": stages.names})


def positions_of(model: Model, encoded: Encoded, position: int | Iterable[int] | None) -> list[int]:
    """The positions asked for, checked; else every mask, or the last token a decoder read."""
    count = len(encoded.tokens)
    if position is None:
        _check_mask(model, encoded)
        return [encoded.last] if model.anatomy.causal else _masks(model, encoded)
    positions = numbers("position", position)
    wrong = [place for place in positions if not -count <= place < count]
    if wrong or not positions:
        raise BadInput(f"The text has positions 0 to {count - 1}, and {wrong[0] if wrong else 'none'} was asked for.")
    return [place % count for place in positions]


def layers_of(layer: int | Iterable[int] | str | None, count: int) -> list[int]:
    if isinstance(layer, str) and layer != "all":
        raise BadInput(f"A layer is a number, a list of numbers or 'all', and {layer!r} was given.")
    if layer is None or layer == "all":
        return [count] if layer is None else list(range(count + 1))
    return _arguments.layers(layer, 0, count)


def _check_mask(model: Model, encoded: Encoded) -> None:
    """Refuses a mask in a decoder, which would read its letters, and a masked LM's text without one."""
    if model.anatomy.causal:
        if any(MASK in text for text in encoded.sentence.texts):
            raise BadInput(f"A decoder has no mask and predicts what comes next; end the text before {MASK}.")
    elif not _masks(model, encoded):
        raise BadInput(
            f"The text has no mask; put {MASK} in the place of the word to be predicted, or name a position"
            " (--position, in Python: position=)."
        )


def _masks(model: Model, encoded: Encoded) -> list[int]:
    token = model.tokenizer.mask_token_id
    return [] if token is None else (encoded.batch.ids[0] == token).nonzero().flatten().tolist()


def _labelled(
    model: Model,
    stages: Stages,
    encoded: Encoded,
    scored: Float[Tensor, "l p g v"],
    places: Sequence[int],
    layers: Sequence[int],
    k: int,
) -> xarray.Dataset:
    words = np.array(pieces(model.tokenizer, range(scored.shape[-1])), dtype=object)
    by_stage = (*LEADING, "stage")
    data: dict[str, Any] = {
        "scores": ((*by_stage, "vocabulary"), scored),
        "spearman": ((*by_stage, "other_stage"), spearman(scored).to(scored.dtype)),
        "pearson": ((*by_stage, "other_stage"), pearson(scored).to(scored.dtype)),
    }
    data |= {name: (_AXES.get(name, _axis(name)), values) for name, values in stages.arrays.items()}
    arrays = {name: (dims, _numpy(values)) for name, (dims, values) in data.items()}
    arrays |= _best(scored, k, words)
    coords = {
        "layer": list(layers),
        **_places(encoded, places),
        "stage": stages.names,
        "other_stage": stages.names,
        "best": np.arange(1, arrays["top_id"][1].shape[-1] + 1),
        "candidate": np.arange(1, arrays["top_id"][1].shape[-1] + 1),
        "candidate_token": (("position", "candidate"), arrays["top"][1][-1, :, -1]),
        "candidate_token_id": (("position", "candidate"), arrays["top_id"][1][-1, :, -1]),
        "vocabulary": np.arange(scored.shape[-1]),
        "vocabulary_token": ("vocabulary", words),
    }
    return xarray.Dataset(arrays, coords)


def _best(
    scored: Float[Tensor, "l p g v"], k: int, words: Mapping[int, str] | np.ndarray
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The k best tokens of every stage, and the places it gives to those of the last stage and layer."""
    by_stage = (*LEADING, "stage")
    best, tokens = (_numpy(values) for values in top(scored, k))
    candidates = torch.from_numpy(tokens[-1, :, -1]).to(scored.device)
    places = [place(scored, token[None, :, None].expand(scored.shape[:-1])) for token in candidates.unbind(dim=-1)]
    logits = scored[:, :, -1]
    chances = logits.softmax(dim=-1).gather(-1, candidates.expand(len(logits), *candidates.shape))
    return {
        "top": ((*by_stage, "best"), np.vectorize(words.__getitem__, otypes=[object])(tokens)),
        "top_id": ((*by_stage, "best"), tokens),
        "top_score": ((*by_stage, "best"), best),
        "place": ((*by_stage, "candidate"), _numpy(torch.stack(places, dim=-1))),
        "probability": ((*LEADING, "candidate"), _numpy(chances)),
    }


def _places(encoded: Encoded, places: Sequence[int]) -> dict[str, Any]:
    return {"position": list(places), "position_token": ("position", [encoded.tokens[token] for token in places])}


def _axis(name: str) -> tuple[str]:
    """A final norm is as wide as the residual stream; behind a dense layer vectors may be narrower: `hidden`."""
    return ("width",) if name.startswith("final_norm") else ("hidden",)


def _numpy(values: Tensor) -> np.ndarray:
    if values.is_floating_point():
        values = values.to(reported(values.dtype))
    return values.cpu().numpy()
