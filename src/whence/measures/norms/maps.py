"""The length of the vector that each source gives each target in the attention part of a block, and how much of a
token's new vector came from others (Kobayashi et al. 2020, 2021).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.norms.grams import Lengths, lengths
from whence.measures.norms.vectors import anatomy_of, branched, own, projected_of, total
from whence.models.block import Block
from whence.models.precision import single

NAMES = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
WEIGHTS = frozenset({"attn_w", "attnres_w"})
JOINED = frozenset({"attnres_n", "attnresln_n"})  # vectors with the residual

# of one analysis: lengths of what a token kept, |z_ii|, and of what it took from others, |sum_{j != i} z_ij|
Shares = tuple[Float[Tensor, "b t"], Float[Tensor, "b t"]]


def maps(block: Block, mask: Bool[Tensor, "b s"], names: Iterable[str] = NAMES) -> dict[str, Float[Tensor, "b t s"]]:
    """The named maps, zero at padding (Kobayashi et al. 2020, 2021).

    attn_w       mean_h A^h_ij
    attn_n       |sum_h A^h_ij f_h(x_j)|
    attnres_w    0.5 mean_h A^h_ij + 0.5 [i = j]
    attnres_n    |z_ij|, z_ij = branch(sum_h A^h_ij f_h(x_j)) + [i = j] x_i
    attnresln_n  |weight * (z_ij - mean z_ij)| / std_i where a norm follows the residual, else the same as attnres_n

    The value's bias is inside f; the projection's bias and the norm's shift belong to no source.
    """
    return maps_and_mixing(block, mask, names, ())


def mixing(block: Block, mask: Bool[Tensor, "b s"], analyses: Sequence[str] = NAMES) -> Float[Tensor, "b analysis t"]:
    """Share of each token's new vector that came from other tokens, zero at padding (Kobayashi et al. 2021).

    r_i = |sum_{j != i} z_ij| / (|sum_{j != i} z_ij| + |z_ii|): the norm of the sum. For weights, what is off the
    diagonal. Needs no map: the sum is the captured output of the projection less what the token gave itself.
    """
    return maps_and_mixing(block, mask, (), analyses)["mixing"]


def maps_and_mixing(
    block: Block, mask: Bool[Tensor, "b s"], names: Iterable[str] = NAMES, analyses: Sequence[str] = NAMES
) -> dict[str, Tensor]:
    """The named maps and, if analyses are given, "mixing"; what they share is computed once."""
    mask, names = mask.to(block.input.device), tuple(names)
    ground = _ground(single(block), frozenset(names), frozenset(analyses))
    named = {name: MAPS[name](ground) for name in names}
    padding = None if bool(mask.all()) else (~block.of_targets(mask), ~mask)
    if padding is not None:
        outside = padding[0][:, :, None] | padding[1][:, None]
        named = {name: values.masked_fill(outside, 0) for name, values in named.items()}
    if analyses:
        ratios = torch.stack([_ratio(name, ground) for name in analyses], dim=1)
        named["mixing"] = ratios if padding is None else ratios.masked_fill(padding[0][:, None], 0)
    return named


def head_norms(block: Block, mask: Bool[Tensor, "b s"]) -> Float[Tensor, "b h t s"]:
    """Length of what each head carries from source to target, zero at padding (Kobayashi et al. 2020).

    |A^h_ij f_h(x_j)| = A^h_ij sqrt(v^h_j (W_h W_h^T) v^h_j).
    """
    block, mask = single(block), mask.to(block.input.device)
    weight = anatomy_of(block).projection.weight
    inner = einsum(weight, weight, "h d m, h e m -> h d e")
    squares = einsum(block.values, inner, block.values, "b h s d, h d e, b h s e -> b h s")
    carried = block.attention * squares.clamp(min=0).sqrt()[:, :, None]
    return carried.masked_fill(~(block.of_targets(mask)[:, None, :, None] & mask[:, None, None, :]), 0)


@dataclass(frozen=True)
class _Ground:
    """What maps and ratios are made of; None where no map or ratio needs it."""

    block: Block
    weights: Float[Tensor, "b t s"] | None
    own_weights: Float[Tensor, "b t"] | None
    pairs: Lengths | None
    shares: dict[str, Shares]


def _ground(block: Block, names: frozenset[str], analyses: frozenset[str]) -> _Ground:
    weights, own_weights = _weights(block) if (names | analyses) & WEIGHTS else (None, None)
    pairs = lengths(block) if names - WEIGHTS else None
    shares = {}
    if (names & JOINED) | (analyses - WEIGHTS):
        shares = _shares(block, own(block) if pairs is None else pairs.own)
    return _Ground(block, weights, own_weights, pairs, shares)


def _weights(block: Block) -> tuple[Float[Tensor, "b t s"], Float[Tensor, "b t"]]:
    """Mean of the heads, and that of the targets' own weights, to the last digit the same where there is a map."""
    weights = block.attention.mean(dim=1)
    if block.margins is None:
        return weights, weights.diagonal(dim1=-2, dim2=-1)
    return weights, block.own_weights.mean(dim=1)


def _shares(block: Block, to_itself: Float[Tensor, "b t m"]) -> dict[str, Shares]:
    """Kept and taken, of each analysis with vectors; past a norm after the residual without its 1 / std_i."""
    from_others = total(block) - to_itself
    vectors = torch.stack([branched(block, to_itself) + block.input, branched(block, from_others)])
    after = anatomy_of(block).attention_norms.after
    joined = vectors.norm(dim=-1).unbind()
    past = joined if after is None else after.linear(vectors).norm(dim=-1).unbind()
    return {"attn_n": (to_itself.norm(dim=-1), from_others.norm(dim=-1)), "attnres_n": joined, "attnresln_n": past}


def _ratio(analysis: str, ground: _Ground) -> Float[Tensor, "b t"]:
    if analysis in WEIGHTS:
        assert ground.own_weights is not None
        taken = 1 - ground.own_weights
        return taken if analysis == "attn_w" else taken / 2
    kept, taken = ground.shares[analysis]
    return taken / (taken + kept)


def _attn_w(ground: _Ground) -> Float[Tensor, "b t s"]:
    assert ground.weights is not None
    return ground.weights


def _attnres_w(ground: _Ground) -> Float[Tensor, "b t s"]:
    assert ground.own_weights is not None
    return ground.block.on_own(_attn_w(ground) / 2, ground.own_weights / 2 + 0.5)


def _attn_n(ground: _Ground) -> Float[Tensor, "b t s"]:
    assert ground.pairs is not None
    return ground.pairs.plain


def _attnres_n(ground: _Ground) -> Float[Tensor, "b t s"]:
    assert ground.pairs is not None
    parts = anatomy_of(ground.block)
    inside = parts.attention_norms.inside
    norms = ground.pairs.plain if inside is None else ground.pairs.normed * inside.scale(projected_of(ground.block))
    return ground.block.on_own(norms * abs(parts.residual_scale), ground.shares["attnres_n"][0])


def _attnresln_n(ground: _Ground) -> Float[Tensor, "b t s"]:
    assert ground.pairs is not None
    parts = anatomy_of(ground.block)
    after = parts.attention_norms.after
    if after is None:
        return _attnres_n(ground)
    norms = ground.block.on_own(ground.pairs.normed * abs(parts.residual_scale), ground.shares["attnresln_n"][0])
    return norms.mul_(after.scale(ground.block.before_norm))


MAPS: dict[str, Callable[[_Ground], Tensor]] = {
    "attn_w": _attn_w,
    "attn_n": _attn_n,
    "attnres_w": _attnres_w,
    "attnres_n": _attnres_n,
    "attnresln_n": _attnresln_n,
}
