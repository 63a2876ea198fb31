"""From a block to the variables that are about lengths of vectors: the thin layer between table and mathematics."""

from collections.abc import Mapping

from torch import Tensor

from whence.measures.norms import maps as lengths
from whence.measures.norms.block import block_mixing, block_norms, sketched_block_norms
from whence.measures.norms.expansion import expansion as expansion_rate
from whence.measures.norms.rollout import alti as alti_shares
from whence.measures.norms.rollout import rollout
from whence.measures.norms.value_zeroing import zeroed
from whence.measures.registry import MIXED, Settings
from whence.models.block import Block

Tensors = dict[str, Tensor]


def norms(block: Block, settings: Settings) -> Tensors:
    maps = [name for name in MIXED if name in settings.wanted]
    tensors = lengths.maps_and_mixing(block, settings.mask, maps, MIXED if "mixing" in settings.wanted else ())
    if "mixing" in tensors and "rows" in settings.anatomy.lacks:
        tensors["mixing"][:, [MIXED.index(name) for name in lengths.WEIGHTS]] = float("nan")
    return tensors


def norms_heads(block: Block, settings: Settings) -> Tensors:
    return {"norms_heads": lengths.head_norms(block, settings.mask)}


def block(block: Block, settings: Settings) -> Tensors:
    """The ratio alone costs little; the map is left out where only the ratio is wanted."""
    tensors = {}
    if "mixing_block_n" in settings.wanted:
        tensors["mixing_block_n"] = block_mixing(block, settings.mask)
    if "block_n" in settings.wanted:
        tensors["block_n"] = _block_map(block, settings)
    return tensors


def _block_map(block: Block, settings: Settings) -> Tensor:
    error, seed = settings.options["error"], settings.options["seed"]
    if error is None:
        return block_norms(block, settings.mask)
    return sketched_block_norms(block, settings.mask, error, seed)


def alti(block: Block, settings: Settings) -> Tensors:
    return {"alti": alti_shares(block, settings.mask)}


def value_zeroing(block: Block, settings: Settings) -> Tensors:
    return {"value_zeroing": zeroed(block, settings.mask)}


def expansion(settings: Settings) -> Tensors:
    return {"expansion": expansion_rate(settings.anatomy)[settings.places]}


def rollouts(maps: Mapping[str, Tensor], settings: Settings) -> Tensors:
    bases = [name.removeprefix("rollout_") for name in settings.wanted if name.startswith("rollout_")]
    return {f"rollout_{base}": rollout(maps[base]) for base in bases}
