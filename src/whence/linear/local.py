"""Exact Frobenius norms of one block's derivative, at a cost linear in the number of tokens but for small matrices.

Off the diagonal token j reaches token i by attention alone. In the notation of `matrices`, heads side by side,

    J_ij = G_ij W_i,    G_ij^h = A^h_ij V_j^h + g^h_ij (K_j^h q_i^h) (v_j^h - c_i^h)^T,

so |J_ij|^2 = sum_hf tr(G^h P_i^hf G^f^T) with P_i = W_i W_i^T needs only P_i and the products V_j^T V_j, V_j^T K_j and
K_j^T K_j: O(s m^3) for the matrices, O(s^2 m^2) for the pairs; pushing every direction of every token is O(s^2 m^3).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from whence.linear import cost
from whence.linear.matrices import Matrices, bytes_of, matrices
from whence.linear.tangent import by_parts
from whence.models.frozen import FrozenBlock


def local_frobenius(step: FrozenBlock, chunk: int, memory: int) -> Float[Tensor, "t s"] | None:
    """|d h^l_i / d h^(l-1)_j| of one block; None where it cannot be multiplied out within the memory."""
    if not multiplies_out(step, memory):
        return None
    block = matrices(step, by_parts(step), chunk)
    return None if block is None else _norms(_Heads.of(block), block, min(cost.PAIRS, memory // cost.PAIRS_SHARE))


def multiplies_out(step: FrozenBlock, memory: int) -> bool:
    """Whether the memory holds the matrices of one block and what its norms are made of."""
    return step.attended is not None and 3 * bytes_of(step) <= memory


@dataclass(frozen=True, eq=False)
class _Heads:
    """The maps by head: `h` and `f` heads, `d` the width of keys, `e` and `g` that of values.

    Maps of keys and values that all tokens share are there once, and so is all that is made of them.
    """

    query: Float[Tensor, "h t d"]
    value: Float[Tensor, "h t e"]
    mixed: Float[Tensor, "h t e"]
    weights: Float[Tensor, "h t s"]
    gain: Float[Tensor, "h t s"]
    keys: Float[Tensor, "x m h d"]
    values: Float[Tensor, "x m h e"]

    @classmethod
    def of(cls, block: Matrices) -> "_Heads":
        attended = block.attended
        groups, shared = attended.query.shape[:2]
        flat = [
            rearrange(part, "g r t x -> (g r) t x")
            for part in (attended.query, attended.mixed, attended.weights, attended.gain)
        ]
        keys, values = (
            rearrange(_distinct(maps), "s m (g d) -> s m g d", g=groups).repeat_interleave(shared, dim=2)
            for maps in (block.keys, block.values)
        )
        value = attended.value.repeat_interleave(shared, dim=0)
        return cls(flat[0], value, flat[1], flat[2], flat[3], keys, values)


def _distinct(maps: Float[Tensor, "s m p"]) -> Float[Tensor, "x m p"]:
    return maps[:1] if maps.stride(0) == 0 else maps


def _norms(heads: _Heads, block: Matrices, work: int) -> Float[Tensor, "t s"]:
    write = rearrange(block.write, "t (h e) m -> t h e m", h=len(heads.query))
    reach = einsum(write, write, "t h e m, t f g m -> t h f e g")
    squares = torch.cat([_squares(heads, reach, part) for part in _parts(heads, work)], dim=1)
    own = torch.linalg.matrix_norm(_own(heads, block))
    squares.diagonal().copy_(own.square())
    return squares.clamp_(min=0).sqrt_()


def _parts(heads: _Heads, work: int) -> Iterator[slice]:
    count, tokens, width = heads.value.shape
    size = max(1, work // (heads.value.element_size() * tokens * count * count * width))
    return (slice(begin, begin + size) for begin in range(0, tokens, size))


def _squares(heads: _Heads, reach: Float[Tensor, "t h f e g"], sources: slice) -> Float[Tensor, "t s"]:
    """sum_hf tr(G^h P^hf G^f^T): values with values, values with scores twice, scores with scores."""
    keys, values = (maps if len(maps) == 1 else maps[sources] for maps in (heads.keys, heads.values))
    weights, gain = heads.weights[..., sources], heads.gain[..., sources]
    moved = rearrange(heads.value[:, None, sources] - heads.mixed[:, :, None], "h t s e -> t s h e")
    arrived = einsum(reach, moved, "t h f e g, t s f g -> t s h f e")
    both = einsum(values, keys, "s m h e, s m f d -> s h f e d")
    between = einsum(both, heads.query, "s h f e d, f t d -> t s h f e")
    between = (between * arrived).sum(dim=-1)
    arrived = einsum(arrived, moved, "t s h f e, t s h e -> t s h f")
    scored = einsum(keys, heads.query, "s m h d, h t d -> t s h m")
    scored = einsum(scored, scored, "t s h m, t s f m -> t s h f")
    valued = einsum(values, values, "s m h e, s m f g -> s h f e g")
    valued = einsum(reach, valued, "t h f e g, s h f e g -> t s h f")
    return (
        einsum(weights, weights, valued, "h t s, f t s, t s h f -> t s")
        + 2 * einsum(weights, gain, between, "h t s, f t s, t s h f -> t s")
        + einsum(gain, gain, scored * arrived, "h t s, f t s, t s h f -> t s")
    )


def _own(heads: _Heads, block: Matrices) -> Float[Tensor, "t w m"]:
    """J_ii = O_i + G_ii W_i."""
    weights, gain = (part.diagonal(dim1=1, dim2=2) for part in (heads.weights, heads.gain))
    scored = einsum(heads.keys, heads.query, gain, "t m h d, h t d, h t -> t m h")
    moved = rearrange(heads.value - heads.mixed, "h t e -> t 1 h e")
    carried = (heads.values * rearrange(weights, "h t -> t 1 h 1")).addcmul_(scored[..., None], moved)
    return torch.baddbmm(block.own, rearrange(carried, "t m h e -> t m (h e)"), block.write)
