"""What every flow measure says of the sources of one prediction: a score for each, by layer where there are layers."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import xarray
from jaxtyping import Float

from whence.corpus.subjects import Prediction
from whence.measures.options import Contribution
from whence.measures.registry import DERIVATIVES, HEADS, MAP, SECANT, Variable, measures
from whence.models.intervene import classifies, input_gradient
from whence.models.load import Model
from whence.sentence.accounts import of_next_tokens
from whence.sentence.measure import of_text as measure

ERROR = 0.05  # standard error of a contribution
RANDOM, POSITION, GRADIENT_INPUT = "random", "position", "gradient × input"
LAST, MEAN = "last layer", "mean of layers"
SIZE = "size"  # of signed scores
# variables that are not judged, and why
SAME = {
    "attn_w": "attention, mean of heads",
    "attnres_w": "orders the other tokens as attention does",
    "attnres_n": "orders the other tokens as attn_n does",
    "jacobian": "orders the sources as contribution does",
    "decomposition_share": "orders the sources as decomposition does",
    "norms_heads": "attn_n by head",
    "null": "the part of attention that has no effect",
    "minimum": "another attention with the same effect, as `effective` is",
    "minimum_simplex": "the same as a distribution, a convex programme for every row",
}
SLOW = frozenset({"jacobian_local"})  # takes as long as all others together
# variables of a prediction at every layer -> what they need
OF_PREDICTION = {"share": SECANT, "dependence": DERIVATIVES}


@dataclass(frozen=True, eq=False)
class Rankings:
    """Scores of the candidates: a row for each ranking that is judged, and rows by layer (0 to L) for each variable."""

    judged: Mapping[str, Float[np.ndarray, " n"]]
    by_layer: Mapping[str, Float[np.ndarray, "layer n"]]


def maps(model: Model, without: Collection[str] = ()) -> dict[str, Variable]:
    """Every map of the registry that this model gives, other packages' among them."""
    every = {name: variable for row in measures().values() for name, variable in row.variables.items()}
    return {
        name: variable
        for name, variable in every.items()
        if variable.dims in (MAP, HEADS)
        and name not in SAME
        and name not in without
        and not name.endswith("_se")
        and variable.needs <= model.gives
    }


def of_one_block() -> set[str]:
    """Variables that say of each block by itself what goes from where to where."""
    of_blocks = {name for row in measures().values() if row.over == "block" for name in row.variables}
    return of_blocks | {"jacobian_local", "gradient_local"}


def of_prediction(model: Model) -> list[str]:
    if classifies(model.anatomy) or "lm_head" not in model.gives or model.anatomy.side_paths:
        return []
    return [name for name, needs in OF_PREDICTION.items() if needs <= model.gives]


def layered(model: Model, without: Collection[str] = ()) -> list[str]:
    return [*of_prediction(model), *maps(model, without)]


def judged(model: Model, without: Collection[str] = ()) -> list[str]:
    """The names of the rankings, baselines last."""
    names = [ranking for name in layered(model, without) for ranking in _named(name)]
    return [*names, GRADIENT_INPUT, f"{GRADIENT_INPUT}, {SIZE}", POSITION, RANDOM]


def _named(name: str) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The rankings made of a variable, each from its scores by layer, those layers left out that have none."""
    if name == "attention":
        return {f"{name}, {LAST}": _last, f"{name}, {MEAN}": _mean}
    if name == "share":
        return {name: _first, f"{name}, {SIZE}": lambda known: np.abs(_first(known))}
    if name in OF_PREDICTION:
        return {name: _first}
    return {f"{name}, {MEAN}": _mean} if name in of_one_block() else {name: _last}


def _first(known: np.ndarray) -> np.ndarray:
    return known[0]


def _last(known: np.ndarray) -> np.ndarray:
    return known[-1]


def _mean(known: np.ndarray) -> np.ndarray:
    return known.mean(axis=0)


def rankings(model: Model, prediction: Prediction, seed: int, without: Collection[str] = ()) -> Rankings:
    """The scores of every candidate by every measure; NaN where a measure has nothing to say."""
    subject = prediction.subject
    places, position = list(subject.candidates), subject.position
    by_layer = {name: values[:, places] for name, values in _by_layer(model, prediction, without)}
    scores: dict[str, np.ndarray] = {}
    for name, values in by_layer.items():
        known = values[~np.isnan(values).all(axis=1)]
        scores |= {ranking: read(known) if len(known) else values[0] for ranking, read in _named(name).items()}
    product = _gradient_input(model, prediction)[places]
    return Rankings(
        scores
        | {GRADIENT_INPUT: product, f"{GRADIENT_INPUT}, {SIZE}": np.abs(product)}
        | {POSITION: -np.abs(np.array(places, dtype=np.float64) - position)}
        | {RANDOM: np.random.default_rng(seed).random(len(places))},
        by_layer,
    )


def _by_layer(
    model: Model, prediction: Prediction, without: Collection[str]
) -> Iterator[tuple[str, Float[np.ndarray, "layer s"]]]:
    if names := of_prediction(model):
        arrays = of_next_tokens(model, prediction.question, names)
        yield from ((name, arrays[name][1][0].astype(np.float64)) for name in names)
    wanted = maps(model, without)
    requests = [Contribution(error=ERROR) if name == "contribution" else name for name in wanted]
    dataset = measure(model, prediction.sentence, requests, targets=[prediction.subject.position], truncate=True)
    for name, variable in wanted.items():
        yield name, _row(dataset, name, variable, model.anatomy.layers)


def _row(dataset: xarray.Dataset, name: str, variable: Variable, layers: int) -> Float[np.ndarray, "layer s"]:
    """The target's row at every layer from 0, which no map has; the mean of the heads."""
    whole, analysis = variable.analysis or (name, None)
    values = dataset[whole] if analysis is None else dataset[whole].sel(analysis=analysis)
    values = values.isel(target=0)
    values = values.mean("head") if "head" in values.dims else values
    rows = np.full((layers + 1, values.sizes["source"]), np.nan)
    rows[values["layer"].values] = values.transpose("layer", "source").values
    return rows


def _gradient_input(model: Model, prediction: Prediction) -> Float[np.ndarray, " s"]:
    """The derivative of the log-probability by each token's embedding, times the embedding."""
    subject, anatomy = prediction.subject, model.anatomy

    def read(output: torch.Tensor) -> torch.Tensor:
        scores = output[0] if classifies(anatomy) else output[0, subject.position]
        return scores.float().log_softmax(dim=-1)[subject.token]

    states, gradient = input_gradient(anatomy, prediction.question.encoded.batch, read)
    return (states * gradient).sum(dim=-1).double().cpu().numpy()
