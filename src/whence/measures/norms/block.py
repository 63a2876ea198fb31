"""The length of the vector that each source gives each target in a whole block: attention, feed-forward, both
residuals, all norms (Kobayashi et al. 2024); and how much of a token's new vector came from others.

The feed-forward is taken apart by integrated gradients from zero, which makes it a linear map per target:
* activation g of one number u: the slope (g(u) - g(0)) / u, times the source's share of u;
* gated, g(a) u: with S the integral of g(x a) over x from 0 to 1, the slope S for the shares of u, and u (g(a) - S) / a
  for the shares of a.
The shares of biases belong to no source. With them the vectors sum to the block's output.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whence.linear.secant import fed_and_finished
from whence.linear.steps import Activated, Chain, Gated, Normed
from whence.measures.norms.maps import maps
from whence.measures.norms.vectors import (
    BUDGET,
    anatomy_of,
    arrival_scale,
    arrival_weight,
    branched,
    by_sequence,
    chunks,
    own,
    product,
    settled,
    total,
    windows,
)
from whence.models.block import Block
from whence.models.precision import single
from whence.models.weights import Norm, Parts

# pairs and neurons at a time: their pre-activations (4 MB in float32) are made, weighed and used up within the cache
PAIRS, TILE = 2048, 512


def block_norms(block: Block, mask: Bool[Tensor, "b s"], budget: int = BUDGET) -> Float[Tensor, "b t s"]:
    """Length of what each source gives each target in the whole block, exact, zero at padding (Kobayashi et al. 2024).

    |N_i z_ij|, with z_ij the vector behind attnresln_n and N_i the linear map of target i: z + feed-forward(z), normed.
    """
    return _norms(single(block), mask, None, budget)


def sketched_block_norms(
    block: Block, mask: Bool[Tensor, "b s"], error: float = 0.05, seed: int = 0, budget: int = BUDGET
) -> Float[Tensor, "b t s"]:
    """The same within a relative standard error: output vectors are projected at random before they are measured.

    |N_i z_ij| ~ sqrt(m / k) |Q^T N_i z_ij|, Q the first k columns of a random rotation of the m dimensions; `probes`
    tells k. The diagonal is exact, and so is all of it where k reaches m. The same seed gives the same numbers.
    """
    block = single(block)
    width = block.input.shape[-1]
    count = probes(width, error)
    return _norms(block, mask, None if count == width else _rotation(width, count, seed).to(block.input), budget)


def block_mixing(block: Block, mask: Bool[Tensor, "b s"]) -> Float[Tensor, "b t"]:
    """Share of each token's vector past the whole block that came from other tokens, exact, zero at padding.

    r_i = |N_i sum_{j != i} z_ij| / (|N_i sum_{j != i} z_ij| + |N_i z_ii|): the norm of the sum, which needs no pairs.
    """
    block = single(block)
    chains = _chains(block)
    kept, taken = _kept(block, *chains).norm(dim=-1), _taken(block, *chains).norm(dim=-1)
    return (taken / (taken + kept)).masked_fill(~block.of_targets(mask), 0)


def probes(width: int, error: float) -> int:
    """How many directions give the relative standard error: sqrt((1 - k / m) / (2 k)) = error, whatever the vector."""
    return min(width, 8 * math.ceil(1 / (2 * error**2 + 1 / width) / 8))


def standard_error(width: int, count: int) -> float:
    """Relative standard error of a length seen in `count` random orthogonal directions of `width`."""
    return ((1 - count / width) / (2 * count)) ** 0.5


def _norms(
    block: Block, mask: Bool[Tensor, "b s"], rotation: Float[Tensor, "m k"] | None, budget: int
) -> Float[Tensor, "b t s"]:
    fused = _fused(anatomy_of(block), rotation)

    def measure(alone: Block) -> Float[Tensor, "t s"]:
        chains = _chains(alone)
        lengths = _by_attention(alone) if fused.parts.parallel else _from_others(alone, *chains, fused, budget)
        return alone.on_own(lengths, _kept(alone, *chains)[0].norm(dim=-1))

    return by_sequence(block, mask, measure)


def _chains(block: Block) -> tuple[Chain, Chain]:
    """The block's feed-forward and the norm behind it, at the states of this pass."""
    return fed_and_finished(anatomy_of(block), block.input, block.middle)


def _kept(block: Block, fed: Chain, finished: Chain) -> Float[Tensor, "b t m"]:
    """N_i z_ii: what each token gave itself, residual and all."""
    kept = settled(block, branched(block, own(block)) + block.input)
    return finished.push(kept + fed.push(block.input if anatomy_of(block).parallel else kept))


def _taken(block: Block, fed: Chain, finished: Chain) -> Float[Tensor, "b t m"]:
    """N_i sum_{j != i} z_ij: what all others gave together; in a parallel block the feed-forward has none of it."""
    taken = settled(block, branched(block, total(block) - own(block)))
    return finished.push(taken if anatomy_of(block).parallel else taken + fed.push(taken))


def _by_attention(block: Block) -> Float[Tensor, "t s"]:
    """In a parallel block the feed-forward reads only the token itself: the others come by attention alone."""
    assert anatomy_of(block).feed_forward_norms.after is None, "no family has a norm after a parallel block"
    everywhere = torch.ones(1, block.grouped_values.shape[2], dtype=torch.bool)
    return maps(block, everywhere, ("attnresln_n",))["attnresln_n"][0]


@dataclass(frozen=True)
class _Fused:
    """Products of weights that are the same for every target and pair, computed once.

    Pre-activations come by head, sum_h A^h_ij v^h_j (W_h W_in), so that only `down` is a product per pair.
    """

    parts: Parts
    past: Float[Tensor, "h d k"]
    into: tuple[Float[Tensor, "h d n"], ...]
    down: Float[Tensor, "n k"]


def _fused(parts: Parts, rotation: Float[Tensor, "m k"] | None) -> _Fused:
    forward, norms = parts.neurons, parts.feed_forward_norms
    weight = arrival_weight(parts)
    read, past = _linear(norms.before, weight), _linear(norms.after, weight)
    down = _linear(norms.after, _linear(norms.inside, forward.down.weight))
    if rotation is not None:
        past, down = past @ rotation, down @ rotation
    into = tuple(read @ affine.weight for affine in (forward.activated, forward.linear) if affine is not None)
    return _Fused(parts, past, into, down)


def _from_others(block: Block, fed: Chain, finished: Chain, fused: _Fused, budget: int) -> Float[Tensor, "t s"]:
    """|N_i z_ij| for all pairs, without the residual."""
    counts = [(slope * _scale(fed))[0] for slope in _slopes(fed)]
    lengths = block.input.new_zeros(block.attention.shape[-2:])
    rows = max(1, min(PAIRS, budget // max(TILE, fused.down.shape[-1])))
    buffers = [block.input.new_empty(rows * size) for size in (fused.down.shape[-1], TILE, TILE)]
    for targets, sources, seen, (past, *into) in windows(block, [fused.past, *fused.into], rows, budget):
        vectors = product(buffers[0], seen, past)
        for tile in chunks(len(fused.down), TILE):
            hidden = product(buffers[1], seen, into[0][..., tile]).mul_(counts[0][targets, tile])
            for share, count in zip(into[1:], counts[1:], strict=True):
                hidden.addcmul_(product(buffers[2], seen, share[..., tile]), count[targets, tile])
            vectors.flatten(0, 1).addmm_(hidden.flatten(0, 1), fused.down[tile])
        lengths[targets, sources] = vectors.norm(dim=-1).T
    return lengths * (arrival_scale(block) * _scale(finished))[0].abs()


def _rotation(width: int, count: int, seed: int) -> Float[Tensor, "m k"]:
    """Random orthogonal directions, scaled so that lengths are kept on average."""
    gaussian = torch.randn(width, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.linalg.qr(gaussian).Q * (width / count) ** 0.5


def _linear(norm: Norm | None, vectors: Tensor) -> Tensor:
    return vectors if norm is None else norm.linear(vectors)


def _scale(chain: Chain) -> Float[Tensor, "b t 1"] | float:
    """The norms' scales and the chain's factor: one number per target."""
    return math.prod((step.scale for step in chain.steps if isinstance(step, Normed)), start=chain.factor)


def _slopes(fed: Chain) -> list[Float[Tensor, "b t n"]]:
    """Per neuron and target, the slope of the pre-activation and, in gated forms, that of the linear part."""
    (neurons,) = (step for step in fed.steps if isinstance(step, Activated | Gated))
    return [neurons.slope] if isinstance(neurons, Activated) else [neurons.slope, neurons.linear_slope]
