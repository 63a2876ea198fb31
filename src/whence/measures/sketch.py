"""The norms of Jacobian blocks from a few random directions of every source token, with their standard errors.

For k random directions u_p of length sqrt(w), at right angles to one another, in the w dimensions of source token j,

    |J_ij|_F^2 ~ mean_p |J_ij u_p|^2,    variance (1 - k / w) s^2 / k,

without bias, with s^2 the sample variance of the |J_ij u_p|^2. The directions have one length: Gaussian lengths would
add variance and nothing else. At k = w the answer is exact and the error zero.

`error` is the share of a token's contribution that is put at the wrong source: half the sum over sources of the
expected |error of c_ij|, the total variation distance of a row from the true one, averaged over layers and targets.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.measures.travel import Bundle, Road, travel
from whence.models.tangent import Chain

PILOT = 4  # probes tried before the number needed is estimated
PRIOR = 12  # probes that the pooled variance counts for
MEAN_DEVIATION = math.sqrt(2 / math.pi)  # E|x| of a normal x of standard deviation one


def sketched(
    road: Road, sources: Sequence[int], error: float, seed: int
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"], int]:
    """Norms, their standard errors, and how many probes per source token it took."""
    if not 0 < error < 1:
        raise BadInput(f"The error is a share between 0 and 1, and {error} was given.")
    width = road.chain.width
    count, squares = min(PILOT, width), _tried(road, sources, range(0), seed)
    while True:
        squares = torch.cat([squares, _tried(road, sources, range(len(squares), count), seed)])
        norms, errors = estimate(squares, width)
        reached = misplaced(norms, errors)
        if reached <= error or count == width:
            return norms, errors, count
        count = min(width, max(count + 1, math.ceil(count * (reached / error) ** 2)))


def estimate(
    squares: Float[Tensor, "k layer target source"], width: int
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"]]:
    """Norms and standard errors from the squared lengths of k of `width` orthogonal directions.

    A variance from few probes is itself uncertain, and too small just where the norm came out too small. So each is
    pooled with the mean over the targets of its layer and source, and the larger of that and the cell's own is taken.
    The error of a root is that of the square over twice the root. norm ± t error, with Student's t of k - 1 degrees of
    freedom, holds the true norm in 95 % of cells.
    """
    count = len(squares)
    mean = squares.mean(dim=0)
    own = torch.where(mean > 0, squares.var(dim=0) / mean.square(), 0.0)
    reached = (mean > 0).sum(dim=1, keepdim=True).clamp(min=1)
    pooled = own.sum(dim=1, keepdim=True) / reached
    shrunk = ((count - 1) * own + PRIOR * pooled) / (count - 1 + PRIOR)
    relative = (torch.maximum(own, shrunk) / count * max(0.0, 1 - count / width)).sqrt()
    return mean.sqrt(), mean.sqrt() * relative / 2


def misplaced(norms: Float[Tensor, "layer target source"], errors: Float[Tensor, "layer target source"]) -> float:
    """Expected share of a row's contribution put at the wrong source, averaged over layers and targets."""
    return (shares_error(norms, errors).sum(dim=-1) * MEAN_DEVIATION / 2).mean().item()


def shares_error(
    norms: Float[Tensor, "layer target source"], errors: Float[Tensor, "layer target source"]
) -> Float[Tensor, "layer target source"]:
    """Standard errors of c_ij = n_ij / sum_k n_ik; those of the n_ij are independent."""
    total = norms.sum(dim=-1, keepdim=True)
    total = torch.where(total > 0, total, 1.0)
    share, squared = norms / total, errors.square()
    others = squared.sum(dim=-1, keepdim=True) - squared
    return ((1 - share).square() * squared + share.square() * others).sqrt() / total


def probes(width: int, source: int, count: int, seed: int) -> Float[Tensor, "k w"]:
    """The first `count` random directions of a source token, at right angles and of length sqrt(width).

    They depend on the seed and the source alone; more of them begin with the same ones.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + source) % 2**63)
    drawn = [torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(count)]
    return torch.linalg.qr(torch.stack(drawn, dim=1)).Q.T * math.sqrt(width)


def _tried(road: Road, sources: Sequence[int], which: range, seed: int) -> Float[Tensor, "k layer target source"]:
    """Squared lengths of J_ij times each of the probes."""
    chain, tokens = road.chain, len(road.chain.states)
    found = chain.states.new_zeros(len(which), road.depth, tokens, len(sources))

    def visit(layer: int, place: int, tangents: Float[Tensor, "u k m"]) -> None:
        found[:, layer, tokens - len(tangents) :, place] = tangents.square().sum(dim=-1).T

    if which:
        travel(road, [Bundle(source, _vectors(chain, source, which, seed)) for source in sources], visit)
    return found


def _vectors(chain: Chain, source: int, which: range, seed: int) -> Float[Tensor, "k m"]:
    vectors = probes(chain.width, source, which.stop, seed)[which.start :].to(chain.states)
    return vectors if chain.start is None else vectors @ chain.start[source]
