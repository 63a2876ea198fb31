"""What changes when a token is silenced: value zeroing, the reference for maps without perturbation."""

import dataclasses

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from whence.measures.norms.rollout import shares
from whence.measures.norms.vectors import BUDGET, anatomy_of, by_sequence, pairs, projected_of
from whence.models.block import Block
from whence.models.precision import single
from whence.models.weights import FeedForward

EXPERTS = 8  # how many times as wide as the stream a mixture of experts is taken to be for one token


def zeroed(block: Block, mask: Bool[Tensor, "b s"], budget: int = BUDGET) -> Float[Tensor, "b t s"]:
    """Share of each source in a block's output, by what its absence changes, zero at padding (Mohebbi et al. 2023).

    c_ij = 1 - cos(y_i, y_i without the value of j in this block), rows normalised.
    Nothing is run again but the block's own tail: without j the projection gives projected_i - sum_h A^h_ij f_h(x_j).
    """
    return by_sequence(single(block), mask, lambda alone: shares(_changes(alone, budget)))


def _changes(block: Block, budget: int) -> Float[Tensor, "t s"]:
    real = normalize(block.rebuilt[0], dim=-1)
    parts = anatomy_of(block)
    width, forward = block.input.shape[-1], parts.feed_forward
    rows = budget * width // (forward.down.weight.shape[0] if isinstance(forward, FeedForward) else EXPERTS * width)
    changes = real.new_zeros(len(real), block.attention.shape[-1])
    for targets, sources, vectors in pairs(block, parts.projection.weight, rows):
        without = _rebuilt(block, targets, projected_of(block)[:, targets] - vectors)
        # half the squared distance is 1 - cos, and does not drown in rounding when the change is small
        changes[targets, sources] = (normalize(without, dim=-1) - real[targets]).square().sum(dim=-1).T / 2
    return changes


def _rebuilt(block: Block, targets: slice, projected: Float[Tensor, "s t m"]) -> Float[Tensor, "s t m"]:
    """The block's output if its projection gave this; the silenced sources take the batch axis."""
    count, length, _ = projected.shape
    _, heads, *_ = block.attention.shape
    _, groups, _, width = block.grouped_values.shape
    states = block.input[:, targets].expand(count, -1, -1)
    changed = dataclasses.replace(
        block,
        attention=block.attention.new_empty(count, heads, length, 0),  # no longer read
        grouped_values=block.grouped_values.new_empty(count, groups, 0, width),
        input=states,
        projected=projected,
        output=states,
    )
    return changed.rebuilt
