"""The norms of Jacobian blocks from a few random directions of every source token, with their standard errors.

For orthonormal random directions u_1 … u_k of the w dimensions of source token j,

    |J_ij|_F^2 ~ (w / k) sum_p |J_ij u_p|^2,    variance (1 - k / w) s^2 / k,

without bias, s^2 the sample variance of the w |J_ij u_p|^2. The directions have one length: Gaussian lengths would add to the
variance and nothing else. At k = w the answer is exact and the error zero.

`error` is the share of a token's contribution that is put at the wrong source: half the sum over sources of the expected
|error of c_ij|, the total variation distance of the row from the true one, averaged over layers and targets.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.measures.travel import Bundle, Road, travel
from whence.models.tangent import Chain

PILOT = 8
MEAN_DEVIATION = math.sqrt(2 / math.pi)  # E|x| of a normal x of standard deviation one


def sketched(
    road: Road, sources: Sequence[int], error: float, seed: int
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"], int]:
    """Norms, their standard errors, and how many directions per source token it took."""
    if not 0 < error < 1:
        raise BadInput(f"The error is a share between 0 and 1, and {error} was given.")
    width = _width(road.chain)
    count, squares = min(PILOT, width), _tried(road, sources, range(0), seed)
    while True:
        squares = torch.cat([squares, _tried(road, sources, range(len(squares), count), seed)])
        norms, errors = estimate(squares, width)
        reached = misplaced(norms, errors)
        if reached <= error or count == width:
            return norms, errors, count
        count = min(width, max(count + 2, 2 * math.ceil(count * (reached / error) ** 2 / 2)))


def estimate(
    squares: Float[Tensor, "k layer target source"], width: int
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"]]:
    """Norms and standard errors from the squared lengths of k of `width` orthogonal directions.

    The error of a root is that of the square over twice the root.
    """
    count = len(squares)
    norms = squares.mean(dim=0).sqrt()
    spread = (squares.var(dim=0) / count * max(0.0, 1 - count / width)).sqrt()
    return norms, torch.where(norms > 0, spread / (2 * norms), 0.0)


def misplaced(norms: Float[Tensor, "layer target source"], errors: Float[Tensor, "layer target source"]) -> float:
    """Expected share of a row's contribution put at the wrong source, averaged over layers and targets."""
    return (shares_error(norms, errors).sum(dim=-1) * MEAN_DEVIATION / 2).mean().item()


def shares_error(
    norms: Float[Tensor, "layer target source"], errors: Float[Tensor, "layer target source"]
) -> Float[Tensor, "layer target source"]:
    """Standard errors of c_ij = n_ij / sum_k n_ik when those of the n_ij are independent."""
    total = norms.sum(dim=-1, keepdim=True)
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


def _tried(
    road: Road, sources: Sequence[int], which: range, seed: int
) -> Float[Tensor, "k layer target source"]:
    """Squared lengths of J_ij times each of the probes."""
    chain, tokens = road.chain, len(road.chain.states)
    found = chain.states.new_zeros(len(which), road.depth, tokens, len(sources))

    def visit(layer: int, place: int, tangents: Float[Tensor, "u k m"]) -> None:
        found[:, layer, tokens - len(tangents) :, place] = tangents.square().sum(dim=-1).T

    if which:
        travel(road, [Bundle(source, _vectors(chain, source, which, seed)) for source in sources], visit)
    return found


def _vectors(chain: Chain, source: int, which: range, seed: int) -> Float[Tensor, "k m"]:
    vectors = probes(_width(chain), source, which.stop, seed)[which.start :].to(chain.states)
    return vectors if chain.start is None else vectors @ chain.start[source]


def _width(chain: Chain) -> int:
    return chain.states.shape[-1] if chain.start is None else chain.start.shape[1]
