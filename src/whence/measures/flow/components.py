"""What the parts of one block, residual stream, heads and feed-forward, gave to a prediction.

A covector at the block's output is followed to each part by the direct way: to what the feed-forward wrote, to what
each head wrote from each source, and to the state that went past both. What a head gave by way of this block's
feed-forward counts as the feed-forward's, so that nothing is counted twice and the parts add up with the constants.
"""

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from whence.linear.steps import Attention, Branches, Chain, Linear, Sums, Vectors


def components(
    block: Branches, states: Float[Tensor, "t m"], covectors: Vectors, sums: Sums
) -> Float[Tensor, "p component source"]:
    """Parts by component (residual, heads, feed-forward) and token; what belongs to none is added to the sums.

    A head's token is the one it read; the feed-forward's the one it was at.
    """
    start = states[None]
    middle = block.past_attention.push(start + block.attention.push(start, True), True)
    fed = block.feed_forward.push(start if block.parallel else middle, True)
    joined = block.past_feed_forward.pull(covectors, sums)
    direct = block.past_attention.pull(joined, sums)
    residual, forward = (direct * start).sum(dim=-1), (joined * fed).sum(dim=-1)
    return torch.cat([residual[:, None], _heads(block.attention, start, direct, sums), forward[:, None]], dim=1)


def _heads(
    chain: Chain, start: Float[Tensor, "1 t m"], covectors: Vectors, sums: Sums
) -> Float[Tensor, "p head source"]:
    place = next(number for number, step in enumerate(chain.steps) if isinstance(step, Attention))
    attention = chain.steps[place]
    assert isinstance(attention, Attention)
    covectors = Chain(chain.steps[place + 1 :], chain.factor).pull(covectors, sums)
    if attention.projection.bias is not None:
        sums += covectors.sum(dim=1) @ attention.projection.bias
    groups, shared = attention.weights.shape[:2]
    read = Linear(attention.values).push(Chain(chain.steps[:place]).push(start, True), True)[0]
    values = rearrange(read, "s (g d) -> g s d", g=groups)
    projected = covectors @ attention.projection.weight.flatten(0, 1).T
    written = rearrange(projected, "p t (g r d) -> p g r t d", g=groups, r=shared)
    reached = einsum(attention.weights, written, "g r t s, p g r t d -> p g r s d")
    return rearrange(einsum(reached, values, "p g r s d, g s d -> p g r s"), "p g r s -> p (g r) s")
