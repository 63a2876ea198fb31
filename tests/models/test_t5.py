"""The encoders of T5 and mT5 alone: blocks with a list inside, an RMSNorm by another name, a bias by distance."""

import pytest
import torch
from transformers import AutoConfig, MT5EncoderModel, T5EncoderModel

from tests.families import batch, scatter
from tests.measures.reference import derivatives
from whence.measures.flow.contribution import jacobian
from whence.measures.norms.rollout import shares
from whence.measures.norms.value_zeroing import zeroed
from whence.models.capture import trace, walk
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

SMALL = {"vocab_size": 97, "d_model": 64, "d_kv": 12, "d_ff": 80, "num_layers": 3, "num_heads": 4}
KINDS = [("t5", T5EncoderModel, "relu"), ("t5", T5EncoderModel, "gated-gelu"), ("mt5", MT5EncoderModel, "gated-gelu")]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[2]}")
def encoder(request):
    name, build, form = request.param
    torch.manual_seed(0)
    return scatter(build(AutoConfig.for_model(name, **SMALL, feed_forward_proj=form))).eval()


def test_everything_but_a_head(encoder):
    everything = {
        "attention",
        "attention throughout",
        "rows",
        "values",
        "norms",
        "neurons",
        "secant",
        "derivatives",
        "long texts",
        "left padding",
    }
    assert capabilities(verify(locate(encoder))) == everything


def test_weights_are_those_the_model_hands_out(encoder):
    given = batch([9])
    seen = trace(locate(encoder), given)
    encoder.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = encoder(input_ids=given.ids, output_attentions=True).attentions
    for block, weights in zip(seen.blocks, theirs, strict=True):
        assert torch.allclose(block.attention, weights, atol=1e-6)


def test_the_jacobian_is_that_of_jacrev(encoder):
    anatomy, given = locate(encoder), batch([4])
    with linearised(anatomy, given) as chain:
        _, blocks = derivatives(chain, 2)
    found = jacobian(anatomy, given, mode="exact", layers=[1, 2]).norms
    torch.testing.assert_close(found, torch.linalg.matrix_norm(blocks), rtol=1e-5, atol=1e-6)


def test_value_zeroing_is_that_of_the_model_run_without_the_value(encoder):
    anatomy, given = locate(encoder.double()), batch([5])
    real = walk(anatomy, given, lambda block: block.output).blocks[1]

    def change(token):
        def edit(layer, weights):
            kept = weights.clone()
            kept[..., token] = 0
            return kept if layer == 2 else None

        other = walk(anatomy, given, lambda block: block.output, edit=edit).blocks[1]
        return 1 - torch.cosine_similarity(real, other, dim=-1)

    expected = shares(torch.stack([change(token) for token in range(5)], dim=-1))
    found = walk(anatomy, given, lambda block: zeroed(block, given.mask)).blocks[1]
    assert torch.allclose(found, expected, atol=1e-5)
