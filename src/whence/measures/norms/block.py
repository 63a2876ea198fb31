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

from whence.linear.steps import Activated, Gated
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
from whence.models.weights import FeedForward, Norm, Parts

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
    answer = response(block)
    kept, taken = _kept(block, answer).norm(dim=-1), _taken(block, answer).norm(dim=-1)
    return (taken / (taken + kept)).masked_fill(~block.of_targets(mask), 0)


def probes(width: int, error: float) -> int:
    """How many directions give the relative standard error: sqrt((1 - k / m) / (2 k)) = error, whatever the vector."""
    return min(width, 8 * math.ceil(1 / (2 * error**2 + 1 / width) / 8))


def standard_error(width: int, count: int) -> float:
    """Relative standard error of a length seen in `count` random orthogonal directions of `width`."""
    return ((1 - count / width) / (2 * count)) ** 0.5


@dataclass(frozen=True)
class Response:
    """The feed-forward half of a block, frozen at the real state: a linear map for each target, without biases."""

    parts: Parts
    read_scale: Float[Tensor, "b t 1"]
    slope: Float[Tensor, "b t n"]
    linear_slope: Float[Tensor, "b t n"] | None
    branch_scale: Float[Tensor, "b t 1"]
    final_scale: Float[Tensor, "b t 1"]

    def fed(self, vectors: Float[Tensor, "b t m"]) -> Float[Tensor, "b t m"]:
        """What the feed-forward makes of this share of what it reads, as it joins the residual."""
        forward, norms = self.parts.neurons, self.parts.feed_forward_norms
        read = _linear(norms.before, vectors) * self.read_scale
        hidden = read @ forward.activated.weight * self.slope
        if forward.linear is not None and self.linear_slope is not None:
            hidden = hidden + read @ forward.linear.weight * self.linear_slope
        return _linear(norms.inside, hidden @ forward.down.weight) * self.branch_scale

    def finished(self, vectors: Float[Tensor, "b t m"]) -> Float[Tensor, "b t m"]:
        """Past the norm after the second residual."""
        return _linear(self.parts.feed_forward_norms.after, vectors) * self.final_scale


def response(block: Block) -> Response:
    """The block's feed-forward at the states of this pass."""
    parts = anatomy_of(block)
    norms, state = parts.feed_forward_norms, block.input if parts.parallel else block.middle
    read = state if norms.before is None else norms.before(state)
    branch = parts.feed_forward(read)
    inside = branch if norms.inside is None else norms.inside(branch)
    slope, linear_slope = slopes(parts.neurons, read)
    return Response(
        parts,
        read_scale=_scale(norms.before, state),
        slope=slope,
        linear_slope=linear_slope,
        branch_scale=_scale(norms.inside, branch) * parts.residual_scale,
        final_scale=_scale(norms.after, block.middle + inside * parts.residual_scale),
    )


def slopes(
    forward: FeedForward, read: Float[Tensor, "b t m"]
) -> tuple[Float[Tensor, "b t n"], Float[Tensor, "b t n"] | None]:
    """Per neuron and target, the slope of the pre-activation and, in gated forms, that of the linear part."""
    if forward.linear is None:
        return Activated.of(forward.activation, forward.activated(read)).slope, None
    gated = Gated.of(forward, read)
    return gated.slope, gated.linear_slope


def _norms(
    block: Block, mask: Bool[Tensor, "b s"], rotation: Float[Tensor, "m k"] | None, budget: int
) -> Float[Tensor, "b t s"]:
    fused = _fused(anatomy_of(block), rotation)

    def measure(alone: Block) -> Float[Tensor, "t s"]:
        answer = response(alone)
        lengths = _by_attention(alone) if fused.parts.parallel else _from_others(alone, answer, fused, budget)
        return alone.on_own(lengths, _kept(alone, answer)[0].norm(dim=-1))

    return by_sequence(block, mask, measure)


def _kept(block: Block, answer: Response) -> Float[Tensor, "b t m"]:
    """N_i z_ii: what each token gave itself, residual and all."""
    kept = settled(block, branched(block, own(block)) + block.input)
    return answer.finished(kept + answer.fed(block.input if answer.parts.parallel else kept))


def _taken(block: Block, answer: Response) -> Float[Tensor, "b t m"]:
    """N_i sum_{j != i} z_ij: what all others gave together; in a parallel block the feed-forward has none of it."""
    taken = settled(block, branched(block, total(block) - own(block)))
    return answer.finished(taken if answer.parts.parallel else taken + answer.fed(taken))


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


def _from_others(block: Block, answer: Response, fused: _Fused, budget: int) -> Float[Tensor, "t s"]:
    """|N_i z_ij| for all pairs, without the residual."""
    factor = answer.read_scale * answer.branch_scale
    counts = [(slope * factor)[0] for slope in (answer.slope, answer.linear_slope) if slope is not None]
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
    return lengths * (arrival_scale(block) * answer.final_scale)[0].abs()


def _rotation(width: int, count: int, seed: int) -> Float[Tensor, "m k"]:
    """Random orthogonal directions, scaled so that lengths are kept on average."""
    gaussian = torch.randn(width, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.linalg.qr(gaussian).Q * (width / count) ** 0.5


def _linear(norm: Norm | None, vectors: Tensor) -> Tensor:
    return vectors if norm is None else norm.linear(vectors)


def _scale(norm: Norm | None, states: Float[Tensor, "b t m"]) -> Float[Tensor, "b t 1"]:
    return torch.ones_like(states[..., :1]) if norm is None else norm.scale(states)
