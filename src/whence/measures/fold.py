"""A block's derivative with everything that happens to a token alone multiplied out beforehand.

With q, k, v functions of a token's own state, c = sum_j A_ij v_j what the heads give, and y = f(x, c) the output:

    dy_i = dx_i O_i + (sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i)) W_i,    dk_j = dx_j K_j,    dv_j = dx_j V_j
    W_i = df/dc,    O_i = df/dx + Q_i C_i W_i,    C_i = sum_j g_ij k_j (v_j - c_i)^T    (heads stand side by side)

g is the attention times the slope of the scores. Norms, feed-forward, projections and queries are inside O and W, so a
tangent costs four products with m x m matrices instead of twelve; the maps cost about thirteen tangents per dimension.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.models.tangent import Attended, Step, precise

# products with m x m matrices per token and tangent: through the block's own code, through the maps, to make the maps
PLAIN, FOLDED, MAPS = 12, 4, 14
AGREE = 1e-4  # relative difference from the block's own derivative that float32 rounding explains


@dataclass(frozen=True, eq=False)
class Folded:
    """The maps of one block, one matrix per token, input x output."""

    keys: Float[Tensor, "t m p"]
    values: Float[Tensor, "t m q"]
    own: Float[Tensor, "t m m"]
    write: Float[Tensor, "t n m"]
    attended: Attended

    def push(self, tangents: Float[Tensor, "u k m"]) -> Float[Tensor, "u k m"]:
        """J v for every tangent, tokens first; when tokens are missing they are the first ones, which do not move."""
        seen = slice(len(self.own) - len(tangents), None)
        heads = heads_tangent(self.attended, seen, tangents @ self.keys[seen], tangents @ self.values[seen])
        return torch.bmm(tangents, self.own[seen]).baddbmm_(heads, self.write[seen])

    def push_tangents_first(self, tangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        return rearrange(self.push(rearrange(tangents, "k t m -> t k m")), "t k m -> k t m")


def pays(tangents: int, width: int) -> bool:
    """Whether making the maps costs less than it saves."""
    return MAPS * width + FOLDED * tangents < PLAIN * tangents


def fold(step: Step, chunk: int) -> Folded | None:
    """The block's maps, made from `chunk` directions at a time; None where the block is not of this form.

    That is found by trying: a block whose tokens meet outside attention would give another derivative.
    """
    if step.attended is None:
        return None
    queries, keys, values, own = _reads(step, chunk)
    write = _writes(step, own, chunk)
    own += torch.bmm(_through_scores(step.attended, queries), write)
    folded = Folded(keys, values, own, write, step.attended)
    return folded if agrees(step, folded.push_tangents_first) else None


def bytes_of(step: Step) -> int:
    """What the maps of one block take while they are made: keys, values, own, write, and two more for the queries."""
    assert step.attended is not None
    tokens, width = step.states.shape
    groups, shared, _, head = step.attended.query.shape
    value = step.attended.value.shape[-1]
    columns = groups * (head + value) + width + 3 * groups * shared * max(head, value)
    return step.states.element_size() * tokens * width * columns


def heads_tangent(
    attended: Attended, seen: slice, keys: Float[Tensor, "u k p"], values: Float[Tensor, "u k q"]
) -> Float[Tensor, "u k n"]:
    """sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i), the tangent of what the heads give but for the queries.

    Every product is one large one per group: targets and the heads that share keys are its rows, tangents its columns.
    """
    groups, tangents = len(attended.key), keys.shape[1]
    keys = rearrange(keys, "u k (g d) -> g u k d", g=groups)
    values = rearrange(values, "u k (g e) -> g u (k e)", g=groups).contiguous()
    query = rearrange(attended.query[:, :, seen], "g r t d -> g 1 (r t) d")
    gain = rearrange(attended.gain[:, :, seen, seen], "g r t s -> g s (r t) 1")
    scores = (query @ keys.mT).mul_(gain)  # g s (r t) k
    weights = rearrange(attended.weights[:, :, seen, seen], "g r t s -> g (r t) s")
    heads = rearrange(torch.bmm(weights, values), "g x (k e) -> g (x k) e", k=tangents)
    heads.baddbmm_(rearrange(scores, "g s x k -> g (x k) s"), attended.value[:, seen])
    mixed = rearrange(attended.mixed[:, :, seen], "g r t e -> g (r t) 1 e")
    heads = rearrange(heads, "g (x k) e -> g x k e", k=tangents)
    heads.addcmul_(scores.sum(dim=1)[..., None], mixed, value=-1)
    return rearrange(heads, "g (r u) k e -> u k (g r e)", u=keys.shape[1])


def _reads(step: Step, chunk: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Derivatives of queries [t m g r d], keys, values and output by the token's own state, input x output."""
    tokens, width = step.states.shape
    assert step.attended is not None
    found: list[Tensor] = []
    for part, directions in _basis(step.states, width, chunk):
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
    if parts is not None and not parts.parallel and parts.attention_norms.inside is None:
        weight = rearrange(precise(parts.projection.weight), "h d m -> (h d) m")
        return (weight * parts.residual_scale) @ own
    size = step.attended.mixed[:, :, 0].numel()
    write = own.new_empty(len(own), size, own.shape[-1])
    for part, directions in _basis(step.states, size, chunk):
        write[:, part] = rearrange(step.writes(directions), "k t m -> t k m")
    return write


def _basis(states: Float[Tensor, "t m"], size: int, chunk: int) -> Iterator[tuple[slice, Float[Tensor, "k t n"]]]:
    """Unit vectors, a few at a time, the same at every token."""
    basis = torch.eye(size, dtype=states.dtype, device=states.device)
    for begin in range(0, size, chunk):
        part = slice(begin, min(begin + chunk, size))
        yield part, basis[part, None].expand(-1, len(states), -1)


def _through_scores(attended: Attended, queries: Float[Tensor, "t m p"]) -> Float[Tensor, "t m n"]:
    """Q_i C_i for every head: how what the heads give moves with the queries."""
    spread = scores_spread(attended)
    groups, shared = spread.shape[:2]
    queries = rearrange(queries, "t m (g r d) -> (g r t) m d", g=groups, r=shared)
    moved = torch.bmm(queries, rearrange(spread, "g r t d e -> (g r t) d e"))
    return rearrange(moved, "(g r t) m e -> t m (g r e)", g=groups, r=shared)


def scores_spread(attended: Attended) -> Float[Tensor, "g r t d e"]:
    """C_i = sum_j g_ij k_j (v_j - c_i)^T for every head."""
    pairs = rearrange(attended.key[..., None] * attended.value[:, :, None], "g s d e -> g 1 s (d e)")
    spread = rearrange(attended.gain @ pairs, "g r t (d e) -> g r t d e", d=attended.key.shape[-1])
    middle = attended.gain @ attended.key[:, None]
    return spread.sub_(middle[..., None] * attended.mixed[..., None, :])


def agrees(step: Step, push: Callable[[Tensor], Tensor]) -> bool:
    """Whether a derivative, tangents first, is that of the block's own code."""
    generator = torch.Generator().manual_seed(0)
    tangents = torch.randn(2, *step.states.shape, generator=generator, dtype=torch.float64).to(step.states)
    expected = step.push(tangents)
    return bool((push(tangents) - expected).abs().max() <= AGREE * expected.abs().max())
