"""A massive activation is no failure and hides none: every check passes a right model with one, and sees a wrong part.

Trained models have them: a few dimensions of a few tokens, or of all, thousands of times as large as the rest.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from tests.families import batch, build
from tests.models.test_verify import EVERYTHING
from whence.errors import Unsupported, VerificationFailed
from whence.linear.matrices import matrices
from whence.linear.tangent import by_parts
from whence.measures.attention import alternative
from whence.models import affine, capture, end_to_end, locate, verify
from whence.models.agreement import apart
from whence.models.block_weights import BlockWeights
from whence.models.linearise import linearised
from whence.models.values import value_maps

HUGE = 1e5
NAMES = ("llama", "gpt2", "bert", "gemma2", "olmo2")


def massive(name, dtype=torch.float32, size=HUGE):
    """A model with one huge activation in every token."""
    model = build(name)
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 7] += size
    return model.to(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_a_right_model_passes_every_check(name):
    assert verify.capabilities(verify.verify(locate.locate(massive(name)))) == EVERYTHING


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_too(dtype):
    """The square of 1000 is more than float16 holds."""
    anatomy = locate.locate(massive("llama", dtype, 1000))
    assert verify.capabilities(verify.verify(anatomy)) == EVERYTHING


def _attention_too_large(monkeypatch, anatomy):
    own = capture._own_eager

    def enlarged(module):
        def attend(*args, **kwargs):
            output, weights = own(module)(*args, **kwargs)
            return 1.01 * output, weights

        return attend

    monkeypatch.setattr(capture, "_own_eager", enlarged)


def _positions_shifted(monkeypatch, anatomy):
    given = capture.arguments
    dropped = ("position_ids",)
    without = lambda *args: {name: value for name, value in given(*args).items() if name not in dropped}  # noqa: E731
    monkeypatch.setattr(capture, "arguments", without)


def _parts_changed(**changes):
    def change(monkeypatch, anatomy):
        parts = type(anatomy).parts
        monkeypatch.setattr(type(anatomy), "parts", lambda own, block: replace(parts(own, block), **changes))

    return change


def _projection_too_large(monkeypatch, anatomy):
    own = type(anatomy).projection

    def enlarged(anatomy, block):
        found = own(anatomy, block)
        return replace(found, weight=1.11 * found.weight)

    monkeypatch.setattr(type(anatomy), "projection", enlarged)


def _decoder_too_large(monkeypatch, anatomy):
    """But for the row of a word that has a huge logit by itself."""
    own = type(anatomy).head.fget

    def enlarged(anatomy):
        head = own(anatomy)
        weight = head.decoder.weight.clone()
        weight[:, 1:] *= 1.11
        return replace(head, decoder=replace(head.decoder, weight=weight))

    monkeypatch.setattr(type(anatomy), "head", property(enlarged))


WRONG = {
    "logits are what the model gives unwatched": ("gpt2", _attention_too_large),
    "left padding changes nothing": ("gpt2", _positions_shifted),
    "heads sum to the projection": ("llama", _projection_too_large),
    "block outputs are the sum of their parts": ("llama", _parts_changed(residual_scale=1.11)),
    "the LM head gives the logits": ("llama", _decoder_too_large),
}


@pytest.mark.parametrize("check", WRONG)
def test_a_wrong_part_is_seen(check, monkeypatch):
    name, change = WRONG[check]
    model = massive(name)
    with torch.no_grad():
        model.get_output_embeddings().weight[0] *= 1e4
    anatomy = locate.locate(model)
    assert verify.capabilities(verify.verify(anatomy)) == EVERYTHING
    change(monkeypatch, anatomy)
    with pytest.raises(VerificationFailed, match=check):
        verify.verify(anatomy)


def test_a_mask_that_vanished_is_seen_beside_a_massive_token(monkeypatch):
    """One token is huge, as the first often is; the others tell."""
    model = build("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[locate.probe(model).ids[0, 0], 7] += HUGE
    anatomy = locate.locate(model)
    assert verify.capabilities(verify.verify(anatomy)) == EVERYTHING
    monkeypatch.delitem(verify.transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, capture.SEAM)
    with pytest.raises(VerificationFailed, match="logits are what the model gives"):
        verify.verify(anatomy)


def test_a_hidden_path_is_seen():
    model = massive("llama")
    read = []
    model.model.layers[0].register_forward_pre_hook(lambda _, args: read.append(args[0]))
    model.model.layers[-1].register_forward_hook(lambda _, __, output: output + 0.01 * read[-1])
    assert end_to_end.missed(locate.locate(model)).error > end_to_end.CLOSE[torch.float32]


class _Misread(BlockWeights):
    """Weights of blocks, with the heads' part 11 % too large."""

    def parts(self, block):
        parts = super().parts(block)
        return replace(parts, projection=replace(parts.projection, weight=1.11 * parts.projection.weight))


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_derivatives_from_parts_are_the_blocks_own_or_not_used(name):
    """What is 11 % too large is nothing beside the residual, where a token is huge."""
    with linearised(locate.locate(massive(name)), batch([6])) as chain:
        assert len(chain.steps) == 3
        for step in chain.steps:
            assert by_parts(step) is not None and matrices(step, by_parts(step), 50) is not None
            wrong = replace(step, weights=_Misread(step.weights.anatomy, step.weights.precision))
            assert by_parts(wrong) is None
            found = by_parts(step)
            assert matrices(step, replace(found, attention=replace(found.attention, factor=1.11)), 50) is None


@pytest.mark.parametrize("causal", [True, False])
def test_causality_is_seen(causal):
    """What the last token does to those before it is small beside what is huge."""
    model = massive("llama" if causal else "bert", size=100).base_model
    assert locate._is_causal(model, model) is causal


class _Bent(nn.Module):
    """A linear layer with one huge dimension, and in the others a little that is not linear."""

    def __init__(self, bend):
        super().__init__()
        self.linear, self.bend = nn.Linear(8, 8), bend
        with torch.no_grad():
            self.linear.weight[3] *= HUGE

    def forward(self, states):
        return self.linear(states) + self.bend * states.square()


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_a_layer_that_is_not_linear_is_seen(bend):
    torch.manual_seed(0)
    assert affine.is_affine(_Bent(bend)) is (bend == 0)
    assert (affine._probed(_Bent(bend)) is not None) is (bend == 0)
    wrong = affine.Affine(Conv1D(8, 8).weight.detach(), None)
    assert not affine._agrees(wrong, _Bent(0.0))


@pytest.mark.parametrize("bend", [False, True])
def test_values_that_are_no_affine_map_are_seen_beside_a_huge_bias(bend):
    model = build("bert")
    layer = model.bert.encoder.layer[0].attention.self
    with torch.no_grad():
        layer.value.bias += 10
    if not bend:
        assert len(value_maps(locate.locate(model))) == 3
        return
    layer.value = nn.Sequential(layer.value, _Curved())
    with pytest.raises(Unsupported, match="no affine map"):
        value_maps(locate.locate(model))


class _Curved(nn.Module):
    def forward(self, states):
        return states + 1e-5 * (states - 10).square()


def test_what_another_attention_does_is_told_by_token(monkeypatch):
    """A token that moves counts by its own size, not by that of a massive one."""
    expected = torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(0))
    expected[0, 2] *= HUGE
    found = expected.clone()
    found[0, 1] *= 1.1
    assert alternative.apart(found, expected) == pytest.approx(0.1, rel=1e-3)


def test_a_few_huge_entries_hide_nothing_of_a_token():
    expected = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    expected[:, :2] *= HUGE
    wrong = expected.clone()
    wrong[1, 5:] *= 1.11
    assert apart(wrong, expected) > 0.05
    rounded = expected * (1 + torch.finfo(torch.float32).eps)
    assert apart(rounded, expected) < 1e-5
    assert apart(torch.full_like(expected, torch.nan), expected) == float("inf")
