"""Blocks of no model: random tensors in every arrangement of norms, heads and masks that families have."""

import torch
from hypothesis import strategies as st
from torch.nn.functional import gelu, silu

from whence.models.block import Block
from whence.models.weights import Affine, FeedForward, Norm, Norms, Parts, Projection


@st.composite
def drawn(draw) -> tuple[Block, torch.Tensor]:
    """A block in float64 and its mask."""
    batch, groups, times, length, width = (draw(st.integers(1, most)) for most in (3, 2, 3, 6, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    parts = draw_parts(draw, generator, groups * times, width, model=draw(st.integers(2, 9)))
    real = torch.tensor([draw(st.integers(1, length)) for _ in range(batch)])
    mask = torch.arange(length) < real[:, None]
    attention = _attention(generator, mask, groups * times, causal=draw(st.booleans()))
    values = _normal(generator, batch, groups, length, width)
    states = _normal(generator, batch, length, parts.projection.weight.shape[-1])
    return finished(attention, values, states, parts), mask


def finished(attention, values, states, parts: Parts) -> Block:
    """The block whose projection and output are what its parts give."""
    nothing = torch.zeros_like(states)
    block = Block(1, attention, values, None, states, nothing, nothing, parts)
    projected = block.mixed(parts.projection)
    projected = projected if parts.projection.bias is None else projected + parts.projection.bias
    block = Block(1, attention, values, None, states, projected, nothing, parts)
    return Block(1, attention, values, None, states, projected, block.rebuilt, parts)


def draw_parts(draw, generator, heads: int, width: int, model: int) -> Parts:
    inner = draw(st.integers(1, 7))
    gated, parallel = draw(st.booleans()), draw(st.booleans())
    where = st.sampled_from(["before"] if parallel else ["before", "inside", "after"])

    def norms() -> Norms:
        norm = Norm(_normal(generator, model), _normal(generator, model), draw(st.booleans()), 1e-5)
        return Norms(**{draw(where): norm})

    def affine(rows: int, columns: int) -> Affine:
        return Affine(_normal(generator, rows, columns), _normal(generator, columns) if draw(st.booleans()) else None)

    forward = FeedForward(
        affine(model, inner),
        affine(model, inner) if gated else None,
        draw(st.sampled_from([gelu, silu, torch.tanh, torch.sigmoid])),
        affine(inner, model),
    )
    projection = Projection(_normal(generator, heads, width, model), _normal(generator, model))
    return Parts(projection, norms(), forward, norms(), parallel, draw(st.sampled_from([1.0, 0.3])))


def _attention(generator, mask, heads: int, causal: bool) -> torch.Tensor:
    batch, length = mask.shape
    allowed = mask[:, None, None].expand(batch, heads, length, length)
    if causal:
        allowed = allowed & torch.ones(length, length, dtype=torch.bool).tril()
    scores = 2 * _normal(generator, batch, heads, length, length)
    return scores.masked_fill(~allowed, -1e30).softmax(dim=-1)


def _normal(generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
