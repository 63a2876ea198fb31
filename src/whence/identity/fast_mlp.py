"""The network by the shortest way that finds as many tokens as the published training does.

Solved for: hidden units are set from the data, and the read-out is a closed form. gelu(a) - gelu(-a) = a, so pairs of
units with opposite signs carry a linear map exactly: they hold the directions the fold's linear probe uses most, in
coordinates where the states vary alike. The remaining units look into random directions of the same coordinates and
add what is not linear. The read-out is ridge regression, its penalty chosen on validation. By cosine that is enough.

Learned: by L2 a hidden layer that is learned finds more. One cycle of Adam (a rate that rises to eighty times the
published one and falls to nothing, Smith & Topin 2018) takes 20 epochs where the published recipe takes a thousand. The
better of the two on validation is kept.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from whence.identity.fast import grams, preferred, ridge, solved
from whence.identity.folds import Fold
from whence.identity.lookup import evaluate
from whence.identity.probes import HIDDEN, LOSSES, PROBES, Fitted, Weights, generator, hidden_units
from whence.identity.task import Task

PAIRED = 2 * HIDDEN // 5  # at most four fifths of the units carry the linear part
# the cycle: the highest rate, the share of the steps on which it rises, and how many there are at most
RATE, RISING, BATCH, EPOCHS, STEPS = 8e-3, 0.15, 128, 20, 2400
SMALL, GOAL = 0.07, 0.5  # how much hidden vectors and goals vary for it
FLOOR = 0.1  # directions that vary less than this share of the mean are not blown up to vary like the others


def fit(task: Task, folds: Sequence[Fold], loss: str, seed: int = 0) -> Iterator[Fitted]:
    """The network of every fold, in order."""
    squares, products = grams(task, folds, unit=False)
    units, targets = grams(task, folds, unit=True) if loss == "cosine" else (squares, products)
    for number, fold in enumerate(folds):
        linear, _, _ = ridge(task, fold, loss, units[number], targets[number])
        layer = _hidden_layer(task, fold, squares[number], linear["weight"], generator(seed, fold.number))
        solution = _read_out(task, fold, loss, layer)
        yield _better(task, fold, solution, _learned(task, fold, seed)) if loss == "l2" else solution


def _learned(task: Task, fold: Fold, seed: int) -> Fitted:
    """One cycle of Adam on the squared distance, in coordinates where all dimensions of all models look alike."""
    drawn = generator(seed, fold.number)
    weights = {name: value.requires_grad_() for name, value in PROBES["mlp"].initial(task.width, drawn).items()}
    places, scale = task.places(fold.train), _Scale.of(task, fold)
    steps = min(STEPS, EPOCHS * math.ceil(len(places) / BATCH))
    optimiser = torch.optim.Adam(list(weights.values()))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=RISING)
    for batch in itertools.islice(_batches(len(places), drawn), steps):
        hidden, target = task.rows(places[batch.numpy()])
        predicted = PROBES["mlp"].apply(weights, (hidden - scale.mean) / scale.spread)
        optimiser.zero_grad()
        LOSSES["l2"](predicted, target / scale.wanted).mean().backward()
        optimiser.step()
        schedule.step()
    unscaled = scale.taken_in({name: value.detach() for name, value in weights.items()})
    return Fitted(unscaled, {"penalty": 0.0, "steps": float(steps)})


@dataclass(frozen=True)
class _Scale:
    """What hidden vectors are divided by so that each dimension varies as little as `SMALL`, and what goals are.

    So small that the units hardly bend: a network that starts far from linear overfits. Some models have dimensions
    that are thousands of times larger than the others.
    """

    mean: Float[Tensor, " m"]
    spread: Float[Tensor, " m"]
    wanted: float

    @classmethod
    def of(cls, task: Task, fold: Fold) -> "_Scale":
        count, sums, squares, goals = 0, torch.zeros(task.width).double(), torch.zeros(task.width).double(), 0.0
        for hidden, target in task.chunks(fold.train):
            hidden = hidden.double()
            count, sums, squares = count + len(hidden), sums + hidden.sum(dim=0), squares + hidden.square().sum(dim=0)
            goals += float(target.double().square().mean(dim=-1).sum())
        mean = sums / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        spread = (deviation + FLOOR * deviation.mean()) / SMALL
        return cls(mean.float(), spread.float(), (goals / count) ** 0.5 / GOAL)

    def taken_in(self, weights: Weights) -> Weights:
        """The same network for vectors as they are."""
        first = weights["first"] / self.spread[:, None]
        return {
            "first": first,
            "first_bias": weights["first_bias"] - self.mean @ first,
            "second": weights["second"] * self.wanted,
            "second_bias": weights["second_bias"] * self.wanted,
        }


def _batches(count: int, drawn: torch.Generator) -> Iterator[Tensor]:
    """Places in random order, again and again."""
    while True:
        yield from torch.randperm(count, generator=drawn).split(BATCH)


def _better(task: Task, fold: Fold, *fitted: Fitted) -> Fitted:
    outcomes = evaluate("mlp", [fit.weights for fit in fitted], "l2", task, fold.validation)
    return fitted[max(range(len(fitted)), key=lambda place: outcomes[place].rate)]


def _hidden_layer(
    task: Task, fold: Fold, square: Float[Tensor, "m m"], linear: Float[Tensor, "m m"], drawn: torch.Generator
) -> Weights:
    count, total = 0, torch.zeros(task.width, dtype=torch.float64)
    for hidden, _ in task.chunks(fold.train):
        count, total = count + len(hidden), total + hidden.double().sum(dim=0)
    mean = total / count
    values, vectors = torch.linalg.eigh(square / count - torch.outer(mean, mean))
    spread = values.clamp(min=FLOOR * float(values.clamp(min=0).mean())).sqrt()
    used, _, _ = torch.linalg.svd(spread[:, None] * (vectors.T @ linear.double()))  # the linear probe, same coordinates
    paired = (vectors / spread) @ used[:, :PAIRED]
    random = torch.randn(task.width, HIDDEN - 2 * paired.shape[1], generator=drawn, dtype=torch.float64)
    first = torch.cat([paired, -paired, (vectors / spread) @ random / task.width**0.5], dim=1)
    bends = torch.zeros(HIDDEN, dtype=torch.float64)
    bends[2 * paired.shape[1] :] = torch.randn(random.shape[1], generator=drawn, dtype=torch.float64)
    return {"first": first.float(), "first_bias": (bends - mean @ first).float()}


def _read_out(task: Task, fold: Fold, loss: str, layer: Weights) -> Fitted:
    square = torch.zeros(HIDDEN + 1, HIDDEN + 1, dtype=torch.float64)
    product = torch.zeros(HIDDEN + 1, task.width, dtype=torch.float64)
    for hidden, target in task.chunks(fold.train):
        units = torch.nn.functional.pad(hidden_units(layer, hidden), (0, 1), value=1.0)  # the last one is the bias
        square += units.T @ units
        product += units.T @ (normalize(target, dim=-1) if loss == "cosine" else target)
    penalties, solutions = solved(square, product)
    tried = [
        layer | {"second": solution[:-1].contiguous(), "second_bias": solution[-1].contiguous()}
        for solution in solutions
    ]
    best = preferred(evaluate("mlp", tried, loss, task, fold.validation))
    return Fitted(tried[best], {"penalty": penalties[best], "steps": 0.0})
