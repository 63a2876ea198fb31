"""Lengths of all pairs' vectors from one small matrix per source token: the inner products of its heads' vectors.

With f_h(x_j) = v^h_j W_h and G_j[h, k] = <f_h(x_j), f_k(x_j)>: |sum_h A^h_ij f_h(x_j)|^2 = a_ij^T G_j a_ij. A norm's
linear part L z = weight * (z - mean z) has Gram matrices <L f_h, L f_k> of its own. Every step works on a chunk small
enough for the cache: there is little arithmetic, and moving tensors would take most of the time.
"""

from dataclasses import dataclass

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from whence.measures.norms.vectors import anatomy_of, chunks
from whence.models.block import Block
from whence.models.weights import Norm

# entries held at a time: of BERT-base, the vectors of all heads of 256 tokens, and the weights of 1024 x 128 pairs;
# smaller chunks would fit the cache better, but each waits for all threads, which is slow on a busy machine
VECTORS = 12 * 256 * 768
PAIRS = 12 * 1024 * 128


@dataclass(frozen=True)
class Lengths:
    """Of the vector sum_h A^h_ij f_h(x_j): its length, and past the linear part of the attention's norm if it has one.

    `own` are the vectors of the diagonal themselves, a by-product.
    """

    plain: Float[Tensor, "b t s"]
    normed: Float[Tensor, "b t s"]
    own: Float[Tensor, "b t m"]


def lengths(block: Block) -> Lengths:
    """|sum_h A^h_ij f_h(x_j)| and |L sum_h A^h_ij f_h(x_j)| for every pair."""
    norms = anatomy_of(block).attention_norms
    assert norms.inside is None or norms.after is None, "no family has both"
    grams, own = _grams(block, norms.after if norms.inside is None else norms.inside)
    squares = _quadratic(block.attention, grams)
    plain, *normed = squares.clamp_(min=0).sqrt_().unbind()
    return Lengths(plain, normed[0] if normed else plain, own)


def _grams(block: Block, norm: Norm | None) -> tuple[Float[Tensor, "b s kh h"], Float[Tensor, "b t m"]]:
    """Gram matrices of every source token, those past the norm below the plain ones, and the targets' own vectors.

    Under a centred norm the vectors are kept without their means, which come back into the plain ones by
    <f, g> = <f - mean f, g - mean g> + m mean f mean g: a sum without cancellation.
    """
    weight = anatomy_of(block).projection.weight
    values = rearrange(block.values, "b h s d -> h (b s) d")
    diagonal = rearrange(_own_of_sources(block), "b h s -> (b s) 1 h")
    centred = norm is not None and norm.centred
    centre = weight.mean(dim=-1, keepdim=True)
    grams, own = _uncentred(values, diagonal, weight - centre if centred else weight, norm)
    if centred:
        means = einsum(values, centre[..., 0], "h n d, h d -> n h")
        grams[:, : len(weight)].baddbmm_(means[:, :, None], means[:, None], alpha=weight.shape[-1])
        own += diagonal @ means[:, :, None]
    batch = len(block.input)
    own = rearrange(own, "(b s) 1 m -> b s m", b=batch)
    grams = rearrange(grams, "(b s) g h -> b s g h", b=batch)
    if block.crosses:
        return grams, torch.zeros_like(block.input)
    return grams, own if block.targets is None else own[:, block.targets]


def _own_of_sources(block: Block) -> Float[Tensor, "b h s"]:
    """A_ii; zero for sources that are no target."""
    if block.crosses:
        return block.attention.new_zeros(*block.attention.shape[:2], block.grouped_values.shape[2])
    if block.targets is None:
        return block.own_weights
    own = block.own_weights.new_zeros(*block.own_weights.shape[:2], block.grouped_values.shape[2])
    own[..., block.targets] = block.own_weights
    return own


def _uncentred(
    values: Float[Tensor, "h n d"], diagonal: Float[Tensor, "n 1 h"], weight: Float[Tensor, "h d m"], norm: Norm | None
) -> tuple[Float[Tensor, "n kh h"], Float[Tensor, "n 1 m"]]:
    heads, tokens, width = len(weight), values.shape[1], weight.shape[-1]
    rows = heads if norm is None else 2 * heads
    size = max(1, VECTORS // (heads * width))
    buffer = values.new_empty(rows * min(size, tokens) * width)
    grams, own = values.new_empty(tokens, rows, heads), values.new_empty(tokens, 1, width)
    for chunk in chunks(tokens, size):
        count = chunk.stop - chunk.start
        vectors = buffer[: rows * count * width].view(rows, count, width)
        torch.bmm(values[:, chunk], weight, out=vectors[:heads])
        if norm is not None:
            torch.mul(vectors[:heads], norm.weight.square(), out=vectors[heads:])
        by_token = rearrange(vectors[:heads], "h n m -> n h m")
        torch.bmm(rearrange(vectors, "g n m -> n g m"), by_token.mT, out=grams[chunk])
        torch.bmm(diagonal[chunk], by_token, out=own[chunk])
    return grams, own


def _quadratic(attention: Float[Tensor, "b h t s"], grams: Float[Tensor, "b s kh h"]) -> Float[Tensor, "k b t s"]:
    """a_ij^T G_j a_ij for every pair and each kind of Gram matrix."""
    batch, heads, targets, sources = attention.shape
    squares = attention.new_empty(grams.shape[2] // heads, batch, targets, sources)
    size = max(1, PAIRS // (heads * targets * sources))
    for rows in chunks(batch, size):
        for chunk in chunks(sources, max(1, PAIRS // (heads * targets))):
            seen = rearrange(attention[rows, :, :, chunk], "b h t s -> (b s) h t")
            mapped = rearrange(grams[rows, chunk].flatten(0, 1) @ seen, "n (k h) t -> n k h t", h=heads)
            summed = mapped.mul_(seen[:, None]).sum(dim=2)
            squares[:, rows, :, chunk] = rearrange(summed, "(b s) k t -> k b t s", s=chunk.stop - chunk.start)
    return squares
