"""The value maps found by asking are those the model uses."""

import pytest
import torch
from torch import nn

from tests.families import DISTINCT, NO_VALUE_MAP, batch, build
from whence.errors import Unsupported
from whence.models.capture import trace
from whence.models.locate import locate
from whence.models.values import value_maps


@pytest.mark.parametrize("name", [name for name in DISTINCT if name not in NO_VALUE_MAP])
def test_real_states_have_the_values_of_the_map(name):
    anatomy, rows = locate(build(name)), batch([9, 7])
    for block, found in zip(trace(anatomy, rows).blocks, value_maps(anatomy), strict=True):
        norm = block.parts.attention_norms.before
        values = found(block.input if norm is None else norm(block.input))
        real = block.grouped_values.transpose(1, 2).flatten(start_dim=2)
        assert torch.allclose(values[rows.mask], real[rows.mask], atol=1e-5 * float(real.abs().max()))


def test_the_weights_themselves_come_back():
    model = build("bert")
    found = value_maps(locate(model))[1]
    own = model.bert.encoder.layer[1].attention.self.value
    assert torch.allclose(found.weight, own.weight.T, atol=1e-6)
    assert torch.equal(found.bias, own.bias)


def test_the_model_is_left_as_it_was():
    model = build("gpt2").train()
    hooks = sum(len(module._forward_pre_hooks) for module in model.modules())
    value_maps(locate(model))
    assert model.training and model.config._attn_implementation == "sdpa"
    assert sum(len(module._forward_pre_hooks) for module in model.modules()) == hooks


def test_values_that_are_no_affine_map_are_refused():
    model = build("bert")
    layer = model.bert.encoder.layer[0].attention.self
    layer.value = nn.Sequential(layer.value, nn.Tanh())
    with pytest.raises(Unsupported, match="no affine map"):
        value_maps(locate(model))
