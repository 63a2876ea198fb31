"""Which part of attention matters: effective and null attention, rank and nullity, per head (Brunner et al. 2020)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.measures.attention.spaces import basis, cut_of, outputs
from whence.measures.attention.supports import project_block, support
from whence.models.block import Block
from whence.models.precision import single


def effective(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Float[Tensor, "b h t s"]:
    """The part of the attention that reaches the head's output; zero at padding (Brunner et al. 2020, section 3.4).

    A_eff = A U U^T, U an orthonormal basis of the column space of T = V W_O. Under a causal or local mask row i is
    projected on the rows of T that i sees, so no weight falls on the future. A_eff T = A T; rows need not sum to one.
    """
    return project_block(single(block.attention), block, support(block, mask), tolerance)


def correlation(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Float[Tensor, "b h"]:
    """Pearson's correlation of attention and effective attention over the pairs of tokens that may see each other.

    One as long as there is no null space (Brunner et al. 2020, figure 1a). One also where the attention does not vary.
    """
    pairs = support(block, mask).to(torch.float64).expand_as(block.attention)
    raw, reached = single(block.attention).double(), effective(block, mask, tolerance).double()
    count = pairs.sum(dim=(-1, -2), keepdim=True)
    raw, reached = ((side - (side * pairs).sum(dim=(-1, -2), keepdim=True) / count) * pairs for side in (raw, reached))
    lengths = raw.norm(dim=(-1, -2)) * reached.norm(dim=(-1, -2))
    coefficients = (raw * reached).sum(dim=(-1, -2)) / lengths.clamp(min=1e-30)
    return torch.where(lengths > 1e-12, coefficients, 1.0).float()


def rank(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Int[Tensor, "b h"]:
    """Numerical rank of T = V W_O over all real tokens, whatever the mask: in a decoder, what the last token sees.

    Singular values at or below tolerance (eps * max(s, d_v)) times the largest count as zero.
    """
    columns = basis(outputs(block), mask[:, None], cut_of(block, tolerance))
    return _by_head(columns.square().sum(dim=(-1, -2)).round().int(), block)


def nullity(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Int[Tensor, "b h"]:
    """Dimension of the changes to a row of attention without effect: s - rank(T), at least s - d_v."""
    return mask.sum(dim=-1, keepdim=True).int() - rank(block, mask, tolerance)


def nullity_with_sums(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Int[Tensor, "b h"]:
    """Dimension of those changes that also keep the row's sum: s - rank([T, 1]), at least s - d_v - 1."""
    values, cut = outputs(block), cut_of(block, tolerance)
    columns = basis(values, mask[:, None], cut)
    ones = mask[:, None, :, None].to(columns.dtype)
    counts = mask.sum(dim=-1)
    outside = (ones - columns @ (columns.mT @ ones)).square().sum(dim=(-1, -2))
    adds = outside > (cut.limits(counts, values).square() * counts)[:, None]
    return nullity(block, mask, tolerance) - _by_head(adds.int(), block)


def _by_head(numbers: Int[Tensor, "b g"], block: Block) -> Int[Tensor, "b h"]:
    return numbers.repeat_interleave(block.attention.shape[1] // numbers.shape[1], dim=1)
