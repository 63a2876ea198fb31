"""Which rows rest on the first token: the attention sink of decoders."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.measures.registry import Settings
from whence.models.block import Block


def sink(
    first: Float[Tensor, "*lead t"], total: Float[Tensor, "*lead t"], places: Int[Tensor, " t"]
) -> Bool[Tensor, "*lead t"]:
    """Whether the first token holds more than half of a row's attention (Xiao et al. 2024).

    2 A[i, 0] > Σ_j A[i, j]; never in the first token's own row, which can go nowhere else.
    """
    return (2 * first > total) & (places > 0)


def sinks(block: Block, settings: Settings) -> dict[str, Tensor]:
    """The labels of a block's rows: by head, and by the mean of the heads."""
    if block.margins is None:
        attention = block.attention.float()
        mean = attention.mean(dim=1)
        sides = [(rows[..., 0], rows.sum(dim=-1)) for rows in (mean, attention)]
    else:
        first, total = block.margins.first.float(), block.margins.total.float()
        sides = [(first.mean(dim=1), total.mean(dim=1)), (first, total)]
    mean, by_head = (sink(*side, block.places).float() for side in sides)
    return {"sink": mean, "head_sink": by_head}
