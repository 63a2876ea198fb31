"""Quantised weights: read as what they work out to, without derivatives; refused where that is no linear map."""

import pytest
import torch
from torch import nn

import whence
from tests import tiny
from tests.families import build
from whence.errors import Unsupported

TEXT = "ada bo cy dee ed ."


class Quantised(nn.Linear):
    """Weights in eight bits, as bitsandbytes keeps them; what is read is rounded, too, where `rounds`."""

    def __init__(self, linear, rounds=False):
        super().__init__(linear.in_features, linear.out_features)
        weight = linear.weight.detach()
        self.rounds, self.scale = rounds, float(weight.abs().max()) / 127
        self.weight = nn.Parameter((weight / self.scale).round().to(torch.int8), requires_grad=False)
        self.bias = linear.bias

    def forward(self, states):
        states = states.mul(8).round() / 8 if self.rounds else states
        return states @ (self.weight.to(states.dtype) * self.scale).T + self.bias


def quantised(**options):
    network = build("bert")
    for block in network.bert.encoder.layer:
        block.attention.output.dense = Quantised(block.attention.output.dense, **options)
        block.output.dense = Quantised(block.output.dense, **options)
    return network


def test_quantised_weights_are_read_as_what_they_work_out_to():
    network = quantised()
    plain = build("bert")
    for block, other in zip(network.bert.encoder.layer, plain.bert.encoder.layer, strict=True):
        for own, like in (
            (block.attention.output.dense, other.attention.output.dense),
            (block.output.dense, other.output.dense),
        ):
            like.weight.data = own.weight.float() * own.scale
    found, expected = (
        whence.why(whence.load(each, tiny.tokenizer()), TEXT, position=2, measures="share") for each in (network, plain)
    )
    assert found.share.values == pytest.approx(expected.share.values, rel=1e-3, abs=1e-5)
    assert float(abs(found.share.sum("source") + found.bias - found.logit).max()) < 1e-4


@pytest.mark.parametrize("measure", ["contribution", "gradient"])
def test_they_have_no_derivatives(measure):
    model = whence.load(quantised(), tiny.tokenizer())
    with pytest.raises(Unsupported, match=r"needs derivatives"):
        whence.measure(model, TEXT, measure)
    with pytest.raises(Unsupported, match=r"needs derivatives.*ask for 'share' alone"):
        whence.why(model, TEXT, position=2, measures="dependence")


def test_what_is_no_map_of_what_it_reads_is_refused():
    with pytest.raises(Unsupported, match="no affine map of what it reads; load the model unquantised"):
        whence.load(quantised(rounds=True), tiny.tokenizer())
