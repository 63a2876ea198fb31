"""The smallest attention with the same output and the same row sums; entries may be negative.

Brunner et al. (2020, section 3.4) leave it open, as they do the smallest *distribution* (see `simplex`).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.attention.spaces import cut_of
from whence.measures.attention.supports import project_block, support
from whence.models.block import Block
from whence.models.precision import single


def minimum_norm(block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None) -> Float[Tensor, "b h t s"]:
    """The attention of smallest norm with the same head output and the same row sums, over what each row sees.

    argmin |a'|^2 with a' [T, 1] = a [T, 1]: the projection on the column space of [T, 1].
    """
    weights, seen = single(block.attention), support(block, mask)
    inside = project_block(weights, block, seen, tolerance)
    unit = _ones_outside(block, seen, tolerance)
    return inside + ((weights * unit).sum(dim=-1, keepdim=True) * unit).to(weights.dtype)


def _ones_outside(block: Block, seen: Bool[Tensor, "b #h t s"], tolerance: float | None) -> Float[Tensor, "b h t s"]:
    """The part of each row's ones outside the column space of T, as a unit vector; zero if there is none."""
    ones = seen.double().expand(block.attention.shape)
    outside = ones - project_block(ones, block, seen, tolerance)
    squared, counts = outside.square().sum(dim=-1, keepdim=True), seen.sum(dim=-1)
    adds = squared > (cut_of(block, tolerance).limits(counts, block.grouped_values).square() * counts)[..., None]
    return torch.where(adds, outside / squared.sqrt(), 0)
