"""Models in half precision: measured in float32 on their own weights, one block at a time."""

import copy
import weakref

import numpy as np
import pytest
import torch

import whence
from tests import tiny
from tests.families import build
from whence.models import block_weights
from whence.models.precision import COLUMNS, product

PROMPT = "ada bo cy dee"
# the largest difference, relative to the largest value, from the same weights in float32: bfloat16 keeps eight bits
LIMITS = {"norms": 2e-2, "mixing": 2e-2, "contribution": 2e-2, "decomposition": 2e-2, "gradient": 6e-2}


@pytest.fixture(scope="module")
def half():
    return build("llama", pad_token_id=0).to(torch.bfloat16)


def apart(one, other):
    return np.nanmax(np.abs(one - other)) / np.nanmax(np.abs(other))


def test_it_is_the_arithmetic_of_float32_on_the_same_weights(half):
    model, single = (whence.load(network, tiny.tokenizer()) for network in (half, copy.deepcopy(half).float()))
    found, expected = (whence.measure(each, PROMPT, list(LIMITS)) for each in (model, single))
    errors = {name: apart(found[name].values, expected[name].values) for name in LIMITS}
    assert all(errors[name] <= limit for name, limit in LIMITS.items()), errors
    found, expected = (whence.why(each, PROMPT) for each in (model, single))
    assert apart(found.share.values, expected.share.values) <= 2e-2
    assert apart(found.dependence.values, expected.dependence.values) <= 2e-2
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("ask", [lambda model: whence.measure(model, PROMPT, "contribution"), whence.why])
def test_one_block_is_widened_at_a_time(half, monkeypatch, ask):
    model, own = whence.load(half, tiny.tokenizer()), block_weights.widened
    widened: list[weakref.ref] = []

    def counted(module, precision):
        assert not any(tensor() is not None for tensor in widened)
        tensors = own(module, precision)
        widened.extend(weakref.ref(tensor) for tensor in tensors.values())
        return tensors

    monkeypatch.setattr(block_weights, "widened", counted)
    ask(model, PROMPT) if ask is whence.why else ask(model)
    assert len(widened) >= model.anatomy.layers


def test_a_product_with_a_matrix_in_half_precision():
    states = torch.randn(3, 5, requires_grad=True)
    weight = torch.randn(5, COLUMNS + 7).to(torch.bfloat16)
    found, expected = product(states, weight), states @ weight.float()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
    cotangent = torch.randn_like(expected)
    gradients = [torch.autograd.grad(output, states, cotangent)[0] for output in (found, expected)]
    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-3)
