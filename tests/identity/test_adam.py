"""The published recipe against the same recipe written with torch's own layers."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from whence.identity import adam
from whence.identity.folds import folds_of
from whence.identity.lookup import evaluate
from whence.identity.probes import PROBES, generator
from whence.identity.task import Task


def network(probe, width, drawn):
    """torch's own layers with the same first weights."""
    weights = PROBES[probe].initial(width, drawn)
    if probe == "linear":
        layers = [nn.Linear(width, width, bias=False)]
        layers[0].weight.data = weights["weight"].T.clone()
    else:
        layers = [nn.Linear(width, 1000), nn.GELU(), nn.Linear(1000, width)]
        for layer, name in ((layers[0], "first"), (layers[2], "second")):
            layer.weight.data, layer.bias.data = weights[name].T.clone(), weights[f"{name}_bias"].clone()
    return nn.Sequential(*layers)


def trained(probe, task, fold, loss, rate, patience):
    """lr, betas, batches of 256, patience: spelled out."""
    drawn = generator(0, fold.number)
    model = network(probe, task.width, drawn)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.999))
    hidden, wanted = task.rows(task.places(fold.train))
    unseen, answers = task.rows(task.places(fold.validation))
    measures = {
        "cosine": lambda p, w: (1 - cosine_similarity(p, w)).mean(),
        "l2": lambda p, w: ((p - w) ** 2).sum(1).mean(),
    }
    best, kept, waited, epochs = float("inf"), None, 0, 0
    while waited < patience:
        order = torch.randperm(len(hidden), generator=drawn)
        for start in range(0, len(order), 256):
            rows = order[start : start + 256]
            optimiser.zero_grad()
            measures[loss](model(hidden[rows]), wanted[rows]).backward()
            optimiser.step()
        epochs += 1
        with torch.no_grad():
            found = float(measures[loss](model(unseen), answers))
        waited = 0 if found < best else waited + 1
        if found < best:
            best, kept = found, copy.deepcopy(model)
    return kept, epochs


@pytest.mark.parametrize(("probe", "loss"), [("linear", "cosine"), ("linear", "l2"), ("mlp", "cosine")])
def test_follows_the_recipe(made, probe, loss, monkeypatch):
    monkeypatch.setattr(adam, "PATIENCE", 2)
    drawn = torch.Generator().manual_seed(3)
    inputs = torch.randn(800, 8, generator=drawn)
    hidden = inputs @ torch.randn(8, 8, generator=drawn)
    task, (fold,) = Task(made([inputs.numpy(), hidden.numpy()], [10] * 80), 1), folds_of(80, 1, 0)
    (fitted,) = adam.fit(probe, task, [fold], loss, learning_rate=3e-2)
    expected, epochs = trained(probe, task, fold, loss, 3e-2, patience=2)
    assert fitted.notes == {"epochs": epochs} and epochs > 3
    vectors, _ = task.rows(task.places(fold.test))
    found = PROBES[probe].apply(fitted.weights, vectors)
    assert torch.allclose(found, expected(vectors), atol=1e-3)


def test_the_published_numbers():
    assert (adam.LEARNING_RATE, adam.BETAS, adam.BATCH, adam.PATIENCE) == (1e-4, (0.9, 0.999), 256, 20)


def test_learns(linear_world):
    task, folds = Task(linear_world, 1), folds_of(40, 2, 0)
    for fold, fitted in zip(folds, adam.fit("linear", task, folds, "cosine", learning_rate=1e-2), strict=True):
        (outcome,) = evaluate("linear", [fitted.weights], "cosine", task, fold.test)
        assert outcome.rate > 0.97 and not fitted.weights["weight"].requires_grad
