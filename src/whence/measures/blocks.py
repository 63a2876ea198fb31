"""From a block to the variables of a measure: the thin layer between the table and the mathematics."""

from torch import Tensor

from whence.measures.registry import Settings
from whence.models.trace import Block


def attention(block: Block, settings: Settings) -> dict[str, Tensor]:
    return {"attention": block.attention}
