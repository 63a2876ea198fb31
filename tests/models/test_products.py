"""Attention outside transformers' interface: the model's own, heard at the softmax and the product after it."""

import pytest
import torch
from torch import nn

from tests.families import OUTSIDE, SWITCHED, batch, build
from whence.measures.flow.contribution import jacobian
from whence.models.anatomy import PRODUCTS
from whence.models.capture import trace, walk
from whence.models.locate import locate
from whence.models.products import overheard


@pytest.mark.parametrize("name", OUTSIDE)
def test_weights_are_those_the_model_hands_out(name):
    model, given = build(name), batch([9, 6])
    anatomy = locate(model)
    seen = trace(anatomy, given)
    assert anatomy.seam == PRODUCTS
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        asked = {"attention_mask": given.mask.long(), "output_attentions": True, "return_dict": True}
        theirs = anatomy.stack(input_ids=given.ids, **asked).attentions
    for block, weights in zip(seen.blocks, theirs, strict=True):
        assert torch.allclose(block.attention[0], weights[0], atol=1e-5)
        assert torch.allclose(block.attention[1, :, :6, :6], weights[1, :, :6, :6], atol=1e-5)


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_weights_are_gone_on_with(name):
    anatomy, given = locate(build(name)), batch([9])
    own = trace(anatomy, given)

    def uniform(layer, weights):
        return torch.full_like(weights, 1 / 9) if layer == 2 else None

    seen = walk(anatomy, given, lambda block: block, edit=uniform)
    block = seen.blocks[1]
    assert torch.equal(block.attention, torch.full_like(block.attention, 1 / 9))
    projection = block.parts.projection
    expected = torch.einsum("bhsd,hdm->bsm", block.values, projection.weight).mean(dim=1, keepdim=True)
    expected = expected if projection.bias is None else expected + projection.bias
    assert torch.allclose(block.projected, expected.expand_as(block.projected), atol=1e-5)
    assert torch.equal(seen.blocks[0].output, own.blocks[0].output)
    assert not torch.allclose(seen.blocks[2].output, own.blocks[2].output, atol=1e-3)


def test_sources_that_may_not_be_seen():
    """GPT-Neo looks two tokens back in its local layers."""
    seen = trace(locate(build("gpt_neo")), batch([9]))
    full, local = (block.allowed[0, 0] for block in seen.blocks[:2])
    causal = torch.ones(9, 9).tril().bool()
    assert torch.equal(full, causal)
    assert torch.equal(local, causal & (torch.arange(9)[:, None] - torch.arange(9) < 3))


class _Layer(nn.Module):
    def forward(self, states):
        weights = (states @ states.mT).softmax(dim=-1)
        return weights @ states


def test_softmaxes_of_other_shapes_are_no_attention():
    told = []
    with overheard(layer := _Layer(), lambda *given: told.append(given)):
        layer(torch.randn(2, 3, 4))
        assert not told
        layer(torch.randn(1, 2, 3, 4))
    assert len(told) == 1 and told[0][0] is layer
    assert not layer._forward_hooks and not layer._forward_pre_hooks


@pytest.mark.parametrize("name", SWITCHED)
def test_experts_have_derivatives_whatever_computes_them(name):
    """The grouped product, transformers' default, has none of its own."""
    given = batch([4])
    found = [
        jacobian(locate(build(name, experts_implementation=experts)), given, mode="exact").norms
        for experts in ("eager", "grouped_mm")
    ]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
