"""Norms of matrices from a few random directions, and how far they may be off. Arrays only.

For k random directions u_p of length sqrt(w), at right angles to one another, in the w dimensions that J starts from,

    |J|_F^2 ~ mean_p |J u_p|^2,    variance (1 - k / w) s^2 / k,

without bias, with s^2 the sample variance of the |J u_p|^2. The directions have one length: Gaussian lengths would add
variance and nothing else. At k = w the answer is exact and the error zero. It is the same for |u_p J|.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

PRIOR = 20  # probes that the pooled variance counts for
MEAN_DEVIATION = math.sqrt(2 / math.pi)  # E|x| of a normal x of standard deviation one

Squares = Float[Tensor, "k layer target source"]
Cells = Float[Tensor, "layer target source"]


def directions(width: int, count: int, seed: int) -> Float[Tensor, "k w"]:
    """The first `count` random directions, at right angles and of length sqrt(width); more begin with the same ones."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    drawn = [torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(count)]
    return torch.linalg.qr(torch.stack(drawn, dim=1)).Q.T * math.sqrt(width)


def estimate(squares: Squares, width: int, careful: bool = True) -> tuple[Cells, Cells]:
    """Norms and their standard errors from the squared lengths of k of `width` directions.

    The variance of few probes is itself uncertain, so each is pooled with the mean of its layer: right on average, and
    too small just where the norm came out too small. To be careful, the larger of that and the cell's own is taken.
    norm ± t error, with Student's t of k - 1 degrees of freedom, is an interval for a normal mean; squared lengths are
    skewed, so it is exact only with many probes (docs/measures/contribution.md has what it was measured to hold).
    """
    mean, relative = _relative(squares)
    return mean.sqrt(), mean.sqrt() * _error(relative, width, careful)


def share_errors(
    squares: Squares,
    width: int,
    counts: Float[Tensor, "target source"] | float = 1.0,
    careful: bool = True,
    whole: bool = True,
) -> Cells:
    """Standard errors of c_ij = n_ij / sum_k n_ik, where a cell stands for `counts` independent sources like it.

    The relative error of a share is that of its norm, less the mean of those of its row weighted by their shares; the
    errors of a row may go together, as they do where all its norms come from the same directions of the target. When
    the sources are not the `whole` row, an error is not made up for by that of the sum, which is not known.
    """
    mean, relative = _relative(squares)
    norms = mean.sqrt()
    total = (norms * counts).sum(dim=-1, keepdim=True)
    shares = norms / torch.where(total > 0, total, 1.0)
    if whole:
        relative.sub_((shares * counts**0.5 * relative).sum(dim=-1, keepdim=True)).mul_(mean > 0)
    return shares * _error(relative, width, careful)


def misplaced(errors: Cells, counts: Float[Tensor, "target source"] | float = 1.0) -> float:
    """Expected share of a row put at the wrong source, averaged over layers and targets, from the shares' errors."""
    return ((errors * counts).sum(dim=-1) * MEAN_DEVIATION / 2).mean().item()


def needed(count: int, reached: float, error: float, width: int) -> int:
    """How many probes it takes to reach an error, after what `count` of them reached."""
    return min(width, max(count, math.ceil(count * (reached / error) ** 2)))


def _relative(squares: Squares) -> tuple[Cells, Squares]:
    """The mean of each cell, and its squares in terms of that: a mean that is tiny has no square."""
    mean = squares.mean(dim=0)
    return mean, squares / torch.where(mean > 0, mean, 1.0)


def _error(relative: Squares, width: int, careful: bool) -> Cells:
    """Standard error of the root of a mean whose samples are relative to it: half of the mean's own."""
    count, own = len(relative), relative.var(dim=0)
    layer = own.sum(dim=(1, 2), keepdim=True) / (own > 0).sum(dim=(1, 2), keepdim=True).clamp(min=1)
    pooled = torch.where(own > 0, ((count - 1) * own + PRIOR * layer) / (count - 1 + PRIOR), 0.0)
    variance = torch.maximum(own, pooled) if careful else pooled
    return (variance / count * max(0.0, 1 - count / width)).sqrt() / 2
