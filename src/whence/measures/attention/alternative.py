"""Another attention, the same output: how far a head's weights can move before the model notices (Brunner et al. 2020).

The claim checks itself: the changed weights are put back into the model, and the logits must not move.
"""

from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.measures.attention.effective import nullity_with_sums, rank
from whence.measures.attention.minimum import minimum_norm
from whence.measures.attention.null_space import along, unlike
from whence.measures.attention.simplex import minimum_norm_simplex
from whence.measures.attention.spaces import outputs
from whence.measures.attention.supports import need_rows_of_one, support
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.block import Batch, Block
from whence.models.capture import Edit, walk
from whence.models.precision import single

Direction = Float[Tensor, "*t s"] | str | None
UNLIKE = "unlike"
# the attention of smallest norm: with entries that may be negative, and among the distributions
SMALLEST = {"minimum": minimum_norm, "minimum_simplex": minimum_norm_simplex}


@dataclass(frozen=True)
class Alternative:
    """Both attentions of one head, the largest change of a weight, and the largest relative change of any token: of the
    head's output and of the logits (of the last states, in a model without an LM head).
    """

    layer: int
    head: int
    attention: Float[Tensor, "b t s"]
    alternative: Float[Tensor, "b t s"]
    change: float
    output_difference: float
    logits_difference: float


def alternative_of(
    anatomy: Anatomy,
    batch: Batch,
    layer: int,
    head: int,
    row: int | None = None,
    direction: Direction = None,
    seed: int = 0,
) -> Alternative:
    """The head's attention moved as far as it can go, in one row or in all, and the model run again with it.

    The default direction is random, in units of the weights. A vector is projected on the null space; "unlike" goes to
    the distribution least like the original, "minimum" and "minimum_simplex" to the smallest attention.
    """
    _check(anatomy, batch, layer, head, row, direction)
    before = walk(anatomy, batch, lambda block: block if block.layer == layer else None, logits=True)
    block = before.blocks[layer - 1]
    assert block is not None
    original, mask = block.attention[:, head], batch.mask.to(block.attention.device)
    need_rows_of_one(block, mask)
    changed = _change(block, mask, head, row, direction, seed)
    change = float((changed - original).abs().max())
    if change <= 2 * torch.finfo(original.dtype).eps:
        raise Unsupported(_unmoved(block, mask, head, row))
    after = walk(anatomy, batch, lambda _: None, logits=True, edit=_editor(layer, head, changed))
    assert before.logits is not None and after.logits is not None
    outputs = (_output(block, weights, head)[mask] for weights in (changed, original))
    return Alternative(
        layer, head, original, changed, change, apart(*outputs), apart(after.logits[mask], before.logits[mask])
    )


def _check(anatomy: Anatomy, batch: Batch, layer: int, head: int, row: int | None, direction: Direction) -> None:
    length = batch.ids.shape[1]
    if not 1 <= layer <= anatomy.layers:
        raise BadInput(f"There is no layer {layer}: the model has layers 1 to {anatomy.layers}.")
    if layer not in anatomy.attending:
        raise BadInput(f"Layer {layer} does not attend; {anatomy.listed_attending} do.")
    if not 0 <= head < anatomy.heads:
        raise BadInput(f"There is no head {head}: each layer has heads 0 to {anatomy.heads - 1}.")
    if row is not None and not 0 <= row < length:
        raise BadInput(f"There is no row {row}: the text has tokens 0 to {length - 1}.")
    if isinstance(direction, str) and direction not in (UNLIKE, *SMALLEST):
        known = ", ".join(map(repr, (UNLIKE, *SMALLEST)))
        raise BadInput(f"There is no direction {direction!r}: give none, one of {known}, or one number per token.")
    if isinstance(direction, Tensor) and direction.shape not in ((length,), (length, length)):
        raise BadInput(f"The direction has shape {tuple(direction.shape)}; the text has {length} tokens.")


def _change(
    block: Block, mask: Bool[Tensor, "b s"], head: int, row: int | None, direction: Direction, seed: int
) -> Float[Tensor, "b t s"]:
    """The head's weights moved in every sequence, in the block's dtype."""
    weights = block.attention[:, head].double()
    values = outputs(block)
    values = values[:, head * values.shape[1] // block.attention.shape[1]]
    seen = support(block, mask)
    seen = seen[:, min(head, seen.shape[1] - 1)]
    if row is not None:
        seen = seen & (torch.arange(weights.shape[1], device=seen.device) == row)[:, None]
    if isinstance(direction, str) and direction in SMALLEST:
        smallest = SMALLEST[direction](block, mask)[:, head].to(block.attention.dtype)
        solved = seen.any(dim=-1, keepdim=True) & ~smallest.isnan().any(dim=-1, keepdim=True)  # rows without a solution
        return torch.where(solved, smallest, block.attention[:, head])
    if isinstance(direction, str):
        moved = [unlike(*sequence) for sequence in zip(weights, values, seen, strict=True)]
    else:
        draws = _draws(direction, weights, seed)
        scale = weights if direction is None else torch.ones_like(weights)
        sequences = zip(weights, values, seen, draws, scale, strict=True)
        moved = [along(*sequence) for sequence in sequences]
    return torch.stack(moved).to(block.attention.dtype)


def _draws(
    direction: Float[Tensor, "*t s"] | None, weights: Float[Tensor, "b t s"], seed: int
) -> Float[Tensor, "b t s"]:
    if direction is None:
        size, generator = weights.shape[1:], torch.Generator().manual_seed(seed)
        return torch.randn(size, generator=generator, dtype=weights.dtype).to(weights.device).expand_as(weights)
    return direction.to(weights).expand_as(weights)


def _unmoved(block: Block, mask: Bool[Tensor, "b s"], head: int, row: int | None) -> str:
    """Why nothing moved: no null space at all, or none over the sources that the row sees."""
    tokens, most = int(mask.sum(dim=-1).max()), int(rank(block, mask)[:, head].max())
    reason = f"the mask or the weights themselves leave too few tokens to {'any row' if row is None else f'row {row}'}"
    if not bool(nullity_with_sums(block, mask)[:, head].any()):
        reason = f"{tokens} tokens, rank {most} and the row sum leave no null space"
    return (
        f"Head {head} of layer {block.layer} has no other attention with the same output: {reason}; use a longer text"
        " or another row."
    )


def _editor(layer: int, head: int, changed: Float[Tensor, "b t s"]) -> Edit:
    def edit(number: int, weights: Tensor) -> Tensor | None:
        if number != layer:
            return None
        edited = weights.clone()
        edited[:, head] = changed
        return edited

    return edit


def _output(block: Block, weights: Float[Tensor, "b t s"], head: int) -> Float[Tensor, "b t d"]:
    """What the head gives at each target, before the output projection."""
    return einsum(single(weights), single(block.values[:, head]), "b t s, b s d -> b t d")
