"""What each token of either text gives each target in a decoder's block that attends to an encoder as well.

Columns are the encoder's tokens, then the decoder's. The vectors are those of one total: what a token carried through
its own attention, past the norm behind it, and what came from the encoder's states, which joins there.

attn_w       half of the mean weight of either attention
attn_n       |sum_h A^h_ij f_h(x_j)| of either attention, before any norm
attnres_w    the first attention with half of its weight for the residual, then the second with the same
attnres_n    |z_ij|, z_ij = L1 (sum_h A^h_ij f_h(x_j) + [i = j] x_i) of the decoder's tokens, and of the encoder's what
             is under attn_n
attnresln_n  |L2 z_ij|, L2 the norm behind the second attention at this target, where there is one

L1 is the norm behind the first attention, where there is one, with the scale it had. With the projections' biases and
the norms' shifts the vectors of attnresln_n add up to the state between attention and feed-forward.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from whence.linear.secant import fed_and_finished
from whence.linear.steps import Chain
from whence.measures.norms.grams import Lengths, lengths
from whence.measures.norms.rollout import shares
from whence.measures.norms.vectors import BUDGET, anatomy_of, chunks, own, total
from whence.models.block import Block
from whence.models.precision import single
from whence.models.weights import CrossParts, Norm, Norms

NAMES = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
Vectors = Float[Tensor, "b t m"]


@dataclass(frozen=True)
class Total:
    """The three terms of each target's vector, in one analysis: itself, the rest of the prefix, the source text."""

    itself: Vectors
    prefix: Vectors
    source: Vectors

    def through(self, change: Callable[[Vectors], Vectors]) -> "Total":
        return Total(change(self.itself), change(self.prefix), change(self.source))

    @property
    def mixing(self) -> Float[Tensor, "b t"]:
        """|prefix + source| / (|prefix + source| + |itself|)."""
        return _part(self.prefix + self.source, self.itself)

    @property
    def from_source(self) -> Float[Tensor, "b t"]:
        """|source| / (|source| + |prefix + itself|)."""
        return _part(self.source, self.prefix + self.itself)


@dataclass(frozen=True, eq=False)
class Ground:
    """A decoder's block with what maps and ratios are made of."""

    block: Block

    @classmethod
    def of(cls, block: Block) -> "Ground":
        return cls(single(block))

    @cached_property
    def crossing(self) -> Block:
        return self.block.crossing

    @property
    def cross(self) -> CrossParts:
        parts = anatomy_of(self.block)
        assert parts.cross is not None
        return parts.cross

    @property
    def first(self) -> Norm | None:
        return anatomy_of(self.block).attention_norms.after

    @property
    def second(self) -> Norm | None:
        return self.cross.attention_norms.after

    def past_first(self, vectors: Vectors) -> Vectors:
        """Past the norm behind the first attention, with its scale."""
        return vectors if self.first is None else self.first.linear(vectors) * self.first.scale(self.block.before_norm)

    def past_second(self, vectors: Vectors) -> Vectors:
        return vectors if self.second is None else self.second.linear(vectors) * self.second.scale(self.block.joined)

    @cached_property
    def totals(self) -> dict[str, Total]:
        """By analysis, of those with vectors."""
        itself, source = own(self.block), total(self.crossing)
        prefix = total(self.block) - itself
        joined = Total(self.past_first(itself + self.block.input), self.past_first(prefix), source)
        past = joined if self.second is None else joined.through(self.past_second)
        return {"attn_n": Total(itself, prefix, source), "attnres_n": joined, "attnresln_n": past}

    @cached_property
    def weights(self) -> tuple[Float[Tensor, "b t s"], Float[Tensor, "b t p"]]:
        """Mean of the heads, of the encoder's tokens and of the decoder's."""
        return self.crossing.attention.mean(dim=1), self.block.attention.mean(dim=1)

    @cached_property
    def of_source(self) -> Lengths:
        return lengths(self.crossing)

    @cached_property
    def of_prefix(self) -> Lengths:
        """Before any norm; the same as behind them where there is none."""
        return lengths(self._with_norms(None, None))

    @cached_property
    def of_prefix_past(self) -> Lengths:
        """Past the first norm's linear part, and past both."""
        return (
            self.of_prefix if self.first is self.second is None else lengths(self._with_norms(self.first, self.second))
        )

    def _with_norms(self, before: Norm | None, after: Norm | None) -> Block:
        """Its own attention, the projection past the linear part of one norm, and another norm behind it."""
        parts = anatomy_of(self.block)
        weight = parts.projection.weight if before is None else before.linear(parts.projection.weight)
        changed = replace(
            parts, projection=replace(parts.projection, weight=weight), attention_norms=Norms(after=after)
        )
        return replace(self.block, parts=changed, cross=None)


def maps(block: Block, names: Iterable[str] = NAMES) -> dict[str, Float[Tensor, "b t sources"]]:
    """The named maps of one text and its prefix."""
    ground = Ground.of(block)
    return {name: torch.cat(MAPS[name](ground), dim=-1) for name in names}


def mixing(block: Block, name: str = "mixing") -> Float[Tensor, "b analysis t"]:
    """Share of each target's new vector that came from any other token; or that came `from_source`, by five analyses.

    r_i = |prefix + source| / (|prefix + source| + |itself|): norms of sums (Kobayashi et al. 2021).
    """
    ground = Ground.of(block)
    itself = ground.block.own_weights.mean(dim=1)
    by_weight = {"mixing": (1 - itself / 2, 1 - (1 + itself) / 4), "from_source": (itself * 0 + 0.5, itself * 0 + 0.5)}
    weights = dict(zip(("attn_w", "attnres_w"), by_weight[name], strict=True))
    ratios = weights | {analysis: getattr(total, name) for analysis, total in ground.totals.items()}
    return torch.stack([ratios[analysis] for analysis in NAMES], dim=1)


def block_norms(block: Block, budget: int = BUDGET) -> Float[Tensor, "b t sources"]:
    """|N_i z_ij|, N_i the feed-forward with its residual and norm at target i (Kobayashi et al. 2024)."""
    ground = Ground.of(block)
    fed, finished = _chains(ground)
    parts = [_through(vectors, fed, finished).norm(dim=-1).T for vectors in _vectors(ground, budget)]
    return torch.cat(parts, dim=-1)[None]


def block_mixing(block: Block, name: str = "mixing") -> Float[Tensor, "b t"]:
    """The ratio past the whole block."""
    ground = Ground.of(block)
    chains = _chains(ground)
    return getattr(ground.totals["attnresln_n"].through(lambda vectors: _through(vectors, *chains)), name)


def alti(block: Block, budget: int = BUDGET) -> Float[Tensor, "b t sources"]:
    """Share of each source in the state between attention and feed-forward (Ferrando et al. 2022).

    c_ij = max(0, |y_i|_1 - |y_i - z_ij|_1), rows over both texts normalised.
    """
    ground = Ground.of(block)
    state = ground.block.middle[0]
    whole = state.norm(p=1, dim=-1)
    parts = [(whole - (state - vectors).norm(p=1, dim=-1)).clamp(min=0).T for vectors in _vectors(ground, budget)]
    return shares(torch.cat(parts, dim=-1)[None])


def _part(taken: Vectors, kept: Vectors) -> Float[Tensor, "b t"]:
    mixed, left = taken.norm(dim=-1), kept.norm(dim=-1)
    return mixed / (mixed + left)


def _attn_w(ground: Ground) -> tuple[Tensor, Tensor]:
    source, prefix = ground.weights
    return source / 2, prefix / 2


def _attnres_w(ground: Ground) -> tuple[Tensor, Tensor]:
    source, prefix = ground.weights
    return source / 2, (prefix + torch.eye(prefix.shape[-1], dtype=prefix.dtype, device=prefix.device)) / 4


def _attn_n(ground: Ground) -> tuple[Tensor, Tensor]:
    return ground.of_source.plain, ground.of_prefix.plain


def _attnres_n(ground: Ground) -> tuple[Tensor, Tensor]:
    return ground.of_source.plain, _with_own(
        ground, ground.of_prefix_past.plain, "attnres_n", _scale(ground.first, ground.block)
    )


def _attnresln_n(ground: Ground) -> tuple[Tensor, Tensor]:
    if ground.second is None:
        return _attnres_n(ground)
    behind = ground.second.scale(ground.block.joined)
    scale = _scale(ground.first, ground.block) * behind
    return ground.of_source.normed * behind, _with_own(ground, ground.of_prefix_past.normed, "attnresln_n", scale)


def _scale(norm: Norm | None, block: Block) -> Tensor | float:
    return 1.0 if norm is None else norm.scale(block.before_norm)


def _with_own(ground: Ground, cells: Tensor, analysis: str, scale: Tensor | float) -> Tensor:
    return ground.block.on_own(cells * scale, ground.totals[analysis].itself.norm(dim=-1))


MAPS: dict[str, Callable[[Ground], tuple[Tensor, Tensor]]] = {
    "attn_w": _attn_w,
    "attn_n": _attn_n,
    "attnres_w": _attnres_w,
    "attnres_n": _attnres_n,
    "attnresln_n": _attnresln_n,
}


def _vectors(ground: Ground, budget: int) -> Iterator[Float[Tensor, "s t m"]]:
    """The vectors of attnresln_n: all targets' of a few sources at a time, the encoder's before the decoder's."""
    sides = ((ground.crossing, lambda vectors: vectors), (ground.block, ground.past_first))
    for block, past in sides:
        weight, (targets, sources) = anatomy_of(block).projection.weight, block.attention.shape[-2:]
        for chunk in chunks(sources, max(1, budget // (targets * weight.shape[-1]))):
            written = einsum(block.values[0, :, chunk], weight, "h s d, h d m -> h s m")
            vectors = einsum(block.attention[0, :, :, chunk], written, "h t s, h s m -> s t m")
            if block is ground.block:
                places = torch.arange(chunk.start, chunk.stop, device=vectors.device)
                vectors[places - chunk.start, places] += block.input[0, chunk]
            yield ground.past_second(past(vectors))


def _chains(ground: Ground) -> tuple[Chain, Chain]:
    block = ground.block
    return fed_and_finished(anatomy_of(block), block.input[0], block.middle[0])


def _through(vectors: Float[Tensor, "k t m"], fed: Chain, finished: Chain) -> Float[Tensor, "k t m"]:
    return finished.push(vectors + fed.push(vectors))
