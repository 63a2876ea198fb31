"""The linear probe without gradient descent: one closed form per layer, all folds from one reading of the states.

L2: ridge regression, W = (X'X + penalty)^-1 X'Y. Sentences that belong to the same folds' training sets are read once,
and their share of X'X is added to each of those folds. The penalty is chosen on the fold's validation sentences.
Cosine: the same on vectors of length one, then steps of reweighted least squares on the cosine loss itself as long as
the validation rate grows.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from whence.identity.folds import Fold
from whence.identity.lookup import Outcome, evaluate
from whence.identity.probes import Fitted, Weights
from whence.identity.task import Task

PENALTIES = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # times the mean eigenvalue of X'X
# a fifth of a point of the validation rate is given for a larger penalty: with a small one, directions in which this
# layer hardly varies get huge weights, which do nothing here and everything on another layer
MARGIN = 0.002
STEPS = 4


def fit(task: Task, folds: Sequence[Fold], loss: str, seed: int = 0) -> Iterator[Fitted]:
    """The linear probe of every fold, in order. Nothing is drawn, so the seed changes nothing."""
    squares, products = grams(task, folds, unit=loss == "cosine")
    for fold, square, product in zip(folds, squares, products, strict=True):
        weights, penalty, outcome = ridge(task, fold, loss, square, product)
        steps = 0
        if loss == "cosine":
            weights, steps = _refined(task, fold, weights, penalty, outcome)
        yield Fitted(weights, {"penalty": penalty, "steps": float(steps)})


def grams(task: Task, folds: Sequence[Fold], unit: bool) -> tuple[Float[Tensor, "f m m"], Float[Tensor, "f m m"]]:
    """X'X and X'Y of every fold's training sentences; in float64, since a few directions can dwarf the others."""
    squares = torch.zeros(len(folds), task.width, task.width, dtype=torch.float64)
    products = torch.zeros_like(squares)
    for members, sentences in _shared(folds, len(task.states.lengths)):
        for hidden, target in task.chunks(sentences):
            hidden, target = hidden.double(), target.double()
            if unit:
                hidden, target = normalize(hidden, dim=-1), normalize(target, dim=-1)
            squares[members] += hidden.T @ hidden
            products[members] += hidden.T @ target
    return squares, products


def _shared(folds: Sequence[Fold], sentences: int) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Sentences that train the same folds, together with those folds."""
    trains = np.zeros((len(folds), sentences), dtype=bool)
    for row, fold in zip(trains, folds, strict=True):
        row[fold.train] = True
    patterns, which = np.unique(trains, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if pattern.any():
            yield torch.from_numpy(np.flatnonzero(pattern)), np.flatnonzero(which.ravel() == number)


def ridge(
    task: Task, fold: Fold, loss: str, square: Float[Tensor, "m m"], product: Float[Tensor, "m m"]
) -> tuple[Weights, float, Outcome]:
    """The probe with the penalty that suits validation."""
    penalties, solutions = solved(square, product)
    tried: list[Weights] = [{"weight": solution} for solution in solutions]
    outcomes = evaluate("linear", tried, loss, task, fold.validation)
    best = preferred(outcomes)
    return tried[best], penalties[best], outcomes[best]


def solved(square: Float[Tensor, "k k"], product: Float[Tensor, "k m"]) -> tuple[list[float], list[Tensor]]:
    """Every penalty with its (X'X + penalty)^-1 X'Y, from one eigendecomposition."""
    values, vectors = torch.linalg.eigh(square)
    values, turned = values.clamp(min=0), vectors.T @ product
    penalties = [penalty * float(values.mean()) for penalty in PENALTIES]
    return penalties, [(vectors @ (turned / (values + penalty)[:, None])).float() for penalty in penalties]


def preferred(outcomes: Sequence[Outcome]) -> int:
    """The place of the largest penalty whose validation rate is within the margin of the best."""
    best = max(outcome.rate for outcome in outcomes)
    return max(place for place, outcome in enumerate(outcomes) if outcome.rate >= best - MARGIN)


def _refined(task: Task, fold: Fold, weights: Weights, penalty: float, outcome: Outcome) -> tuple[Weights, int]:
    """Reweighted steps until the validation rate stops growing; how many were kept."""
    for step in range(STEPS):
        if outcome.rate == 1:
            return weights, step
        tried = _reweighted(task, fold, weights, penalty)
        (new_outcome,) = evaluate("linear", [tried], "cosine", task, fold.validation)
        if new_outcome.rate <= outcome.rate:
            return weights, step
        weights, outcome = tried, new_outcome
    return weights, STEPS


def _reweighted(task: Task, fold: Fold, weights: Weights, penalty: float) -> Weights:
    """One step of Gauss-Newton on |y - p/|p||^2 / 2 = 1 - cos(p, y), p = xW, y of length one.

    The Jacobian of p/|p| is the projection across p, over |p|. With the identity for that projection, which can only
    shorten the step, the normal equations split by output: every output shares sum_i x_i x_i' / |p_i|^2.
    """
    weight = weights["weight"]
    square = torch.zeros(task.width, task.width, dtype=torch.float64)
    product, count = torch.zeros_like(square), 0
    for hidden, target in task.chunks(fold.train):
        hidden, target = normalize(hidden, dim=-1), normalize(target, dim=-1)
        predicted = hidden @ weight
        length = predicted.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        direction = predicted / length
        across = target - (direction * target).sum(dim=-1, keepdim=True) * direction
        scaled = hidden / length
        square += scaled.T @ scaled
        product += scaled.T @ across
        count += len(hidden)
    # the penalty was chosen for vectors of length one, whose squares add up to their number
    damping = penalty * square.trace() / count * torch.eye(task.width, dtype=torch.float64)
    return {"weight": weight + torch.linalg.solve(square + damping, product).float()}
