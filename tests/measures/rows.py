"""The slow way: every row of attention by itself, over an explicit list of sources, with a full SVD in float64."""

import torch
from torch import Tensor

from whence.models.block import Batch, Block

MASKS = ("all", "causal", "window", "band", "prefix", "scattered")


def block_of(attention: Tensor, values: Tensor, mask: Tensor | None = None) -> Block:
    """A block with nothing but attention and values; the output projection is unknown, so taken to keep all."""
    states = torch.zeros(*attention.shape[:1], attention.shape[2], 4)
    return Block(1, attention, values, mask, states, None, states, None)


def allowed(kind: str, length: int) -> torch.Tensor | None:
    place = torch.arange(length)
    distance = place[:, None] - place[None, :]
    masks = {
        "causal": distance >= 0,
        "window": (distance >= 0) & (distance < 11),
        "prefix": (place < length // 2)[None, :] | (place >= length // 2)[:, None],
        "band": distance.abs() < 8,
        "scattered": (distance == 0) | (torch.rand(length, length, generator=torch.Generator().manual_seed(3)) < 0.7),
    }
    return None if kind == "all" else masks[kind][None, None]


def random_block(kind: str, length: int, width: int, heads: int = 4, groups: int = 2, batch: int = 2, **options):
    mask = allowed(kind, length)
    scores = 2 * torch.randn(batch, heads, length, length, **options)
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-1)
    values = torch.randn(batch, groups, length, width, **options)
    return block_of(weights, values, None if mask is None else mask.expand(batch, -1, -1, -1))


def everything(block) -> torch.Tensor:
    return torch.ones(block.attention.shape[0], block.attention.shape[-1], dtype=torch.bool)


def padded_batch(vocabulary: int, lengths: tuple[int, ...], side: str, seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.ones(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(ids.shape[1] - length, None)
        ids[row, place] = torch.randint(5, vocabulary, (length,), generator=generator)
        mask[row, place] = True
    return Batch(ids, mask)


def outputs_per_source(block: Block) -> Tensor:
    """T = V W_O of every head, in float64; V alone where W_O is unknown."""
    values = block.values.double()
    if block.parts is None:
        return values
    return torch.einsum("bhsd,hdm->bhsm", values, block.parts.projection.weight.double())


def rows_of(block: Block, mask: Tensor):
    """Every real target: where it is, its sources, its weights in all heads and T of those sources."""
    outputs = outputs_per_source(block)
    for sequence, target in mask.nonzero().tolist():
        seen = mask[sequence].clone()
        if block.allowed is not None:
            seen &= block.allowed.expand(-1, -1, len(seen), -1)[sequence, 0, target]
        weights = block.attention[sequence, :, target, seen].double()
        yield (sequence, target), seen, weights, outputs[sequence][:, seen]


def naive_projection(block: Block, mask: Tensor, ones: bool = False, eps: float | None = None) -> Tensor:
    """a U U^T row by row, U spanning T, or [T, 1] with `ones`."""
    width = block.grouped_values.shape[-1]
    eps = torch.finfo(torch.promote_types(block.grouped_values.dtype, torch.float32)).eps if eps is None else eps
    out = torch.zeros_like(block.attention, dtype=torch.float64)
    for (sequence, target), seen, weights, outputs in rows_of(block, mask):
        if ones:
            size = outputs.norm(dim=-1).amax(dim=-1)[:, None, None]
            outputs = torch.cat([outputs / size, torch.ones_like(outputs[..., :1])], dim=-1)
        left, singular, _ = torch.linalg.svd(outputs, full_matrices=False)
        left = left * (singular > eps * max(outputs.shape[1], width) * singular[:, :1])[:, None]
        out[sequence, :, target, seen] = (weights[:, None] @ left @ left.mT)[:, 0]
    return out


def apart(found: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest entry."""
    return float((found - expected).abs().max() / expected.abs().max())
