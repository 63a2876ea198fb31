"""Blocks and LM heads as the affine maps they were: they give back every state and logit, forwards and backwards."""

import pytest
import torch

from tests.families import CONFIGS, DISTINCT, batch, build
from whence.errors import Unsupported
from whence.linear.secant import secants
from whence.measures.flow.readout import of_tokens
from whence.models.capture import trace
from whence.models.locate import locate

SINGLE = {"mpt", "bloom"}  # their masks are float32 whatever the model is


@pytest.fixture(params=[name for name in DISTINCT if name in CONFIGS])
def anatomy(request):
    model = build(request.param)
    return locate(model if request.param in SINGLE else model.double())


def limit(anatomy):
    """Norms of some families are computed in float32 in any case."""
    return 1e-5 if anatomy.model.dtype == torch.float32 else 2e-6


def test_every_kind_of_block_is_given_back_and_pulled_as_it_is_pushed(anatomy):
    """M h + c is the next state, head and all, and u (M v) = (u M) v between any two layers."""
    text = batch([7])
    chain, seen = secants(anatomy, text), trace(anatomy, text, logits=True)
    for block, before, after in zip(chain.blocks, chain.states[:-1], chain.states[1:], strict=True):
        assert torch.allclose(block.push(before[None], constants=True)[0], after, rtol=0, atol=limit(anatomy) * 20)
    readout = of_tokens(anatomy, range(len(chain.last)), len(chain.last))
    for place, state in enumerate(chain.last):
        made = readout.chain(place, state[None], [3, 8]).push(state[None, None], constants=True)[0, 0]
        assert torch.allclose(made, seen.logits[0, place, [3, 8]], atol=1e-4)
    generator = torch.Generator().manual_seed(0)
    vectors, covectors = (torch.randn(2, *chain.last.shape, generator=generator).to(chain.last) for _ in range(2))
    for start, end in ((0, None), (1, 2)):
        forwards = (covectors * chain.push(vectors, start, end)).sum(dim=(1, 2))
        back = (chain.pull(covectors, end, start) * vectors).sum(dim=(1, 2))
        assert torch.allclose(forwards, back, rtol=1e-3 if anatomy.model.dtype == torch.float32 else 1e-9)


def test_constants_are_summed_on_the_way_back():
    """u (M 0 + c) = what `pull` adds to the sums."""
    chain = secants(locate(build("gpt2").double()), batch([6]))
    covectors = torch.randn(3, *chain.last.shape, dtype=torch.float64)
    sums = covectors.new_zeros(3)
    chain.blocks[1].pull(covectors, sums)
    constant = chain.blocks[1].push(torch.zeros_like(chain.last)[None], constants=True)
    assert torch.allclose(sums, (covectors * constant).sum(dim=(1, 2)))


def test_a_chain_is_the_product_of_its_pieces():
    chain = secants(locate(build("llama").double()), batch([6]))
    vectors = torch.randn(2, *chain.last.shape, dtype=torch.float64)
    assert torch.equal(chain.push(vectors), chain.push(chain.push(vectors, 0, 1), 1))


def test_what_was_held_is_the_pass_with_weights_detached():
    """The secant of a pre-norm block without a feed-forward's gate is autograd with weights and scales detached."""
    model = build("opt").double()
    anatomy = locate(model)
    chain, states = secants(anatomy, batch([5])), None
    layer, attention = model.model.decoder.layers[0], model.model.decoder.layers[0].self_attn
    states = chain.states[0].clone().requires_grad_()
    weights = trace(anatomy, batch([5])).blocks[0].attention[0]

    def held(norm, given):
        centred = given - given.mean(dim=-1, keepdim=True)
        deviation = (centred.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt().detach()
        return centred / deviation * norm.weight + norm.bias

    values = attention.v_proj(held(layer.self_attn_layer_norm, states)).unflatten(-1, (len(weights), -1))
    heads = torch.einsum("hts,shd->thd", weights, values).flatten(1)
    middle = states + attention.out_proj(heads)
    before = layer.fc1(held(layer.final_layer_norm, middle))
    output = middle + layer.fc2(before * (before > 0).detach())  # ReLU: its slope from zero
    assert torch.allclose(output, chain.states[1])
    covector = torch.randn_like(output)
    expected = torch.autograd.grad(output, states, covector)[0]
    assert torch.allclose(chain.blocks[0].pull(covector[None])[0], expected)


def test_among_some_tokens_is_the_rest_of_it():
    chain = secants(locate(build("llama").double()), batch([6]))
    vectors = torch.randn(2, *chain.last.shape, dtype=torch.float64)
    vectors[:, :2] = 0
    whole = chain.blocks[0].push(vectors)
    assert (
        torch.allclose(chain.blocks[0].among(slice(2, None)).push(vectors[:, 2:]), whole[:, 2:])
        and not whole[:, :2].any()
    )


def test_a_hybrid_is_refused():
    with pytest.raises(Unsupported, match=r"only the layers 3 attend.*contribution"):
        secants(locate(build("recurrent_gemma")), batch([5]))
