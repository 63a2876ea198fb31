"""Another attention, the same output: how far a head's weights can move before the model notices (Brunner et al. 2020).

The claim checks itself: the changed weights are put back into the model, and the logits must not move.
"""

from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.measures.attention import nullity_with_sums, rank
from whence.measures.spaces import at_least_single, readable, settled
from whence.measures.supports import need_rows_of_one, support
from whence.models.anatomy import Anatomy
from whence.models.capture import walk
from whence.models.trace import Batch, Block


@dataclass(frozen=True)
class Alternative:
    """Both attentions of one head, the largest change of a weight, and what the change did: relative to the largest
    entry of the head's output and of the logits (for a model without a head: of its last states).
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
    direction: Float[Tensor, "*t s"] | None = None,
    seed: int = 0,
) -> Alternative:
    """The head's attention moved as far as it can go, at one row or at all, and the model run again with it."""
    _check(anatomy, batch, layer, head, row)
    before = walk(anatomy, batch, lambda block: block if block.layer == layer else None, logits=True)
    block = before.blocks[layer - 1]
    assert block is not None and before.logits is not None
    mask = batch.mask.to(block.attention.device)
    need_rows_of_one(block, mask)
    changed = _change(block, mask, head, row, direction, seed)
    _need_change(block, mask, head, changed)
    after = walk(anatomy, batch, lambda _: None, logits=True, edit=_editor(layer, head, changed))
    assert after.logits is not None
    return Alternative(
        layer=layer,
        head=head,
        attention=block.attention[:, head],
        alternative=changed,
        change=float((changed - block.attention[:, head]).abs().max()),
        output_difference=_apart(_output(block, changed, head)[mask], _output(block, block.attention[:, head], head)[mask]),
        logits_difference=_apart(after.logits[mask], before.logits[mask]),
    )


def alternative(
    weights: Float[Tensor, "t s"],
    values: Float[Tensor, "s d"],
    seen: Bool[Tensor, "t s"],
    draws: Float[Tensor, "t s"],
    scale: Float[Tensor, "t s"],
) -> Float[Tensor, "t s"]:
    """Every row moved as far as the simplex lets it, without effect: A + lambda A~, A~ in the left null space of [T, 1].

    lambda = min over a~_j < 0 of -a_j / a~_j. A~ is the draw projected on the null space in units of `scale`: ones
    give the plain projection; the weights themselves keep tiny weights from stopping the step at once.
    """
    out = weights.clone()
    for row in seen.any(dim=-1).nonzero().flatten().tolist():
        sources = seen[row]
        step = null_direction(draws[row, sources], values[sources], scale[row, sources])
        out[row, sources] = furthest(weights[row, sources], step)
    return out


def null_direction(
    draw: Float[Tensor, " s"], values: Float[Tensor, "s d"], scale: Float[Tensor, " s"]
) -> Float[Tensor, " s"]:
    """scale * w, with w the part of the draw orthogonal to the columns of scale * [T, 1], so (scale w) [T, 1] = 0."""
    size = values.norm(dim=-1).max().clamp(min=torch.finfo(values.dtype).tiny)
    columns = torch.cat([values / size, torch.ones_like(values[:, :1])], dim=-1) * scale[:, None]
    smallest = torch.tensor(torch.finfo(values.dtype).eps * max(columns.shape), dtype=values.dtype, device=values.device)
    spanned = settled(columns, smallest)
    if int(spanned.any(dim=0).sum()) == len(draw):  # no null space: what is left of the draw would be rounding
        return torch.zeros_like(draw)
    for _ in range(2):
        draw = draw - spanned @ (spanned.T @ draw)
    return scale * draw


def furthest(weights: Float[Tensor, " s"], step: Float[Tensor, " s"]) -> Float[Tensor, " s"]:
    """weights + lambda step, lambda as large as keeps every entry at zero or above; unchanged without a direction."""
    falling = step < 0
    if not bool(falling.any()):
        return weights
    length = (-weights[falling] / step[falling]).min()
    return (weights + length * step).clamp(min=0)


def _check(anatomy: Anatomy, batch: Batch, layer: int, head: int, row: int | None) -> None:
    if not 1 <= layer <= anatomy.layers:
        raise BadInput(f"There is no layer {layer}: the model has layers 1 to {anatomy.layers}.")
    if not 0 <= head < anatomy.heads:
        raise BadInput(f"There is no head {head}: each layer has heads 0 to {anatomy.heads - 1}.")
    if row is not None and not 0 <= row < batch.ids.shape[1]:
        raise BadInput(f"There is no row {row}: the text has tokens 0 to {batch.ids.shape[1] - 1}.")


def _change(
    block: Block,
    mask: Bool[Tensor, "b s"],
    head: int,
    row: int | None,
    direction: Float[Tensor, "*t s"] | None,
    seed: int,
) -> Float[Tensor, "b t s"]:
    """The head's weights in every sequence moved, in the block's dtype."""
    original = block.attention[:, head]
    seen = support(block, mask)
    seen = seen[:, min(head, seen.shape[1] - 1)] & _chosen(row, original)
    values = readable(block).double()
    values = values[:, head * values.shape[1] // block.attention.shape[1]]
    weights = original.double()
    if direction is None:
        draws = torch.randn(weights.shape[1:], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        scale = weights
    else:
        draws, scale = direction.double().expand(weights.shape[1:]), torch.ones_like(weights)
    draws = draws.to(weights.device)
    moved = [alternative(*parts, draws, one) for *parts, one in zip(weights, values, seen, scale, strict=True)]
    return torch.stack(moved).to(original.dtype)


def _chosen(row: int | None, like: Float[Tensor, "b t s"]) -> Bool[Tensor, " t 1"]:
    places = torch.arange(like.shape[1], device=like.device)
    return (torch.ones_like(places, dtype=torch.bool) if row is None else places == row)[:, None]


def _need_change(block: Block, mask: Bool[Tensor, "b s"], head: int, changed: Float[Tensor, "b t s"]) -> None:
    resolution = torch.finfo(block.attention.dtype).eps
    if (changed - block.attention[:, head]).abs().max() > 2 * resolution:
        return
    tokens, most = int(mask.sum(dim=-1).max()), int(rank(block, mask)[:, head].max())
    reason = "its weights there are too concentrated to move"
    if not bool(nullity_with_sums(block, mask)[:, head].any()):
        reason = f"{tokens} tokens, rank {most} and the row sum leave no null space"
    elif block.allowed is not None:
        reason += ", or the row sees too few tokens"
    raise Unsupported(
        f"Head {head} of layer {block.layer} has no other attention with the same output: {reason}; use a longer text or"
        " another row."
    )


def _editor(layer: int, head: int, changed: Float[Tensor, "b t s"]):
    def edit(number: int, weights: Tensor) -> Tensor | None:
        if number != layer:
            return None
        weights = weights.clone()
        weights[:, head] = changed
        return weights

    return edit


def _output(block: Block, weights: Float[Tensor, "b t s"], head: int) -> Float[Tensor, "b t d"]:
    """What the head adds at each target, before the output projection."""
    return einsum(at_least_single(weights), at_least_single(block.values[:, head]), "b t s, b s d -> b t d")


def _apart(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())
