"""The closed forms against NumPy, the loss and each other; what they may not look at."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, gelu

from whence.identity import fast, fast_mlp
from whence.identity.folds import folds_of
from whence.identity.lookup import evaluate
from whence.identity.probes import PROBES
from whence.identity.task import Task


def training(task, fold):
    hidden, wanted = task.rows(task.places(fold.train))
    return hidden.double().numpy(), wanted.double().numpy()


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_l2_is_ridge_regression(linear_world, share):
    task, folds = Task(linear_world, 1), folds_of(40, 5, 0, share)
    for fold, fitted in zip(folds, fast.fit(task, folds, "l2"), strict=True):
        hidden, wanted = training(task, fold)
        penalty = fitted.notes["penalty"]
        # ridge as least squares with extra rows
        rows = np.vstack([hidden, penalty**0.5 * np.eye(12)])
        expected, *_ = np.linalg.lstsq(rows, np.vstack([wanted, np.zeros((12, 12))]))
        assert np.allclose(fitted.weights["weight"], expected, atol=1e-5)


def test_all_folds_from_one_reading(linear_world):
    task, folds = Task(linear_world, 1), folds_of(40, 7, 2)
    squares, products = fast.grams(task, folds, unit=False)
    for fold, square, product in zip(folds, squares, products, strict=True):
        hidden, wanted = training(task, fold)
        assert np.allclose(square, hidden.T @ hidden) and np.allclose(product, hidden.T @ wanted)


@pytest.mark.parametrize("loss", ["cosine", "l2"])
def test_finds_a_linear_map(linear_world, loss):
    task, folds = Task(linear_world, 1), folds_of(40, 3, 0)
    for fold, fitted in zip(folds, fast.fit(task, folds, loss), strict=True):
        (outcome,) = evaluate("linear", [fitted.weights], loss, task, fold.test)
        (naive,) = evaluate("naive", [{}], loss, task, fold.test)
        assert outcome.rate == 1 > 0.6 > naive.rate


@pytest.mark.parametrize("fit", [fast.fit, fast_mlp.fit])
@pytest.mark.parametrize("loss", ["cosine", "l2"])
def test_test_sentences_are_never_looked_at(made, linear_world, fit, loss):
    """Whatever stands in the test sentences, the weights are the same."""
    (fold,) = folds_of(40, 1, 0)
    layers = [np.array(linear_world.layer(layer)) for layer in (0, 1)]
    places = Task(linear_world, 1).places(fold.test)
    changed = [rows.copy() for rows in layers]
    for rows in changed:
        rows[places] = 1000
    found = [next(fit(Task(made(rows, [6] * 40), 1), [fold], loss)).weights for rows in (layers, changed)]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_reweighted_steps_lower_the_cosine_loss_to_where_it_is_flat(made):
    """From the closed form to a stationary point, as autograd sees it."""
    drawn = torch.Generator().manual_seed(0)
    inputs = torch.randn(600, 6, generator=drawn) * torch.rand(600, 1, generator=drawn) * 5
    hidden = inputs @ torch.randn(6, 6, generator=drawn) + torch.randn(600, 6, generator=drawn)
    task, (fold,) = Task(made([inputs.numpy(), hidden.numpy()], [10] * 60), 1), folds_of(60, 1, 0)
    vectors, wanted = task.rows(task.places(fold.train))

    def slope(weight):
        weight = weight.clone().requires_grad_()
        loss = (1 - cosine_similarity(vectors @ weight, wanted)).mean()
        return float(loss.detach()), torch.autograd.grad(loss, weight)[0].norm() * weight.detach().norm()

    weights = fast.ridge(task, fold, "cosine", *(gram[0] for gram in fast.grams(task, [fold], unit=True)))[0]
    losses, slopes = [], []
    for _ in range(40):
        loss, gradient = slope(weights["weight"])
        losses.append(loss)
        slopes.append(float(gradient))
        weights = fast._reweighted(task, fold, weights, 1e-6)
    assert all(later <= before + 1e-7 for before, later in pairwise(losses))
    assert slopes[-1] < slopes[0] / 100


def test_refining_never_lowers_the_validation_rate(linear_world):
    rough = np.array(linear_world.layer(1)) + 3 * np.random.default_rng(0).normal(size=(240, 12)).astype(np.float32)
    rough.tofile(linear_world.folder / "layer_001.float32")
    task, folds = Task(linear_world, 1), folds_of(40, 4, 0)
    squares, products = fast.grams(task, folds, unit=True)
    for place, fitted in enumerate(fast.fit(task, folds, "cosine")):
        _, _, before = fast.ridge(task, folds[place], "cosine", squares[place], products[place])
        (after,) = evaluate("linear", [fitted.weights], "cosine", task, folds[place].validation)
        assert after.rate >= before.rate


def test_two_units_of_opposite_sign_are_linear():
    values = torch.linspace(-6, 6, 101, dtype=torch.float64)
    assert torch.allclose(gelu(values) - gelu(-values), values)


@pytest.mark.parametrize("loss", ["cosine", "l2"])
def test_network_carries_the_linear_map_and_more(made, linear_world, loss):
    """As good as the linear probe where the world is linear, better where it is not."""
    task, folds = Task(linear_world, 1), folds_of(40, 1, 0)
    fitted = next(fast_mlp.fit(task, folds, loss))
    assert fitted.weights["first"].shape == (12, 1000) and fitted.weights["second"].shape == (1000, 12)
    assert evaluate("mlp", [fitted.weights], loss, task, folds[0].test)[0].rate == 1

    drawn = torch.Generator().manual_seed(0)
    inputs = torch.randn(3000, 4, generator=drawn)
    hidden = (inputs @ torch.randn(4, 4, generator=drawn) / 2).exp()
    task, folds = Task(made([inputs.numpy(), hidden.numpy()], [10] * 300), 1), folds_of(300, 1, 0)
    linear, network = next(fast.fit(task, folds, loss)), next(fast_mlp.fit(task, folds, loss))
    (plain,) = evaluate("linear", [linear.weights], loss, task, folds[0].test)
    (bent,) = evaluate("mlp", [network.weights], loss, task, folds[0].test)
    assert bent.rate > plain.rate + 0.1


def test_network_has_the_published_shape():
    drawn = torch.Generator().manual_seed(0)
    weights = PROBES["mlp"].initial(768, drawn)
    shapes = {name: tuple(value.shape) for name, value in weights.items()}
    assert shapes == {"first": (768, 1000), "first_bias": (1000,), "second": (1000, 768), "second_bias": (768,)}
    assert float(weights["first"].abs().max()) <= (6 / 1768) ** 0.5
    assert float(weights["first"].std()) == pytest.approx((2 / 1768) ** 0.5, rel=0.01)
    assert PROBES["linear"].initial(768, drawn)["weight"].shape == (768, 768)
