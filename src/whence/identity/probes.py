"""What is put between a hidden vector and the look-up: nothing, a linear map, or a small network."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, gelu

HIDDEN = 1000  # units of the network (Brunner et al. 2020)
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Probe:
    """How its weights are drawn, width and generator given, and what it makes of vectors."""

    initial: Callable[[int, torch.Generator], Weights]
    apply: Callable[[Weights, Tensor], Tensor]


@dataclass(frozen=True)
class Fitted:
    """A probe's weights and how they came about: penalty, steps, epochs."""

    weights: Weights
    notes: dict[str, float]


def generator(seed: int, fold: int) -> torch.Generator:
    """A fold's own randomness: the same whichever other folds are fitted with it."""
    return torch.Generator().manual_seed(1000 * seed + fold)


def _glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Uniform within sqrt(6 / (rows + columns)) (Glorot & Bengio 2010)."""
    limit = (6 / (rows + columns)) ** 0.5
    return torch.empty(rows, columns).uniform_(-limit, limit, generator=generator)


def _linear(width: int, generator: torch.Generator) -> Weights:
    return {"weight": _glorot(width, width, generator)}


def _mlp(width: int, generator: torch.Generator) -> Weights:
    return {
        "first": _glorot(width, HIDDEN, generator),
        "first_bias": torch.zeros(HIDDEN),
        "second": _glorot(HIDDEN, width, generator),
        "second_bias": torch.zeros(width),
    }


def hidden_units(weights: Weights, vectors: Float[Tensor, "*n m"]) -> Float[Tensor, "*n k"]:
    return gelu(vectors @ weights["first"] + weights["first_bias"])


PROBES = {
    "naive": Probe(lambda width, generator: {}, lambda weights, vectors: vectors),
    "linear": Probe(_linear, lambda weights, vectors: vectors @ weights["weight"]),
    "mlp": Probe(
        _mlp, lambda weights, vectors: hidden_units(weights, vectors) @ weights["second"] + weights["second_bias"]
    ),
}

# per vector; the look-up goes by the same distance
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda predicted, wanted: 1 - cosine_similarity(predicted, wanted, dim=-1),
    "l2": lambda predicted, wanted: (predicted - wanted).square().sum(dim=-1),
}
