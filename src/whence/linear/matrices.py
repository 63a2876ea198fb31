"""One block's derivative as matrices: everything that happens to a token alone is multiplied out beforehand.

With q, k, v functions of a token's own state, c = sum_j A_ij v_j what the heads output, and y = f(x, c) the output:

    dy_i = dx_i O_i + (sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i)) W_i,    dk_j = dx_j K_j,    dv_j = dx_j V_j
    W_i = df/dc,    O_i = df/dx + Q_i C_i W_i,    C_i = sum_j g_ij k_j (v_j - c_i)^T    (heads stand side by side)

g is the attention times the slope of the scores. Norms, feed-forward, projections and queries are inside O and W, so a
vector costs four products with m x m matrices instead of twelve. Where the parts of the block are known, so are most
of the matrices: the feed-forward's is (F diag(slope_i)) D, the norms' are diagonal but for two directions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.linear.steps import Activated, Branches, Chain, Gated, Linear, Step, Vectors
from whence.linear.tangent import AttentionDerivative, NormDerivative, by_query, heads_pull, heads_push, scores_spread
from whence.models.frozen import Attended, FrozenBlock, precise

Reads = tuple[Float[Tensor, "t w n"], Float[Tensor, "t w p"], Float[Tensor, "t w q"]]  # queries, keys, values


@dataclass(frozen=True, eq=False)
class Matrices:
    """One matrix per token, input x output."""

    keys: Float[Tensor, "t w p"]
    values: Float[Tensor, "t w q"]
    own: Float[Tensor, "t w m"]
    write: Float[Tensor, "t n m"]
    attended: Attended

    def push(self, vectors: Vectors) -> Vectors:
        across = vectors.transpose(0, 1)  # tokens first, for one product with each token's matrix
        keys, values = (_through(across, maps).transpose(0, 1) for maps in (self.keys, self.values))
        heads = heads_push(self.attended, keys, values).transpose(0, 1)
        return torch.bmm(across, self.own).baddbmm_(heads, self.write).transpose(0, 1)

    def pull(self, covectors: Vectors) -> Vectors:
        across = covectors.transpose(0, 1)
        keys, values = heads_pull(self.attended, torch.bmm(across, self.write.mT).transpose(0, 1))
        pulled = torch.bmm(across, self.own.mT)
        for part, maps in ((keys, self.keys), (values, self.values)):
            pulled += _through(part.transpose(0, 1), maps.mT)
        return pulled.transpose(0, 1)

    def among(self, tokens: slice) -> "Matrices":
        maps = {name: getattr(self, name)[tokens] for name in ("keys", "values", "own", "write")}
        return replace(self, attended=self.attended.among(tokens), **maps)


def matrices(step: FrozenBlock, parts: Branches | None, chunk: int, back: bool = False) -> Matrices | None:
    """The block's matrices, made from `chunk` directions at a time; None where the block is not of this form.

    That is found by trying: a block whose tokens meet outside attention would give another derivative. `parts` is the
    block's derivative by its parts.
    """
    if step.attended is None:
        return None
    if parts is not None and step.parts is not None and step.parts.joins_first:
        attention = parts.attention.steps[0]
        assert isinstance(attention, AttentionDerivative)
        queries, keys, values = _by_token(attention, chunk)
        own = rest(parts)
        write = (attention.projection * parts.attention.factor) @ own
    else:
        queries, keys, values, own = _reads(step, chunk)
        write = _writes(step, own, chunk)
    own.baddbmm_(_through_scores(step.attended, queries), write)
    multiplied = Matrices(keys, values, own, write, step.attended)
    return multiplied if (step.agrees_back(multiplied.pull) if back else step.agrees(multiplied.push)) else None


def bytes_of(step: FrozenBlock) -> int:
    """What the matrices of one block take while they are made: keys, values, own, write, two more for the queries."""
    assert step.attended is not None
    tokens, width = step.states.shape
    groups, shared, _, head = step.attended.query.shape
    value = step.attended.value.shape[-1]
    columns = groups * (head + value) + width + 3 * groups * shared * max(head, value)
    return step.states.element_size() * tokens * width * columns


def _through(vectors: Float[Tensor, "t k m"], maps: Float[Tensor, "t m n"]) -> Float[Tensor, "t k n"]:
    """Each token's vectors times its matrix; one large product where all tokens share it."""
    return vectors @ maps[0] if maps.stride(0) == 0 else torch.bmm(vectors, maps)


def _by_token(attention: AttentionDerivative, chunk: int) -> Reads:
    """How queries, keys and values of each token move with its own state."""
    reading = attention.reading
    if reading.maps is not None:
        queries, keys, values = (weight.expand(len(reading.step.states), -1, -1) for weight in reading.maps)
        return queries, keys, values
    states = reading.step.states
    pieces = [reading.push(directions) for _, directions in _basis(states, states.shape[-1], chunk)]
    queries, keys, values = (rearrange(torch.cat(piece), "k t n -> t k n") for piece in zip(*pieces, strict=True))
    return queries, keys, values


def rest(parts: Branches) -> Float[Tensor, "t m m"]:
    """From where the heads join the residual stream to the output."""
    maps = _multiplied(parts.feed_forward).mul_(parts.feed_forward.factor)
    maps.diagonal(dim1=1, dim2=2).add_(1)
    maps = _through_norms(parts.past_attention.steps, maps)
    return parts.past_feed_forward.push(maps.transpose(0, 1)).transpose(0, 1)


def _multiplied(branch: Chain) -> Float[Tensor, "t m m"]:
    """The feed-forward as one matrix per token; a norm may come before its neurons, and one behind."""
    steps = list(branch.steps)
    before = [steps.pop(0)] if isinstance(steps[0], NormDerivative) else []
    maps = _through_norms(before, _neurons(steps))
    return Chain(tuple(steps)).push(maps.transpose(0, 1)).transpose(0, 1)


def _through_norms(norms: Sequence[Step], maps: Float[Tensor, "t m n"]) -> Float[Tensor, "t m n"]:
    for norm in norms:
        assert isinstance(norm, NormDerivative)
        maps = norm.ahead_of(maps)
    return maps


def _neurons(steps: list[Step]) -> Float[Tensor, "t m m"]:
    """(F diag(slope_i)) D, and the same of the linear half of a gate; takes its steps off the list."""
    first, second = steps.pop(0), steps.pop(0)
    if isinstance(first, Gated):
        halves, down = [(first.activated, first.slope), (first.linear, first.linear_slope)], second
    else:
        assert isinstance(first, Linear) and isinstance(second, Activated)
        halves, down = [(first.affine, second.slope)], steps.pop(0)
    assert isinstance(down, Linear)
    (weight, slopes), *others = [(affine.weight, slope) for affine, slope in halves]
    maps = slopes.new_empty(len(slopes), len(weight), down.affine.weight.shape[1])
    hidden = torch.empty_like(weight)
    for token, slope in enumerate(slopes):
        torch.mul(weight, slope, out=hidden)
        for other, others_slopes in others:
            hidden.addcmul_(other, others_slopes[token])
        torch.mm(hidden, down.affine.weight, out=maps[token])
    return maps


def _basis(states: Float[Tensor, "t m"], size: int, chunk: int) -> Iterator[tuple[slice, Float[Tensor, "k t n"]]]:
    """Unit vectors, a few at a time, the same at every token."""
    unit = torch.eye(size, dtype=states.dtype, device=states.device)
    for begin in range(0, size, chunk):
        part = slice(begin, min(begin + chunk, size))
        yield part, unit[part, None].expand(-1, len(states), -1)


def _reads(step: FrozenBlock, chunk: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Derivatives of queries, keys, values and output by the token's own state, input x output."""
    tokens, width = step.states.shape
    derivatives: list[Tensor] = []
    for part, directions in _basis(step.states, width, chunk):
        queries, keys, values, output = step.reads(directions)
        pieces = [rearrange(tangent, "k h t d -> t k (h d)") for tangent in (queries, keys, values)]
        pieces.append(rearrange(output, "k t m -> t k m"))
        derivatives = derivatives or [piece.new_empty(tokens, width, piece.shape[-1]) for piece in pieces]
        for whole, piece in zip(derivatives, pieces, strict=True):
            whole[:, part] = piece
    return derivatives[0], derivatives[1], derivatives[2], derivatives[3]


def _writes(step: FrozenBlock, own: Float[Tensor, "t m m"], chunk: int) -> Float[Tensor, "t n m"]:
    """Derivative of the output by what the heads output; by way of the residual stream where they join it first."""
    assert step.attended is not None
    parts = step.parts
    if parts is not None and parts.joins_first:
        weight = rearrange(precise(parts.projection.weight), "h d m -> (h d) m")
        return (weight * parts.residual_scale) @ own
    size = step.attended.mixed[:, :, 0].numel()
    write = own.new_empty(len(own), size, own.shape[-1])
    for part, directions in _basis(step.states, size, chunk):
        write[:, part] = rearrange(step.writes(directions), "k t m -> t k m")
    return write


def _through_scores(attended: Attended, queries: Float[Tensor, "t m p"]) -> Float[Tensor, "t m n"]:
    """Q_i C_i for every head: how what the heads output moves with the queries."""
    return by_query(queries.transpose(0, 1), scores_spread(attended)).transpose(0, 1)
