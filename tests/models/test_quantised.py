"""Quantised weights: read as what they work out to, without derivatives; refused where that is no linear map."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import whence
from tests import tiny
from tests.families import build
from tests.models.test_pieces import apart
from whence.errors import Unsupported
from whence.models import fingerprint

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


class Packed(torch.Tensor):
    """As torchao keeps a quantised weight: it passes for float32, a linear layer can use it, and little else."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    def dequantize(self):
        return self.whole.float() * self.scale

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            return function(args[0], args[1].dequantize(), *args[2:], **kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        if operation is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        raise NotImplementedError(f"unimplemented operator: {operation}")


def test_weights_in_tensors_of_their_own_are_those_they_stand_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.utils", SimpleNamespace(TorchAOBaseTensor=Packed))
    packed, plain = build("llama", tie_word_embeddings=False), build("llama", tie_word_embeddings=False)
    for layer, like in zip(packed.modules(), plain.modules(), strict=True):
        if isinstance(layer, nn.Linear):
            scale = float(layer.weight.detach().abs().max()) / 127
            weight = Packed((layer.weight.detach() / scale).round().to(torch.int8), scale)
            layer.weight, like.weight.data = nn.Parameter(weight, requires_grad=False), weight.dequantize()
    found, expected = (whence.load(network, tiny.tokenizer()) for network in (packed, plain))
    assert found.gives == expected.gives
    names = ["attention", "mixing", "norms", "contribution", "gradient", "decomposition", "expansion"]
    for ask in (lambda model: whence.measure(model, TEXT, names), lambda model: whence.why(model, TEXT)):
        assert apart(*map(ask, (expected, found))) <= 1e-6
    assert fingerprint.hashed(found) == fingerprint.hashed(expected)
