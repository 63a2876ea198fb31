"""Summaries of a map by target: its own share, whether that is the largest, and how spread out the row is."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.norms.rollout import shares

# units of maps that cannot be negative: their rows can be read as shares
POSITIVE = frozenset({"share", "length", "norm"})
TO = "to"


def quantities(unit: str) -> tuple[str, ...]:
    """The summaries of a map of this unit."""
    return ("own", "own_largest", "entropy") if unit in POSITIVE else ("own",)


def summaries(
    maps: Float[Tensor, "b x t s"], unit: str, classes: Float[Tensor, "b s c"], first: int = 0
) -> dict[str, Float[Tensor, "b x t"] | Bool[Tensor, "b x t"] | Float[Tensor, "b x t c"]]:
    """Quantity -> value per target; `x` is heads or layers. Rows of positive maps are divided by their sums first.

    The first target is the source `first`.

    own          m_ii
    own_largest  m_ii >= m_ij for every j             (positive maps only)
    entropy      - sum_j m_ij ln m_ij, in nats        (positive maps only)
    to           sum of m_ij over the sources j of each class; NaN in a sentence that has none
    """
    rows = shares(maps) if unit in POSITIVE else maps
    own = rows.diagonal(first, dim1=-2, dim2=-1)
    absent = (classes.sum(dim=1) == 0)[:, None, None]
    by_quantity = {"own": own, TO: (rows @ classes[:, None]).masked_fill(absent, torch.nan)}
    if unit in POSITIVE:
        by_quantity["own_largest"] = own >= rows.amax(dim=-1)
        by_quantity["entropy"] = torch.special.entr(rows).sum(dim=-1)
    return by_quantity
