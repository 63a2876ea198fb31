"""The tuned lens in closed form: from the states of a layer to those of the last by ridge regression.

    h^L ~ h^l + B h^l + b,    B = argmin sum |h^L - h^l - B h^l - b|^2 + lambda |B|^2

so that much regularisation is the logit lens. Belrose et al. (2023) train A = I + B by gradient descent on the
divergence of the predictions; this has no steps to tune. lambda is what predicts the other half of the texts best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

LAMBDAS = tuple(10.0**power for power in range(-6, 3))  # in terms of the mean variance of a dimension


@dataclass(frozen=True, eq=False)
class Tuned:
    """A h + b by layer, the lambda of each, and how much of the way to the last layer it foretells in other texts."""

    matrices: Float[Tensor, "layer m m"]
    shifts: Float[Tensor, "layer m"]
    ridge: tuple[float, ...]
    explained: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _Moments:
    """Of states x and of what is to be added to them, d: counts, means, centred products."""

    count: int
    mean: Float[Tensor, " m"]
    added: Float[Tensor, " m"]
    variance: Float[Tensor, "m m"]
    covariance: Float[Tensor, "m m"]
    total: float

    @classmethod
    def of(cls, states: Float[Tensor, "n m"], added: Float[Tensor, "n m"]) -> "_Moments":
        mean, shift = states.mean(dim=0), added.mean(dim=0)
        x, d = states - mean, added - shift
        return cls(len(states), mean, shift, x.T @ x, d.T @ x, float(d.square().sum()))


def tuned(states: Sequence[Float[Tensor, "layer _ m"]], last: Sequence[Float[Tensor, "_ m"]]) -> Tuned:
    """Fitted to the states of all texts, which come in several groups of texts; the last layer's beside them."""
    fitted = [
        _fitted([group[layer].double() for group in states], [group.double() for group in last])
        for layer in range(len(states[0]))
    ]
    matrices, shifts, ridge, explained = zip(*fitted, strict=True)
    return Tuned(torch.stack(matrices), torch.stack(shifts), ridge, explained)


def _fitted(
    states: list[Float[Tensor, "_ m"]], last: list[Float[Tensor, "_ m"]]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"], float, float]:
    halves = [
        _Moments.of(torch.cat(states[half::2]), torch.cat(last[half::2]) - torch.cat(states[half::2]))
        for half in (0, 1)
    ]
    left = _left(*halves) + _left(*halves[::-1])
    best = int(left.argmin())
    whole = _Moments.of(torch.cat(states), torch.cat(last) - torch.cat(states))
    added = _solve(whole, LAMBDAS[best])
    shift = whole.added - added @ whole.mean
    explained = 1 - float(left[best]) / max(sum(half.total for half in halves), torch.finfo(torch.float64).tiny)
    return torch.eye(len(added)) + added.float(), shift.float(), LAMBDAS[best], explained


def _scale(moments: _Moments) -> float:
    return float(moments.variance.diagonal().mean())


def _solve(moments: _Moments, ridge: float) -> Float[Tensor, "m m"]:
    regular = moments.variance + ridge * _scale(moments) * torch.eye(len(moments.mean), dtype=moments.variance.dtype)
    return torch.linalg.solve(regular, moments.covariance.T).T


def _left(fit: _Moments, test: _Moments) -> Float[Tensor, " lambda"]:
    """The squared error in other texts for each lambda, from moments alone."""
    values, vectors = torch.linalg.eigh(fit.variance)
    projected = fit.covariance @ vectors
    variance, covariance = vectors.T @ test.variance @ vectors, test.covariance @ vectors
    errors = []
    for ridge in LAMBDAS:
        added = projected / (values.clamp(min=0) + ridge * _scale(fit) + torch.finfo(values.dtype).tiny)
        off = test.added - fit.added - (added @ vectors.T) @ (test.mean - fit.mean)
        errors.append(
            test.total - 2 * (added * covariance).sum() + ((added @ variance) * added).sum() + test.count * off @ off
        )
    return torch.stack(errors)
