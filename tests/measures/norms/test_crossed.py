"""What both texts give a decoder's tokens in one block, against loops over the weights that the module has."""

import pytest
import torch
from torch.nn.functional import layer_norm

from tests.measures.reference import apart
from tests.stacks import KINDS, batch, build
from whence.measures.norms import crossed
from whence.measures.norms.rollout import shares
from whence.models.capture import trace
from whence.models.locate import locate


@pytest.fixture(params=KINDS)
def block(request):
    return trace(locate(build(request.param).double()), batch()).blocks[1]


def vectors(block, name: str) -> torch.Tensor:
    """z_ij, t x (s + p) x m, one by one."""
    across, parts = block.cross, block.parts
    rows, sources = across.attention.shape[-2:]
    first, second = parts.attention_norms.after, parts.cross.attention_norms.after
    found = torch.zeros(rows, sources + rows, block.input.shape[-1], dtype=torch.float64)
    for i in range(rows):
        for j in range(sources):
            for h, weight in enumerate(parts.cross.projection.weight):
                found[i, j] += across.attention[0, h, i, j] * (across.grouped_values[0, h, j] @ weight)
        for j in range(rows):
            own = found[i, sources + j]
            for h, weight in enumerate(parts.projection.weight):
                own += block.attention[0, h, i, j] * (block.values[0, h, j] @ weight)
            if name != "attn_n":
                own += block.input[0, i] * (i == j)
                own.copy_(own if first is None else first.linear(own) * first.scale(block.before_norm[0, i]))
        if name == "attnresln_n" and second is not None:
            found[i] = second.linear(found[i]) * second.scale(block.joined[0, i])
    return found


@pytest.mark.parametrize("name", ["attn_n", "attnres_n", "attnresln_n"])
def test_lengths_and_ratios_are_those_of_loops(block, name):
    expected = vectors(block, name)
    assert apart(crossed.maps(block, [name])[name][0], expected.norm(dim=-1)) < 1e-6
    place, rows = crossed.NAMES.index(name), torch.arange(4)
    kept = expected[rows, 6 + rows]
    taken = expected.sum(dim=1) - kept
    ratio = taken.norm(dim=-1) / (taken.norm(dim=-1) + kept.norm(dim=-1))
    assert torch.allclose(crossed.mixing(block)[0, place], ratio)
    source, rest = expected[:, :6].sum(dim=1).norm(dim=-1), expected[:, 6:].sum(dim=1).norm(dim=-1)
    assert torch.allclose(crossed.mixing(block, "from_source")[0, place], source / (source + rest))


def test_vectors_and_biases_add_up_to_the_state_before_the_feed_forward(block):
    """Of a cross-attention without a norm behind it, what is missing is constant biases alone."""
    missing = block.middle[0] - vectors(block, "attnresln_n").sum(dim=1)
    if block.parts.cross.attention_norms.after is None and block.parts.attention_norms.after is None:
        assert apart(missing, missing[:1].expand_as(missing)) < 1e-6 or missing.abs().max() < 1e-6
    first = block.parts.attention_norms.after
    if first is not None:
        second = block.parts.cross.attention_norms.after
        constants = first.linear(block.parts.projection.bias) * first.scale(block.before_norm[0]) + first.bias
        constants = constants + block.parts.cross.projection.bias
        assert apart(second.linear(constants) * second.scale(block.joined[0]) + second.bias, missing) < 1e-6


def test_weights_are_shared_out_over_both_attentions(block):
    own, across = block.attention[0].mean(0), block.cross.attention[0].mean(0)
    found = crossed.maps(block, ["attn_w", "attnres_w"])
    assert torch.allclose(found["attn_w"][0], torch.cat([across, own], -1) / 2)
    once = (own + torch.eye(4)) / 2
    assert torch.allclose(found["attnres_w"][0], torch.cat([across / 2, once / 2], -1))
    assert all(torch.allclose(weights.sum(-1), torch.ones(1, 4).double()) for weights in found.values())
    ratios = crossed.mixing(block)[0]
    for place, name in ((0, "attn_w"), (2, "attnres_w")):
        assert torch.allclose(ratios[place], 1 - found[name][0, range(4), range(6, 10)])


def test_the_whole_block_is_the_feed_forward_with_its_slopes(block):
    """By the definition of the slope, and not by the steps: each neuron's g(u) / u at what it read."""
    parts, forward = block.parts, block.parts.feed_forward
    if forward.linear is not None:
        pytest.skip("gated: shared out by integrals, which test_block has")
    before, after = parts.feed_forward_norms.before, parts.feed_forward_norms.after
    middle, expected = block.middle[0], []
    read = middle if before is None else before(middle)
    neurons = forward.activated(read)
    at_zero = forward.activation(torch.zeros_like(neurons))
    slope = (forward.activation(neurons) - at_zero) / neurons
    for i, row in enumerate(vectors(block, "attnresln_n")):
        normed = row if before is None else before.linear(row) * before.scale(middle[i])
        moved = row + ((normed @ forward.activated.weight) * slope[i]) @ forward.down.weight
        total = middle[i] + forward(read[i])
        expected.append(moved if after is None else after.linear(moved) * after.scale(total))
    expected = torch.stack(expected)
    assert apart(crossed.block_norms(block)[0], expected.norm(dim=-1)) < 1e-6
    assert torch.equal(crossed.block_norms(block, budget=1), crossed.block_norms(block)) or torch.allclose(
        crossed.block_norms(block, budget=1), crossed.block_norms(block)
    )
    rows = torch.arange(4)
    kept = expected[rows, 6 + rows]
    taken = (expected.sum(dim=1) - kept).norm(dim=-1)
    assert torch.allclose(crossed.block_mixing(block)[0], taken / (taken + kept.norm(dim=-1)))


def test_alti_is_how_much_nearer_each_vector_brings_the_state(block):
    state, each = block.middle[0], vectors(block, "attnresln_n")
    nearer = state.abs().sum(-1)[:, None] - (state[:, None] - each).abs().sum(-1)
    assert torch.allclose(crossed.alti(block)[0], shares(nearer.clamp(min=0)))


def test_cross_attention_by_the_modules_own_weights():
    """BART's second layer, from its weights and the weights of attention that it hands out."""
    model, given = build("bart").double(), batch()
    block = trace(locate(model), given).blocks[1]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        asked = {"output_attentions": True, "output_hidden_states": True, "use_cache": False}
        seen = model.model(input_ids=given.source.ids, decoder_input_ids=given.prefix.ids, **asked)
        layer = model.model.decoder.layers[1]
        attention, source = seen.cross_attentions[1][0], seen.encoder_last_hidden_state[0]
        values = layer.encoder_attn.v_proj(source).view(6, 2, 32)
        written = layer.encoder_attn.out_proj.weight.view(64, 2, 32)
        carried = torch.einsum("hij,jhd,mhd->ijm", attention, values, written)
        states, mask = seen.decoder_hidden_states[1], torch.full((4, 4), -1e9).triu(1)[None, None].double()
        attended = layer.self_attn_layer_norm(states + layer.self_attn(states, attention_mask=mask)[0])
        joined = attended[0] + carried.sum(1) + layer.encoder_attn.out_proj.bias
        norm = layer.encoder_attn_layer_norm
        centred = carried - carried.mean(-1, keepdim=True)
        past = centred * norm.weight / joined.std(-1, unbiased=False)[:, None, None]
        assert apart(crossed.maps(block, ["attn_n"])["attn_n"][0, :, :6], carried.norm(dim=-1)) < 1e-6
        assert apart(crossed.maps(block, ["attnresln_n"])["attnresln_n"][0, :, :6], past.norm(dim=-1)) < 1e-4
        assert apart(block.middle[0], layer_norm(joined, (64,), norm.weight, norm.bias)) < 1e-6
