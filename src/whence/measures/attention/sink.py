"""Which rows rest on the first token: the attention sink of decoders."""

from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.registry import Settings
from whence.models.block import Block


def sink(attention: Float[Tensor, "*lead t s"]) -> Bool[Tensor, "*lead t"]:
    """Whether the first token holds more than half of a row's attention (Xiao et al. 2024).

    2 A[i, 0] > Σ_j A[i, j]; never in the first token's own row, which can go nowhere else.
    """
    found = 2 * attention[..., 0] > attention.sum(dim=-1)
    found[..., 0] = False
    return found


def sinks(block: Block, settings: Settings) -> dict[str, Tensor]:
    """The labels of a block's rows: by head, and by the mean of the heads."""
    attention = block.attention.float()
    return {"sink": sink(attention.mean(dim=1)).float(), "head_sink": sink(attention).float()}
