"""A block's derivative with everything that happens to a token alone multiplied out beforehand.

With q, k, v functions of a token's own state, c = sum_j A_ij v_j what the heads give, and y = f(x, c) the output:

    dy_i = dx_i O_i + (sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i)) W_i,    dk_j = dx_j K_j,    dv_j = dx_j V_j
    W_i = df/dc,    O_i = df/dx + Q_i C_i W_i,    C_i = sum_j g_ij k_j (v_j - c_i)^T    (heads stand side by side)

g is the attention times the slope of the scores. Norms, feed-forward, projections and queries are inside O and W, so a
tangent costs four products with m x m matrices instead of twelve. Where the parts of the block are known, so are most
of the maps: the feed-forward's is (F diag(slope_i)) D, the norms' are diagonal but for two directions.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.linear.direct import Direct
from whence.linear.reading import ByToken, basis, by_token, may_read_alike
from whence.linear.scores import heads_tangent, scores_spread
from whence.models.tangent import Attended, Step, precise

# products with m x m matrices per token and tangent: through the block's own code, through the maps
PLAIN, FOLDED = 12, 4
# the same per token and dimension to make the maps: of a block whose parts are not known, of one with a norm before its
# attention, of one where all tokens are read alike
UNKNOWN, NORMED, ALIKE = 14, 9, 6


@dataclass(frozen=True, eq=False)
class Folded:
    """The maps of one block, one matrix per token, input x output."""

    keys: Float[Tensor, "t w p"]
    values: Float[Tensor, "t w q"]
    own: Float[Tensor, "t w m"]
    write: Float[Tensor, "t n m"]
    attended: Attended

    def push(self, tangents: Float[Tensor, "u k m"]) -> Float[Tensor, "u k m"]:
        """J v for every tangent, tokens first; when tokens are missing they are the first ones, which do not move."""
        seen = slice(len(self.own) - len(tangents), None)
        keys, values = (_through(tangents, maps[seen]) for maps in (self.keys, self.values))
        heads = heads_tangent(self.attended, seen, keys, values)
        return torch.bmm(tangents, self.own[seen]).baddbmm_(heads, self.write[seen])


def pays(tangents: int, step: Step) -> bool:
    """Whether making the maps of this block costs less than it saves."""
    return making(step) * step.states.shape[-1] + FOLDED * tangents < PLAIN * tangents


def making(step: Step) -> int:
    """What the maps of this block cost, in products with m x m matrices per token and dimension."""
    if step.parts is None or not step.parts.joins_first:
        return UNKNOWN
    return ALIKE if may_read_alike(step) else NORMED


def fold(step: Step, way: Direct | None, chunk: int) -> Folded | None:
    """The block's maps, made from `chunk` directions at a time; None where the block is not of this form.

    That is found by trying: a block whose tokens meet outside attention would give another derivative. `way` is the
    block's derivative from its parts (`direct`).
    """
    if step.attended is None:
        return None
    if way is not None and way.parts.joins_first:
        queries, keys, values = _by_token(step, way, chunk)
        own = way.rest()
        write = (way.project * way.parts.residual_scale) @ own
    else:
        queries, keys, values, own = _reads(step, chunk)
        write = _writes(step, own, chunk)
    own.baddbmm_(_through_scores(step.attended, queries), write)
    folded = Folded(keys, values, own, write, step.attended)
    return folded if step.agrees(folded.push) else None


def _by_token(step: Step, way: Direct, chunk: int) -> ByToken:
    if way.reads.maps is None:
        return by_token(step, chunk)
    queries, keys, values = (weight.expand(len(step.states), -1, -1) for weight in way.reads.maps)
    return queries, keys, values


def _through(tangents: Float[Tensor, "u k m"], maps: Float[Tensor, "u m n"]) -> Float[Tensor, "u k n"]:
    """Each token's tangents times its map; one large product where all tokens share it."""
    return tangents @ maps[0] if maps.stride(0) == 0 else torch.bmm(tangents, maps)


def bytes_of(step: Step) -> int:
    """What the maps of one block take while they are made: keys, values, own, write, and two more for the queries."""
    assert step.attended is not None
    tokens, width = step.states.shape
    groups, shared, _, head = step.attended.query.shape
    value = step.attended.value.shape[-1]
    columns = groups * (head + value) + width + 3 * groups * shared * max(head, value)
    return step.states.element_size() * tokens * width * columns


def _reads(step: Step, chunk: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Derivatives of queries [t m g r d], keys, values and output by the token's own state, input x output."""
    tokens, width = step.states.shape
    assert step.attended is not None
    found: list[Tensor] = []
    for part, directions in basis(step.states, width, chunk):
        queries, keys, values, output = step.reads(directions)
        pieces = [rearrange(tangent, "k h t d -> t k (h d)") for tangent in (queries, keys, values)]
        pieces.append(rearrange(output, "k t m -> t k m"))
        found = found or [piece.new_empty(tokens, width, piece.shape[-1]) for piece in pieces]
        for whole, piece in zip(found, pieces, strict=True):
            whole[:, part] = piece
    return found[0], found[1], found[2], found[3]


def _writes(step: Step, own: Float[Tensor, "t m m"], chunk: int) -> Float[Tensor, "t n m"]:
    """Derivative of the output by what the heads give; by way of the residual stream where they join it first."""
    assert step.attended is not None
    parts = step.parts
    if parts is not None and parts.joins_first:
        weight = rearrange(precise(parts.projection.weight), "h d m -> (h d) m")
        return (weight * parts.residual_scale) @ own
    size = step.attended.mixed[:, :, 0].numel()
    write = own.new_empty(len(own), size, own.shape[-1])
    for part, directions in basis(step.states, size, chunk):
        write[:, part] = rearrange(step.writes(directions), "k t m -> t k m")
    return write


def _through_scores(attended: Attended, queries: Float[Tensor, "t m p"]) -> Float[Tensor, "t m n"]:
    """Q_i C_i for every head: how what the heads give moves with the queries."""
    spread = scores_spread(attended)
    groups, shared = spread.shape[:2]
    queries = rearrange(queries, "t m (g r d) -> (g r t) m d", g=groups, r=shared)
    moved = torch.bmm(queries, rearrange(spread, "g r t d e -> (g r t) d e"))
    return rearrange(moved, "(g r t) m e -> t m (g r e)", g=groups, r=shared)
