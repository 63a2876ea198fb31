"""From a block to the variables that are about attention weights: the thin layer between table and mathematics."""

from torch import Tensor

from whence.measures.attention import effective as weights
from whence.measures.attention.minimum import minimum_norm
from whence.measures.attention.simplex import minimum_norm_simplex
from whence.measures.registry import Settings
from whence.models.block import Block

Tensors = dict[str, Tensor]


def attention(block: Block, settings: Settings) -> Tensors:
    return {"attention": block.attention}


def effective(block: Block, settings: Settings) -> Tensors:
    projected = weights.effective(block, settings.mask, settings.options["tolerance"])
    if "null" not in settings.wanted:
        return {"effective": projected}
    real = block.of_targets(settings.mask)[:, None, :, None] & settings.mask.to(projected.device)[:, None, None, :]
    return {"effective": projected, "null": (block.attention - projected).masked_fill_(~real, 0)}


def effective_correlation(block: Block, settings: Settings) -> Tensors:
    return {"effective_correlation": weights.correlation(block, settings.mask, settings.options["tolerance"])}


def rank(block: Block, settings: Settings) -> Tensors:
    mask, tolerance = settings.mask, settings.options["tolerance"]
    return {
        "value_rank": weights.rank(block, mask, tolerance),
        "nullity": weights.nullity(block, mask, tolerance),
        "nullity_sums": weights.nullity_with_sums(block, mask, tolerance),
    }


def minimum(block: Block, settings: Settings) -> Tensors:
    return {"minimum": minimum_norm(block, settings.mask, settings.options["tolerance"])}


def minimum_simplex(block: Block, settings: Settings) -> Tensors:
    return {"minimum_simplex": minimum_norm_simplex(block, settings.mask, settings.options["tolerance"])}
