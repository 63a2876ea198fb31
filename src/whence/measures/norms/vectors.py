"""The vector each source token gives each target token in a block, without ever holding all of them at once."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.models.block import Block
from whence.models.weights import Parts

# entries of the largest tensor alive at a time: 8 MB in float32, so that it stays in the cache
BUDGET = 2**21


def anatomy_of(block: Block) -> Parts:
    assert block.parts is not None, "the family's anatomy is unknown"
    return block.parts


def projected_of(block: Block) -> Float[Tensor, "b t m"]:
    assert block.projected is not None, "the output projection was not found"
    return block.projected


def total(block: Block) -> Float[Tensor, "b t m"]:
    """What all sources gave, sum_j sum_h A^h_ij f_h(x_j): the projection's output as captured, without its bias."""
    bias = anatomy_of(block).projection.bias
    return projected_of(block) if bias is None else projected_of(block) - bias


def own(block: Block) -> Float[Tensor, "b t m"]:
    """What each token gave itself, sum_h A^h_ii f_h(x_i): the values times the diagonal weights, projected once."""
    diagonal = rearrange(block.own_weights, "b h t -> b t h 1")
    kept = rearrange(block.own_values, "b h t d -> b t h d") * diagonal
    weight = rearrange(anatomy_of(block).projection.weight, "h d m -> (h d) m")
    return rearrange(kept, "b t h d -> b t (h d)") @ weight


def branched(block: Block, vectors: Float[Tensor, "b t m"]) -> Float[Tensor, "b t m"]:
    """Vectors of the attention as they join the residual: past the norm inside the branch and the residual scale."""
    parts = anatomy_of(block)
    inside = parts.attention_norms.inside
    if inside is not None:
        vectors = inside.linear(vectors) * inside.scale(projected_of(block))
    return vectors if parts.residual_scale == 1 else vectors * parts.residual_scale


def settled(block: Block, vectors: Float[Tensor, "b t m"]) -> Float[Tensor, "b t m"]:
    """Vectors past the norm after attention, with the scale of the real state, where there is such a norm."""
    after = anatomy_of(block).attention_norms.after
    return vectors if after is None else after.linear(vectors) * after.scale(block.before_norm)


def arrival_weight(parts: Parts) -> Float[Tensor, "h d m"]:
    """The linear map from values to the state between attention and feed-forward, the same for all targets.

    settled(branched(sum_h A^h_ij f_h(x_j))) = scale_i sum_h A^h_ij v^h_j W_h; this is W, `arrival_scale` the rest.
    """
    weight = parts.projection.weight
    for norm in (parts.attention_norms.inside, parts.attention_norms.after):
        weight = weight if norm is None else norm.linear(weight)
    return weight


def arrival_scale(block: Block) -> Float[Tensor, "b t 1"]:
    """One number per target, from the real states: the norms' scales and the residual scale."""
    norms = anatomy_of(block).attention_norms
    scale = torch.full_like(block.input[..., :1], anatomy_of(block).residual_scale)
    if norms.inside is not None:
        scale = scale * norms.inside.scale(projected_of(block))
    return scale if norms.after is None else scale * norms.after.scale(block.before_norm)


def by_sequence(
    block: Block, mask: Bool[Tensor, "b s"], measure: Callable[[Block], Float[Tensor, "t s"]]
) -> Float[Tensor, "b t s"]:
    """A map measured on each sequence alone, its padding left out, and zero where the padding was."""
    maps = block.input.new_zeros(*block.input.shape[:2], mask.shape[1])
    for row, real in enumerate(mask):
        keep = _stretch(real)
        rows = keep if block.targets is None else _inside(block.targets, keep)
        maps[row, rows, keep] = measure(_alone(block, slice(row, row + 1), rows, keep))
    return maps


def _inside(targets: Int[Tensor, " t"], keep: slice) -> slice:
    """Which of the targets, in order, are in the stretch."""
    first, last = (int((targets < edge).sum()) for edge in (keep.start, keep.stop))
    return slice(first, last)


def _stretch(real: Bool[Tensor, " s"]) -> slice:
    places = real.nonzero()[:, 0].tolist() or [0]
    assert places[-1] - places[0] < max(1, int(real.sum())), "real tokens stand together, with padding around them"
    return slice(places[0], places[0] + int(real.sum()))


def _alone(block: Block, row: slice, rows: slice, keep: slice) -> Block:
    margins = block.margins
    return dataclasses.replace(
        block,
        attention=block.attention[row, :, rows, keep],
        grouped_values=block.grouped_values[row, :, keep],
        mask=None,
        input=block.input[row, rows],
        projected=None if block.projected is None else block.projected[row, rows],
        output=block.output[row, rows],
        targets=None if block.targets is None else block.targets[rows] - keep.start,
        margins=None if margins is None else margins.of_rows(row, rows),
    )


def pairs(
    block: Block, weight: Float[Tensor, "h d m"], budget: int = BUDGET
) -> Iterator[tuple[slice, slice, Float[Tensor, "s t m"]]]:
    """Of a block with one sequence: targets, sources, and sum_h A^h_ij v^h_j W_h of each pair.

    In chunks of at most `budget` entries, each written over the one before; targets that see none of the sources (the
    past in a decoder) are left out.
    """
    rows = max(1, budget // weight.shape[-1])
    buffer = block.values.new_empty(rows * weight.shape[-1])
    for targets, sources, seen, (vectors,) in windows(block, [weight], rows, budget):
        yield targets, sources, product(buffer, seen, vectors)


def windows(
    block: Block, weights: Sequence[Float[Tensor, "h d _"]], rows: int, budget: int = BUDGET
) -> Iterator[tuple[slice, slice, Float[Tensor, "s t h"], list[Float[Tensor, "s h _"]]]]:
    """Targets and sources of at most `rows` pairs, the weights A between them, and the sources' v^h W_h for every W."""
    attention, values = block.attention[0], block.values[0]
    widest = max(weight.shape[-1] for weight in weights)
    for chunk in chunks(attention.shape[-1], max(1, budget // (len(attention) * widest))):
        by_weight = [rearrange(values[:, chunk] @ weight, "h s w -> s h w") for weight in weights]
        for targets, sources in _windows(attention[..., chunk], rows):
            seen = rearrange(attention[:, targets, chunk][..., sources], "h t s -> s t h").contiguous()
            place = slice(chunk.start + sources.start, chunk.start + sources.stop)
            yield targets, place, seen, [vectors[sources] for vectors in by_weight]


def product(
    buffer: Float[Tensor, " _"], seen: Float[Tensor, "s t h"], vectors: Float[Tensor, "s h w"]
) -> Float[Tensor, "s t w"]:
    """Summed over heads, into a buffer that is reused: fresh pages would cost more than the arithmetic."""
    shape = (*seen.shape[:2], vectors.shape[-1])
    return torch.bmm(seen, vectors, out=buffer[: math.prod(shape)].view(shape))


def _windows(attention: Float[Tensor, "h t s"], rows: int) -> Iterator[tuple[slice, slice]]:
    """Targets and sources of at most `rows` pairs, without targets that see none of the sources."""
    for sources in chunks(attention.shape[-1], max(1, rows // attention.shape[-2])):
        seeing = attention[..., sources].any(dim=-1).any(dim=0).nonzero()
        first, last = (int(seeing.min()), int(seeing.max())) if len(seeing) else (0, -1)
        for chunk in chunks(last + 1 - first, rows):
            yield slice(first + chunk.start, first + chunk.stop), sources


def chunks(length: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover `length`; the last may be shorter."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))
