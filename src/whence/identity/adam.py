"""The probes as published: Adam, rate 1e-4, batches of 256 tokens, stopped after 20 epochs without a better validation.

Brunner et al. (2020), appendix B.1. The validation loss is what has to improve; the best epoch's weights are kept.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from whence.identity.folds import Fold
from whence.identity.probes import LOSSES, PROBES, Fitted, Weights, generator
from whence.identity.task import Task

LEARNING_RATE = 1e-4
BETAS = (0.9, 0.999)
BATCH = 256
PATIENCE = 20


def fit(
    probe: str, task: Task, folds: Sequence[Fold], loss: str, seed: int = 0, learning_rate: float = LEARNING_RATE
) -> Iterator[Fitted]:
    """The probe of every fold, in order, each trained by itself."""
    for fold in folds:
        yield _trained(probe, task, fold, loss, learning_rate, generator(seed, fold.number))


def _trained(probe: str, task: Task, fold: Fold, loss: str, learning_rate: float, drawn: torch.Generator) -> Fitted:
    weights = {name: value.requires_grad_() for name, value in PROBES[probe].initial(task.width, drawn).items()}
    optimiser = torch.optim.Adam(list(weights.values()), lr=learning_rate, betas=BETAS)
    places = task.places(fold.train)
    best, kept, waited, epoch = np.inf, _copied(weights), 0, 0
    while waited < PATIENCE:
        epoch += 1
        _epoch(probe, task, places, loss, weights, optimiser, drawn)
        validation_loss = _validation(probe, task, fold, loss, weights)
        waited += 1
        if validation_loss < best:
            best, kept, waited = validation_loss, _copied(weights), 0
    return Fitted(kept, {"epochs": float(epoch)})


def _epoch(
    probe: str,
    task: Task,
    places: np.ndarray,
    loss: str,
    weights: Weights,
    optimiser: torch.optim.Optimizer,
    drawn: torch.Generator,
) -> None:
    for batch in torch.randperm(len(places), generator=drawn).split(BATCH):
        hidden, target = task.rows(places[batch.numpy()])
        optimiser.zero_grad()
        LOSSES[loss](PROBES[probe].apply(weights, hidden), target).mean().backward()
        optimiser.step()


@torch.no_grad()
def _validation(probe: str, task: Task, fold: Fold, loss: str, weights: Weights) -> float:
    losses = [
        LOSSES[loss](PROBES[probe].apply(weights, hidden), target) for hidden, target in task.chunks(fold.validation)
    ]
    return float(torch.cat(losses).mean())


def _copied(weights: Weights) -> Weights:
    return {name: value.detach().clone() for name, value in weights.items()}
