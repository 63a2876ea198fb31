"""What a head can tell apart: orthonormal bases of the column space of T = V W_O, where A T is what a head gives.

T has the column space of V where both have full rank with room to spare, and heads that share V share that. Cholesky
factors of Gram matrices in float64 come first; an SVD settles what they leave in doubt.
"""

import functools
from dataclasses import dataclass

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from whence.models.block import Block
from whence.models.precision import single

# a Gram matrix squares the condition number; up to here float64 leaves six digits, ten after a second pass
TRUSTED = 1e5
# condition numbers of a slice of W_O up to which V may stand in for T; the tighter bound leaves fewer rows in doubt
ROOM = (8.0, 30.0)
# results of `room` by the image of a random vector under the weights: it would cost a short text more than all else
REMEMBERED = 4096
_rooms: dict[tuple[object, ...], float] = {}


@dataclass(frozen=True)
class Cut:
    """Which singular values count: above `tolerance` times the largest, eps * max(sources, head width) unless given.

    With `slack` the values are V in place of T = V W_O, whose condition number is up to so many times larger: what is
    certain of V with the slack is certain of T, and what is in doubt comes out as NaN.
    """

    tolerance: float | None
    dtype: torch.dtype
    slack: float = 1.0

    def limits(self, counts: Int[Tensor, "*n"], values: Tensor) -> Float[Tensor, "*n"]:
        """The smallest singular value that counts, relative to the largest."""
        if self.tolerance is not None:
            return torch.full_like(counts, self.slack * self.tolerance, dtype=torch.float64)
        return self.slack * torch.finfo(self.dtype).eps * counts.clamp(min=values.shape[-1]).double()


def cut_of(block: Block, tolerance: float | None) -> Cut:
    return Cut(tolerance, torch.promote_types(block.attention.dtype, torch.float32))


def outputs(block: Block) -> Float[Tensor, "b g s d"]:
    """T = V W_O of every head in as many columns as the head is wide; V where the family's projection is unknown.

    W_O^T = Q R with orthonormal columns in Q, so V R^T = T Q has the singular values and left singular vectors of T,
    whatever the rank of W_O. In float64: it may be much smaller than V and W_O.
    """
    if block.parts is None:
        return block.grouped_values.double()
    triangle = torch.linalg.qr(block.parts.projection.weight.double().mT, mode="r").R
    padding = triangle.shape[-1] - triangle.shape[-2]  # where the model is narrower than one head
    return einsum(block.values.double(), pad(triangle, (0, 0, 0, padding)), "b h s d, h e d -> b h s e")


def room(block: Block) -> float:
    """An upper bound on the condition number of every head's slice of W_O, one of ROOM; infinite beyond those."""
    if block.parts is None:
        return torch.inf
    weight = single(block.parts.projection.weight)
    image = (weight @ _direction(weight.shape[-1]).to(weight)).cpu().numpy().tobytes()
    key = (weight.shape, weight.dtype, image)
    if key not in _rooms:
        if len(_rooms) >= REMEMBERED:
            _rooms.clear()
        _rooms[key] = _room(weight)
    return _rooms[key]


def _room(weight: Float[Tensor, "h d m"]) -> float:
    gram, heads = (weight @ weight.mT).double(), torch.ones_like(weight[:, 0, 0], dtype=torch.float64)
    return next((bound for bound in ROOM if bool(certain(gram, heads / bound).all())), torch.inf)


@functools.cache
def _direction(width: int) -> Float[Tensor, " m"]:
    """Random, always the same: weights that changed in any way that matters send it elsewhere."""
    return torch.randn(width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def basis(values: Float[Tensor, "b g s d"], sources: Bool[Tensor, "b #g s"], cut: Cut) -> Float[Tensor, "b g s d"]:
    """Orthonormal columns that span those of the values over the given sources; columns past the rank are zero."""
    sources = rearrange(sources.expand(values.shape[:3]), "b g s -> (b g) s")
    counts = sources.sum(dim=-1)
    smallest = cut.limits(counts, values)
    flat = rearrange(values.double(), "b g s d -> (b g) s d")
    flat = flat if bool(sources.all()) else flat * sources[..., None]
    bases, sure = _first_guess(flat, sources, smallest, twice=cut.dtype == torch.float64)
    if cut.slack > 1:
        return rearrange(bases.masked_fill(~sure[:, None, None], torch.nan), "(b g) s d -> b g s d", b=values.shape[0])
    for index in (~sure).nonzero().flatten().tolist():
        bases[index, sources[index]] = settled(flat[index, sources[index]], smallest[index])
    return rearrange(bases, "(b g) s d -> b g s d", b=values.shape[0])


def trusted(condition: Float[Tensor, "*n"], smallest: Float[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
    """Whether the rank is certainly full, and a Gram matrix good enough."""
    return (condition * smallest < 1) & (condition < TRUSTED)


def certain(gram: Float[Tensor, "*n d d"], smallest: Float[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
    """The same, from G = V^T V alone: G - smallest^2 |G| has a Cholesky factor only if no eigenvalue is below."""
    floor = smallest.clamp(min=1 / TRUSTED).square() * torch.linalg.matrix_norm(gram)
    lowered = gram - torch.diag_embed(floor[..., None].expand(gram.shape[:-1]))
    return (torch.linalg.cholesky_ex(lowered).info == 0) & (floor > 0)


def inverse_factor(gram: Float[Tensor, "*n d d"]) -> tuple[Float[Tensor, "*n d d"], Float[Tensor, "*n"]]:
    """M with G^-1 = M^T M, and an upper bound on the condition number of V where G = V^T V."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    inverse = _lower_inverse(factor)
    condition = torch.linalg.matrix_norm(gram).sqrt() * torch.linalg.matrix_norm(inverse)
    return inverse, condition.nan_to_num(torch.inf).masked_fill(failed > 0, torch.inf)


def settled(values: Float[Tensor, "s d"], smallest: Float[Tensor, ""]) -> Float[Tensor, "s d"]:
    """A basis where the rank may fall short: one column per distinct value when those are independent, else by SVD."""
    equal = values.unique(dim=0, return_inverse=True)[1]
    classes = one_hot(equal).to(values.dtype)
    sizes, distinct = classes.sum(dim=0), values[classes.argmax(dim=0)]
    if len(distinct) <= values.shape[-1] and bool(certain(distinct @ distinct.T, smallest * sizes.max().sqrt())):
        columns = classes / sizes.sqrt()
    else:
        left, singular, _ = torch.linalg.svd(values, full_matrices=False)
        columns = left[:, singular > smallest * singular[0]]
    return pad(columns, (0, values.shape[-1] - columns.shape[1]))


def _first_guess(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"], smallest: Float[Tensor, " n"], twice: bool
) -> tuple[Float[Tensor, "n s d"], Bool[Tensor, " n"]]:
    """A basis, and whether it is sure; the number of sources decides on which side the Gram matrix is taken."""
    tall = sources.sum(dim=-1) > values.shape[-1]
    if bool(tall.all()):
        columns, condition = _tall(values, twice)
        return columns, trusted(condition, smallest)
    columns, sure = _units(values, sources), independent(values, sources, smallest)
    if bool(tall.any()):
        columns[tall], condition = _tall(values[tall], twice)
        sure[tall] = trusted(condition, smallest[tall])
    return columns, sure


def _tall(values: Float[Tensor, "n s d"], twice: bool) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """More sources than the head is wide: Q of V = Q R from the Cholesky factor of V^T V; again for its rounding."""
    inverse, condition = inverse_factor(values.mT @ values)
    columns = values @ inverse.mT
    if twice:
        columns = columns @ inverse_factor(columns.mT @ columns)[0].mT
    return columns, condition


def _units(values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"]) -> Float[Tensor, "n s d"]:
    """One unit vector per source: a basis when no more sources than the head is wide, and independent."""
    place = (sources.cumsum(dim=-1) - 1).clamp(0, values.shape[-1] - 1)
    return (one_hot(place, values.shape[-1]) * sources[..., None]).to(values.dtype)


def independent(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"], smallest: Float[Tensor, " n"]
) -> Bool[Tensor, " n"]:
    """Whether the values of the given sources are certainly independent; never, if they outnumber the head's width."""
    width = values.shape[-1]
    order = sources.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
    filled = sources.gather(1, order)
    packed = values.gather(1, repeat(order, "n w -> n w d", d=width)) * filled[..., None]
    gram, counts = packed @ packed.mT, sources.sum(dim=-1)
    size = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / counts
    gram += torch.diag_embed(torch.where(filled, 0, size.nan_to_num(1)[:, None]))
    return certain(gram, smallest) & (counts <= width)


def _lower_inverse(factor: Float[Tensor, "*n d d"]) -> Float[Tensor, "*n d d"]:
    """The inverse of lower triangles by halves: a few large products, where LAPACK would start threads per matrix."""
    size = factor.shape[-1]
    if size <= 1:
        return factor.reciprocal()
    if size % 2:
        grown = pad(factor, (0, 1, 0, 1))
        grown[..., -1, -1] = 1
        return _lower_inverse(grown)[..., :-1, :-1]
    half = size // 2
    upper, lower = _lower_inverse(torch.stack([factor[..., :half, :half], factor[..., half:, half:]]))
    corner = -lower @ factor[..., half:, :half] @ upper
    return torch.cat([pad(upper, (0, half)), torch.cat([corner, lower], dim=-1)], dim=-2)
