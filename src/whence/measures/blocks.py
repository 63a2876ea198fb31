"""From a block to the variables of a measure: the thin layer between the table and the mathematics."""

from collections.abc import Mapping

from torch import Tensor

from whence.measures.attention import effective as weights
from whence.measures.attention.minimum import minimum_norm
from whence.measures.attention.simplex import minimum_norm_simplex
from whence.measures.norms import maps as lengths
from whence.measures.norms.block import block_norms, sketched_block_norms
from whence.measures.norms.expansion import expansion as expansion_rate
from whence.measures.norms.rollout import alti as alti_shares
from whence.measures.norms.rollout import rollout
from whence.measures.norms.value_zeroing import zeroed
from whence.measures.registry import METHODS, Settings
from whence.models.block import Block

Found = dict[str, Tensor]


def attention(block: Block, settings: Settings) -> Found:
    return {"attention": block.attention}


def effective(block: Block, settings: Settings) -> Found:
    found = weights.effective(block, settings.mask, settings.options["tolerance"])
    real = settings.mask[:, None, :, None] & settings.mask[:, None, None, :]
    return {"effective": found, "null": (block.attention - found).masked_fill(~real.to(found.device), 0)}


def effective_correlation(block: Block, settings: Settings) -> Found:
    return {"effective_correlation": weights.correlation(block, settings.mask, settings.options["tolerance"])}


def rank(block: Block, settings: Settings) -> Found:
    mask, tolerance = settings.mask, settings.options["tolerance"]
    return {
        "rank": weights.rank(block, mask, tolerance),
        "nullity": weights.nullity(block, mask, tolerance),
        "nullity_sums": weights.nullity_with_sums(block, mask, tolerance),
    }


def minimum(block: Block, settings: Settings) -> Found:
    return {"minimum": minimum_norm(block, settings.mask, settings.options["tolerance"])}


def minimum_simplex(block: Block, settings: Settings) -> Found:
    return {"minimum_simplex": minimum_norm_simplex(block, settings.mask, settings.options["tolerance"])}


def norms(block: Block, settings: Settings) -> Found:
    maps = [name for name in METHODS if name in settings.wanted]
    found = lengths.maps_and_mixing(block, settings.mask, maps, METHODS if "mixing" in settings.wanted else ())
    if "mixing" in found and "rows" in settings.anatomy.lacks:
        found["mixing"][:, [METHODS.index(name) for name in lengths.WEIGHTS]] = float("nan")
    return found


def norms_heads(block: Block, settings: Settings) -> Found:
    return {"attn_n_heads": lengths.head_norms(block, settings.mask)}


def block(block: Block, settings: Settings) -> Found:
    error, seed = settings.options.get("block_error"), settings.options.get("seed", 0)
    if error is None:
        return {"block_n": block_norms(block, settings.mask)}
    return {"block_n": sketched_block_norms(block, settings.mask, error, seed)}


def alti(block: Block, settings: Settings) -> Found:
    return {"alti": alti_shares(block, settings.mask)}


def value_zeroing(block: Block, settings: Settings) -> Found:
    return {"value_zeroing": zeroed(block, settings.mask)}


def expansion(settings: Settings) -> Found:
    return {"expansion": expansion_rate(settings.anatomy)[settings.places]}


def rollouts(maps: Mapping[str, Tensor], settings: Settings) -> Found:
    bases = [name.removeprefix("rollout_") for name in settings.wanted if name.startswith("rollout_")]
    return {f"rollout_{base}": rollout(maps[base]) for base in bases}
