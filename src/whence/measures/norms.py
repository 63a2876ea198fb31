"""How long the vector is that each source gives each target in the attention part of a block, and how much of a
token's new vector came from others (Kobayashi et al. 2020, 2021).
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.grams import Lengths, lengths
from whence.measures.vectors import anatomy_of, branched, own, single, total
from whence.models.trace import Block

NAMES = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
WEIGHTS = frozenset({"attn_w", "attnres_w"})

# of one method: lengths of what a token kept, |z_ii|, and of what it took from others, |sum_{j != i} z_ij|
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


def mixing(block: Block, mask: Bool[Tensor, "b s"], methods: Sequence[str] = NAMES) -> Float[Tensor, "b method t"]:
    """Share of each token's new vector that came from other tokens, zero at padding (Kobayashi et al. 2021).

    r_i = |sum_{j != i} z_ij| / (|sum_{j != i} z_ij| + |z_ii|): the norm of the sum. For weights, what is off the
    diagonal. Needs no map: the sum is the captured output of the projection less what the token gave itself.
    """
    return maps_and_mixing(block, mask, (), methods)["mixing"]


def maps_and_mixing(
    block: Block, mask: Bool[Tensor, "b s"], names: Iterable[str] = NAMES, methods: Sequence[str] = NAMES
) -> dict[str, Tensor]:
    """The named maps and, if methods are given, "mixing"; what they share is computed once."""
    block, names, mask = single(block), tuple(names), mask.to(block.input.device)
    pairs = None if WEIGHTS.issuperset(names) else lengths(block)
    shares = {} if WEIGHTS.issuperset({*names, *methods}) else _shares(block, own(block) if pairs is None else pairs.own)
    padded = ~(mask[:, :, None] & mask[:, None, :])
    found = {name: MAPS[name](block, pairs, shares).masked_fill(padded, 0) for name in names}
    if methods:
        ratios = torch.stack([_ratio(name, block, shares) for name in methods], dim=1)
        found["mixing"] = ratios.masked_fill(~mask[:, None], 0)
    return found


def head_norms(block: Block, mask: Bool[Tensor, "b s"]) -> Float[Tensor, "b h t s"]:
    """Length of what each head carries from source to target, zero at padding (Kobayashi et al. 2020).

    |A^h_ij f_h(x_j)| = A^h_ij sqrt(v^h_j (W_h W_h^T) v^h_j).
    """
    block, mask = single(block), mask.to(block.input.device)
    weight = anatomy_of(block).projection.weight
    inner = einsum(weight, weight, "h d m, h e m -> h d e")
    squares = einsum(block.values, inner, block.values, "b h s d, h d e, b h s e -> b h s")
    carried = block.attention * squares.clamp(min=0).sqrt()[:, :, None]
    return carried.masked_fill(~(mask[:, None, :, None] & mask[:, None, None, :]), 0)


def _shares(block: Block, given: Float[Tensor, "b t m"]) -> dict[str, Shares]:
    """Kept and taken, of each method with vectors; past a norm after the residual without its 1 / std_i."""
    others = total(block) - given
    kept, taken = branched(block, given) + block.input, branched(block, others)
    found = {"attn_n": _both(given, others), "attnres_n": _both(kept, taken)}
    after = anatomy_of(block).attention_norms.after
    past = found["attnres_n"] if after is None else _both(after.linear(kept), after.linear(taken))
    return found | {"attnresln_n": past}


def _both(kept: Float[Tensor, "b t m"], taken: Float[Tensor, "b t m"]) -> Shares:
    return kept.norm(dim=-1), taken.norm(dim=-1)


def _ratio(method: str, block: Block, shares: dict[str, Shares]) -> Float[Tensor, "b t"]:
    if method in WEIGHTS:
        taken = 1 - block.attention.diagonal(dim1=-2, dim2=-1).mean(dim=1)
        return taken if method == "attn_w" else taken / 2
    kept, taken = shares[method]
    return taken / (taken + kept)


def _attn_w(block: Block, pairs: Lengths | None, shares: dict[str, Shares]) -> Float[Tensor, "b t s"]:
    return block.attention.mean(dim=1)


def _attnres_w(block: Block, pairs: Lengths | None, shares: dict[str, Shares]) -> Float[Tensor, "b t s"]:
    halved = block.attention.mean(dim=1) / 2
    halved.diagonal(dim1=-2, dim2=-1).add_(0.5)
    return halved


def _attn_n(block: Block, pairs: Lengths | None, shares: dict[str, Shares]) -> Float[Tensor, "b t s"]:
    assert pairs is not None
    return pairs.plain


def _attnres_n(block: Block, pairs: Lengths | None, shares: dict[str, Shares]) -> Float[Tensor, "b t s"]:
    assert pairs is not None
    parts = anatomy_of(block)
    inside = parts.attention_norms.inside
    found = pairs.plain if inside is None else pairs.normed * inside.scale(block.projected)
    found = found * abs(parts.residual_scale)
    found.diagonal(dim1=-2, dim2=-1).copy_(shares["attnres_n"][0])
    return found


def _attnresln_n(block: Block, pairs: Lengths | None, shares: dict[str, Shares]) -> Float[Tensor, "b t s"]:
    assert pairs is not None
    parts = anatomy_of(block)
    after = parts.attention_norms.after
    if after is None:
        return _attnres_n(block, pairs, shares)
    found = pairs.normed * abs(parts.residual_scale)
    found.diagonal(dim1=-2, dim2=-1).copy_(shares["attnresln_n"][0])
    return found * after.scale(block.before_norm)


MAPS: dict[str, Callable[[Block, Lengths | None, dict[str, Shares]], Tensor]] = {
    "attn_w": _attn_w,
    "attn_n": _attn_n,
    "attnres_w": _attnres_w,
    "attnres_n": _attnres_n,
    "attnresln_n": _attnresln_n,
}
