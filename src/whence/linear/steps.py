"""The steps a block and an LM head are made of, each as an affine map at one sentence's states.

Every step pushes vectors forwards, `M v`, or with its constants `M v + c`, and pulls covectors back, `u M`, adding
`u c` to a sum where one is kept. Vectors are [k t m]: k of them over all t tokens. Here are the steps of the secant: a
norm has its scale held, an activation its slope from zero, attention its weights. The tangent (`tangent`) has norms and
attention of its own, and the feed-forward of the secant with other slopes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy
import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from whence.models.experts import Route
from whence.models.weights import Activation, Affine, FeedForward, Norm, Projection

# of the integral of an activation: up to pre-activations of 60 those of SiLU and GELU are off by less than 5e-7 of them
# in float32, as rounding is, and by 1e-10 in float64; the slopes made of it add up whatever it is
NODES = {torch.float64: 32, torch.float32: 16}
Vectors = Float[Tensor, "k t _"]
Reads = Float[Tensor, "k _ _"]  # where other tokens are read than written: a head reads all as one
Sums = Float[Tensor, " k"]
Self = TypeVar("Self")


@runtime_checkable
class Step(Protocol):
    """An affine map of every token's vector, or of all tokens' vectors together."""

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors: ...

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors: ...

    def among(self: Self, tokens: slice) -> Self:
        """The same map among some tokens, where vectors are zero at all others."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b."""

    affine: Affine

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        return self.affine(vectors) if constants else vectors @ self.affine.weight

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        add_constants(sums, covectors, self.affine.bias)
        return covectors @ self.affine.weight.T

    def among(self, tokens: slice) -> "Linear":
        return self


@dataclass(frozen=True, eq=False)
class Normed:
    """A norm, its 1 / std or 1 / root mean square held."""

    norm: Norm
    scale: Float[Tensor, "*t 1"]

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        normed = self.norm.linear(vectors) * self.scale
        return normed + self.norm.bias if constants and self.norm.bias is not None else normed

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        add_constants(sums, covectors, self.norm.bias)
        weighed = covectors * self.scale * self.norm.weight
        return weighed - weighed.mean(dim=-1, keepdim=True) if self.norm.centred else weighed

    def among(self, tokens: slice) -> "Normed":
        return replace(self, scale=self.scale[tokens])


@dataclass(frozen=True, eq=False)
class Activated:
    """An activation g by its slope from zero, (g(z) - g(0)) / z."""

    slope: Float[Tensor, "*t n"]
    at_zero: Float[Tensor, " n"]

    @classmethod
    def of(cls, activation: Activation, before: Float[Tensor, "*t n"]) -> "Activated":
        before, zero = _away_from_zero(before), activation(before.new_zeros(before.shape[-1]))
        return cls((activation(before) - zero) / before, zero)

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        return vectors * self.slope + self.at_zero if constants else vectors * self.slope

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        add_constants(sums, covectors, self.at_zero)
        return covectors * self.slope

    def among(self, tokens: slice) -> "Activated":
        return replace(self, slope=self.slope[tokens])


@dataclass(frozen=True, eq=False)
class Gated:
    """g(a) u of a gated feed-forward, shared out by integrated gradients from zero.

    With S the integral of g(x a) over x from 0 to 1, u has the slope S and a the slope u (g(a) - S) / a.
    """

    activated: Affine
    linear: Affine
    slope: Float[Tensor, "*t n"]
    linear_slope: Float[Tensor, "*t n"]

    @classmethod
    def of(cls, forward: FeedForward, read: Float[Tensor, "*t m"]) -> "Gated":
        assert forward.linear is not None
        before = _away_from_zero(forward.activated(read))
        mean = mean_along_path(forward.activation, before)
        slope = forward.linear(read) * (forward.activation(before) - mean) / before
        return cls(forward.activated, forward.linear, slope, mean)

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        through = [Linear(affine).push(vectors, constants) for affine in (self.activated, self.linear)]
        return (through[0] * self.slope).addcmul_(through[1], self.linear_slope)

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        gate = Linear(self.activated).pull(covectors * self.slope, sums)
        return gate + Linear(self.linear).pull(covectors * self.linear_slope, sums)

    def among(self, tokens: slice) -> "Gated":
        return replace(self, slope=self.slope[tokens], linear_slope=self.linear_slope[tokens])


@dataclass(frozen=True, eq=False)
class Attention:
    """sum_h sum_j A^h_ij f_h(x_j): values, weights as they were, output projection. Heads that share values are in
    groups `g` of `r`. Sources are other tokens than the targets where it is the attention to an encoder.
    """

    values: Affine
    weights: Float[Tensor, "g r t s"]
    projection: Projection

    def push(self, vectors: Reads, constants: bool = False) -> Reads:
        values = Linear(self.values).push(vectors, constants)
        values = rearrange(values, "k s (g d) -> k g s d", g=len(self.weights))
        heads = einsum(self.weights, values, "g r t s, k g s d -> k t g r d")
        moved = rearrange(heads, "k t g r d -> k t (g r d)") @ self._projection
        return moved + self.projection.bias if constants and self.projection.bias is not None else moved

    def pull(self, covectors: Reads, sums: Sums | None = None) -> Reads:
        add_constants(sums, covectors, self.projection.bias)
        groups, shared = self.weights.shape[:2]
        heads = rearrange(covectors @ self._projection.T, "k t (g r d) -> k g r t d", g=groups, r=shared)
        values = einsum(self.weights, heads, "g r t s, k g r t d -> k s g d")
        return Linear(self.values).pull(rearrange(values, "k s g d -> k s (g d)"), sums)

    def among(self, tokens: slice) -> "Attention":
        return replace(self, weights=self.weights[..., tokens, tokens])

    @property
    def _projection(self) -> Float[Tensor, "n m"]:
        return self.projection.weight.flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Pooled:
    """Sums of the tokens' vectors with weights, one after the other in one vector: what a head reads of a text."""

    weights: Float[Tensor, "n t"]

    def push(self, vectors: Vectors, constants: bool = False) -> Float[Tensor, "k 1 w"]:
        return rearrange(einsum(self.weights, vectors, "n t, k t m -> k n m"), "k n m -> k 1 (n m)")

    def pull(self, covectors: Float[Tensor, "k 1 w"], sums: Sums | None = None) -> Vectors:
        sections = rearrange(covectors, "k 1 (n m) -> k n m", n=len(self.weights))
        return einsum(self.weights, sections, "n t, k n m -> k t m")

    def among(self, tokens: slice) -> "Pooled":
        return replace(self, weights=self.weights[:, tokens])


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps one after the other, and a factor on what comes out."""

    steps: tuple[Step, ...]
    factor: float = 1.0

    def push(self, vectors: Reads, constants: bool = False) -> Reads:
        for step in self.steps:
            vectors = step.push(vectors, constants)
        return vectors if self.factor == 1 else vectors * self.factor

    def pull(self, covectors: Reads, sums: Sums | None = None) -> Reads:
        covectors = covectors if self.factor == 1 else covectors * self.factor
        for step in reversed(self.steps):
            covectors = step.pull(covectors, sums)
        return covectors

    def among(self, tokens: slice) -> "Chain":
        return replace(self, steps=tuple(step.among(tokens) for step in self.steps))


@dataclass(frozen=True, eq=False)
class Beside:
    """x + M x."""

    branch: Chain

    def push(self, vectors: Reads, constants: bool = False) -> Reads:
        return vectors + self.branch.push(vectors, constants)

    def pull(self, covectors: Reads, sums: Sums | None = None) -> Reads:
        return covectors + self.branch.pull(covectors, sums)

    def among(self, tokens: slice) -> "Beside":
        return Beside(self.branch.among(tokens))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Experts, each at the tokens that it had, times the factor it had there: the routing is held."""

    experts: tuple[tuple[Chain, Int[Tensor, " _"], Float[Tensor, "_ 1"]], ...]

    @classmethod
    def of(cls, routes: Sequence[Route], read: Float[Tensor, "t m"]) -> "Mixture":
        return cls(
            tuple(
                (Chain(feed_forward(route.expert, read[route.tokens])), route.tokens, route.factor) for route in routes
            )
        )

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        total = torch.zeros_like(vectors)
        for expert, tokens, factor in self.experts:
            total.index_add_(1, tokens, expert.push(vectors[:, tokens], constants) * factor)
        return total

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        total = torch.zeros_like(covectors)
        for expert, tokens, factor in self.experts:
            total.index_add_(1, tokens, expert.pull(covectors[:, tokens] * factor, sums))
        return total

    def among(self, tokens: slice) -> "Mixture":
        first, last, _ = tokens.indices(1 + max(int(own[-1]) for _, own, _ in self.experts))
        kept = []
        for expert, own, factor in self.experts:
            part = slice(int((own < first).sum()), int((own < last).sum()))  # ascending
            if part.stop > part.start:
                kept.append((expert.among(part), own[part] - first, factor[part]))
        return Mixture(tuple(kept))


@dataclass(frozen=True, eq=False)
class Branches:
    """One block: two branches that join the residual stream, and the norms behind them."""

    attention: Chain
    past_attention: Chain
    feed_forward: Chain
    past_feed_forward: Chain
    parallel: bool

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        """M v, or M v + c."""
        middle = self.past_attention.push(vectors + self.attention.push(vectors, constants), constants)
        fed = self.feed_forward.push(vectors if self.parallel else middle, constants)
        return self.past_feed_forward.push(middle + fed, constants)

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        """u M; u c is added to the sums."""
        joined = self.past_feed_forward.pull(covectors, sums)
        fed = self.feed_forward.pull(joined, sums)
        middle = self.past_attention.pull(joined if self.parallel else joined + fed, sums)
        start = middle + self.attention.pull(middle, sums)
        return start + fed if self.parallel else start

    def among(self, tokens: slice) -> "Branches":
        names = ("attention", "past_attention", "feed_forward", "past_feed_forward")
        return replace(self, **{name: getattr(self, name).among(tokens) for name in names})


def normed(norm: Norm | None, states: Float[Tensor, "*t m"]) -> tuple[Step, ...]:
    """The norm at these states, if there is one."""
    return () if norm is None else (Normed(norm, norm.scale(states)),)


def feed_forward(forward: FeedForward, read: Float[Tensor, "*t m"]) -> tuple[Step, ...]:
    """The feed-forward at what it read."""
    down = Linear(forward.down)
    if forward.linear is not None:
        return Gated.of(forward, read), down
    before = forward.activated(read)
    return Linear(forward.activated), Activated.of(forward.activation, before), down


def add_constants(sums: Sums | None, covectors: Vectors, constants: Float[Tensor, " n"] | None) -> None:
    """u c of constants that are the same for every token."""
    if sums is not None and constants is not None:
        sums += covectors.sum(dim=1) @ constants


def mean_along_path(activation: Activation, before: Float[Tensor, "*_ n"]) -> Float[Tensor, "*_ n"]:
    """Integral of g(x a) over x from 0 to 1, by Gauss-Legendre in the root of x: the bend of g near zero is small."""
    places, weights = numpy.polynomial.legendre.leggauss(NODES[before.dtype])
    mean = torch.zeros_like(before)
    for root, weight in zip((places + 1) / 2, weights / 2, strict=True):
        mean.add_(activation(before * float(root**2)), alpha=float(2 * root * weight))
    return mean


def _away_from_zero(states: Tensor) -> Tensor:
    """The slope at zero is the slope next to it."""
    smallest = torch.finfo(states.dtype).eps
    return torch.where(states.abs() < smallest, smallest, states)
