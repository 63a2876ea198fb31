"""One block's derivative by its parts: norms, attention, feed-forward, residuals, each pushed and pulled.

The same numbers as through the block's own code, about twice as fast: what depends on the states alone (scales, slopes,
attention) is computed once. Every block is checked against its own code before it is used.
"""

from dataclasses import dataclass, field, replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp

from whence.linear.steps import Activated, Branches, Chain, Gated, Linear, Step, Sums, Vectors
from whence.models.frozen import Attended, FrozenBlock
from whence.models.precision import single
from whence.models.weights import FeedForward, Norm, Opaque

Shared = tuple[Float[Tensor, "m n"], Float[Tensor, "m p"], Float[Tensor, "m q"]]  # queries, keys, values
Read = tuple[Float[Tensor, "k t n"], Float[Tensor, "k t p"], Float[Tensor, "k t q"]]  # the same, heads side by side


@dataclass(frozen=True, eq=False)
class NormDerivative:
    """scale (z - x (x z) / m - mean z): what lies along the normed state x is lost, and along ones if centred."""

    normed: Float[Tensor, "t m"]
    scale: Float[Tensor, "t m"]
    centred: bool

    @classmethod
    def of(cls, norm: Norm, states: Float[Tensor, "t m"]) -> "NormDerivative":
        scale = norm.scale(states)
        centred = states - states.mean(dim=-1, keepdim=True) if norm.centred else states
        return cls(centred * scale, scale * norm.weight, norm.centred)

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        return self._without_lost(vectors).mul_(self.scale)

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        return self._without_lost(covectors * self.scale)

    def among(self, tokens: slice) -> "NormDerivative":
        return replace(self, normed=self.normed[tokens], scale=self.scale[tokens])

    def ahead_of(self, maps: Float[Tensor, "t m n"]) -> Float[Tensor, "t m n"]:
        """This derivative, then one matrix per token."""
        scaled = maps * self.scale[..., None]
        along = torch.bmm(self.normed[:, None], scaled)
        if self.centred:
            scaled -= scaled.mean(dim=1, keepdim=True)
        return scaled.baddbmm_(self.normed[..., None], along, alpha=-1 / maps.shape[1])

    def _without_lost(self, vectors: Vectors) -> Vectors:
        along = einsum(vectors, self.normed, "k t m, t m -> k t")[..., None]
        projected = torch.addcmul(vectors, along, self.normed, value=-1 / vectors.shape[-1])
        return projected.sub_(vectors.mean(dim=-1, keepdim=True)) if self.centred else projected


@dataclass(frozen=True, eq=False)
class Reading:
    """Queries, keys and values: by matrices that all tokens share, or by the block's own code up to its attention."""

    step: FrozenBlock
    maps: Shared | None = None
    tokens: slice = field(default_factory=lambda: slice(None))

    def push(self, vectors: Vectors) -> Read:
        if self.maps is None:
            queries, keys, values = map(self._flat, self.step.attends(self._whole(vectors)))
        else:
            queries, keys, values = (vectors @ weight for weight in self.maps)
        return queries, keys, values

    def pull(self, read: Read) -> Vectors:
        if self.maps is None:
            return self.step.attends_back(*map(self._by_head, read, _counts(self.step)))[:, self.tokens]
        queries, keys, values = (part @ weight.T for part, weight in zip(read, self.maps, strict=True))
        return queries.add_(keys).add_(values)

    def _flat(self, heads: Float[Tensor, "k h t d"]) -> Float[Tensor, "k u n"]:
        return rearrange(heads, "k h t d -> k t (h d)")[:, self.tokens]

    def _by_head(self, vectors: Float[Tensor, "k u n"], count: int) -> Float[Tensor, "k h t d"]:
        return rearrange(self._whole(vectors), "k t (h d) -> k h t d", h=count)

    def _whole(self, vectors: Float[Tensor, "k u n"]) -> Float[Tensor, "k t n"]:
        return padded(vectors, len(self.step.states), self.tokens)


@dataclass(frozen=True, eq=False)
class AttentionDerivative:
    """The product rule: values with the weights held, and the weights, which move with queries and keys.

    With c_i = sum_j A_ij v_j, dc_i = sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i) + dq_i C_i for every head;
    `spread` is C_i = sum_j g_ij k_j (v_j - c_i)^T.
    """

    reading: Reading
    attended: Attended
    spread: Float[Tensor, "g r t d e"]
    projection: Float[Tensor, "n m"]

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        queries, keys, values = self.reading.push(vectors)
        heads = heads_push(self.attended, keys, values)
        return heads.add_(by_query(queries, self.spread)) @ self.projection

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        heads = covectors @ self.projection.T
        keys, values = heads_pull(self.attended, heads)
        return self.reading.pull((by_query(heads, self.spread.mT), keys, values))

    def among(self, tokens: slice) -> "AttentionDerivative":
        reading, attended = replace(self.reading, tokens=tokens), self.attended.among(tokens)
        return replace(self, reading=reading, attended=attended, spread=self.spread[:, :, tokens])


def by_parts(step: FrozenBlock, back: bool = False) -> Branches | None:
    """The block's derivative from its parts; None where they are not known or do not give the block's own.

    It is compared with the block's own code pushing vectors, or pulling them `back`.
    """
    if step.attended is None or step.parts is None or isinstance(step.parts.feed_forward, Opaque):
        return None
    readings = [Reading(step, shared_maps(step))] if step.may_read_alike else []
    for reading in (*readings, Reading(step)):
        block = _branches(step, reading)
        if step.agrees_back(block.pull) if back else step.agrees(block.push):
            return block
    return None


def _branches(step: FrozenBlock, reading: Reading) -> Branches:
    assert step.attended is not None and step.parts is not None
    parts, states = single(step.parts), step.states
    norms, feed_norms, scale = parts.attention_norms, parts.feed_forward_norms, parts.residual_scale
    projection = rearrange(parts.projection.weight, "h d m -> (h d) m")
    projected = rearrange(step.attended.mixed, "g r t e -> t (g r e)") @ projection
    projected = projected if parts.projection.bias is None else projected + parts.projection.bias
    joined = states + _normed(norms.inside, projected) * scale
    middle = _normed(norms.after, joined)
    read = states if parts.parallel else middle
    fed = parts.feed_forward(_normed(feed_norms.before, read))
    attention = AttentionDerivative(reading, step.attended, scores_spread(step.attended), projection)
    neurons = _feed_forward(parts.neurons, _normed(feed_norms.before, read))
    return Branches(
        Chain((attention, *_derivative(norms.inside, projected)), scale),
        Chain(_derivative(norms.after, joined)),
        Chain((*_derivative(feed_norms.before, read), *neurons, *_derivative(feed_norms.inside, fed)), scale),
        Chain(_derivative(feed_norms.after, middle + _normed(feed_norms.inside, fed) * scale)),
        parts.parallel,
    )


def _derivative(norm: Norm | None, states: Float[Tensor, "t m"]) -> tuple[NormDerivative, ...]:
    return () if norm is None else (NormDerivative.of(norm, states),)


def _normed(norm: Norm | None, states: Float[Tensor, "t m"]) -> Float[Tensor, "t m"]:
    return states if norm is None else norm(states)


def _feed_forward(forward: FeedForward, read: Float[Tensor, "t m"]) -> tuple[Step, ...]:
    """The steps of the secant with the slopes of the derivative; of a gate by the product rule."""
    before, down = forward.activated(read), Linear(forward.down)
    active, slope = jvp(forward.activation, (before,), (torch.ones_like(before),))[:2]
    if forward.linear is not None:
        return Gated(forward.activated, forward.linear, slope * forward.linear(read), active), down
    return Linear(forward.activated), Activated(slope, torch.zeros_like(slope[0])), down


def shared_maps(step: FrozenBlock) -> Shared:
    """Derivatives of queries, keys and values when they are those of every token: each token carries another one."""
    tokens, width = step.states.shape
    directions = torch.eye(width, dtype=step.states.dtype, device=step.states.device)
    rounds = -(-width // tokens)
    carried = torch.nn.functional.pad(directions, (0, 0, 0, rounds * tokens - width))
    read = step.attends(rearrange(carried, "(k t) m -> k t m", t=tokens))
    queries, keys, values = (rearrange(part, "k h t d -> (k t) (h d)")[:width].contiguous() for part in read)
    return queries, keys, values


def padded(vectors: Float[Tensor, "k u n"], count: int, tokens: slice) -> Float[Tensor, "k t n"]:
    """Vectors of some of `count` tokens with zeros at the others."""
    if vectors.shape[1] == count:
        return vectors
    whole = vectors.new_zeros(len(vectors), count, vectors.shape[-1])
    whole[:, tokens] = vectors
    return whole


def _counts(step: FrozenBlock) -> tuple[int, int, int]:
    """How many heads have queries, keys and values of their own."""
    assert step.attended is not None
    groups, shared = step.attended.query.shape[:2]
    return groups * shared, groups, groups


def heads_push(attended: Attended, keys: Float[Tensor, "k t p"], values: Float[Tensor, "k t q"]) -> Vectors:
    """sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i): how what the heads output moves but for the queries.

    Every product is one large one per group: targets and the heads that share keys are its rows. Sources stand last in
    the scores, so that they are summed over as they lie.
    """
    groups, count = len(attended.key), len(keys)
    keys = rearrange(keys, "k s (g d) -> g d (k s)", g=groups)
    values = rearrange(values, "k s (g e) -> g s (k e)", g=groups)
    query, weights = (rearrange(part, "g r t x -> g (r t) x") for part in (attended.query, attended.weights))
    scores = rearrange(torch.bmm(query, keys), "g x (k s) -> g x k s", k=count)
    scores.mul_(rearrange(attended.gain, "g r t s -> g (r t) 1 s"))
    heads = rearrange(torch.bmm(weights, values), "g x (k e) -> g (x k) e", k=count)
    heads.baddbmm_(rearrange(scores, "g x k s -> g (x k) s"), attended.value)
    heads = rearrange(heads, "g (x k) e -> g x k e", k=count)
    mixed = rearrange(attended.mixed, "g r t e -> g (r t) 1 e")
    heads.addcmul_(scores.sum(dim=-1, keepdim=True), mixed, value=-1)
    return rearrange(heads, "g (r t) k e -> k t (g r e)", t=weights.shape[-1])


def heads_pull(attended: Attended, heads: Vectors) -> tuple[Float[Tensor, "k t p"], Float[Tensor, "k t q"]]:
    """The transpose: cotangents of keys and values from those of what the heads output."""
    groups, shared = attended.query.shape[:2]
    count = len(heads)
    heads = rearrange(heads, "k t (g r e) -> g (r t) k e", g=groups, r=shared).contiguous()
    query, weights = (rearrange(part, "g r t x -> g x (r t)") for part in (attended.query, attended.weights))
    values = torch.bmm(weights, rearrange(heads, "g x k e -> g x (k e)"))
    scores = torch.bmm(rearrange(heads, "g x k e -> g (x k) e"), attended.value.mT)
    scores = rearrange(scores, "g (x k) s -> g x k s", k=count)
    scores -= heads @ rearrange(attended.mixed, "g r t e -> g (r t) e 1")
    scores.mul_(rearrange(attended.gain, "g r t s -> g (r t) 1 s"))
    keys = torch.bmm(query, rearrange(scores, "g x k s -> g x (k s)"))
    return (
        rearrange(keys, "g d (k s) -> k s (g d)", k=count),
        rearrange(values, "g s (k e) -> k s (g e)", k=count),
    )


def scores_spread(attended: Attended) -> Float[Tensor, "g r t d e"]:
    """C_i = sum_j g_ij k_j (v_j - c_i)^T for every head."""
    pairs = rearrange(attended.key[..., None] * attended.value[:, :, None], "g s d e -> g 1 s (d e)")
    spread = rearrange(attended.gain @ pairs, "g r t (d e) -> g r t d e", d=attended.key.shape[-1])
    middle = attended.gain @ attended.key[:, None]
    return spread.sub_(middle[..., None] * attended.mixed[..., None, :])


def by_query(vectors: Vectors, spread: Float[Tensor, "g r t x y"]) -> Vectors:
    """Each head's vectors of each token times its matrix."""
    groups, shared = spread.shape[:2]
    heads = rearrange(vectors, "k t (g r x) -> (g r t) k x", g=groups, r=shared)
    moved = torch.bmm(heads, rearrange(spread, "g r t x y -> (g r t) x y"))
    return rearrange(moved, "(g r t) k y -> k t (g r y)", g=groups, r=shared)
