"""What a head can tell apart: orthonormal bases of the column space of the values it reads.

A head gives A T with T = V W_O. T has the column space of V where the head's slice of W_O has full row rank, so the
small V is enough. Cholesky factors of Gram matrices in float64 come first; an SVD settles what they leave in doubt.
"""

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from whence.models.trace import Block

# a Gram matrix squares the condition number; up to here float64 leaves six digits, ten after a second pass
TRUSTED = 1e5
# the same for a Gram matrix in float32 that only has to show full rank; output projections are around 10
PLAIN = 3e2


def readable(block: Block) -> Float[Tensor, "b g s d"]:
    """The values, without what the output projection drops: V, or V B B^T with B spanning the columns of W_O.

    One matrix per group of heads; one per head where a slice of W_O lacks rank, for then sharing heads differ.
    """
    values = at_least_single(block.grouped_values)
    if block.parts is None:
        return values
    weight = at_least_single(block.parts.projection.weight)
    if bool((inverse_factor((weight @ weight.mT).double())[1] < PLAIN).all()):
        return values
    left, sizes, _ = torch.linalg.svd(weight.double(), full_matrices=False)
    kept = left * (sizes > torch.finfo(weight.dtype).eps * max(weight.shape[1:]) * sizes[:, :1])[:, None]
    return einsum(at_least_single(block.values), (kept @ kept.mT).to(values), "b h s d, h d e -> b h s e")


def at_least_single(tensor: Tensor) -> Tensor:
    """Half precision is read as float32; the rest stays what it is."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def basis(
    values: Float[Tensor, "b g s d"], sources: Bool[Tensor, "b #g s"], tolerance: float | None = None
) -> Float[Tensor, "b g s d"]:
    """Orthonormal columns that span those of the values over the given sources; columns past the rank are zero."""
    sources = rearrange(sources.expand(values.shape[:3]), "b g s -> (b g) s")
    counts = sources.sum(dim=-1)
    smallest = limits(tolerance, counts, values)
    flat = rearrange(values.double(), "b g s d -> (b g) s d")
    flat = flat if bool(sources.all()) else flat * sources[..., None]
    out, condition = _first_guess(flat, sources, twice=values.dtype == torch.float64)
    for index in (~trusted(condition, smallest)).nonzero().flatten().tolist():
        out[index, sources[index]] = settled(flat[index, sources[index]], smallest[index])
    return rearrange(out, "(b g) s d -> b g s d", b=values.shape[0])


def limits(tolerance: float | None, counts: Int[Tensor, "*n"], values: Tensor) -> Float[Tensor, "*n"]:
    """The smallest singular value that counts, relative to the largest: eps * max(sources, head width) unless given."""
    if tolerance is not None:
        return torch.full_like(counts, tolerance, dtype=torch.float64)
    return torch.finfo(values.dtype).eps * counts.clamp(min=values.shape[-1]).double()


def trusted(condition: Float[Tensor, "*n"], smallest: Float[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
    """Whether the rank is certainly full, and a Gram matrix good enough."""
    return (condition * smallest < 1) & (condition < TRUSTED)


def inverse_factor(gram: Float[Tensor, "*n d d"]) -> tuple[Float[Tensor, "*n d d"], Float[Tensor, "*n"]]:
    """M with G^-1 = M^T M, and a bound from above on the condition number of V where G = V^T V."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    inverse = _lower_inverse(factor)
    condition = torch.linalg.matrix_norm(gram).sqrt() * torch.linalg.matrix_norm(inverse)
    return inverse, condition.nan_to_num(torch.inf).masked_fill(failed > 0, torch.inf)


def settled(values: Float[Tensor, "s d"], smallest: Float[Tensor, ""]) -> Float[Tensor, "s d"]:
    """A basis where the rank may fall short: one column per distinct value when those are independent, else by SVD."""
    equal = values.unique(dim=0, return_inverse=True)[1]
    classes = one_hot(equal).to(values.dtype)
    sizes, distinct = classes.sum(dim=0), values[classes.argmax(dim=0)]
    condition = inverse_factor(distinct @ distinct.T)[1] * sizes.max().sqrt()
    if bool(trusted(condition, smallest)):
        columns = classes / sizes.sqrt()
    else:
        left, singular, _ = torch.linalg.svd(values, full_matrices=False)
        columns = left[:, singular > smallest * singular[0]]
    return pad(columns, (0, values.shape[-1] - columns.shape[1]))


def _first_guess(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"], twice: bool
) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """A basis that holds if the condition number is small; the sources decide on which side the Gram matrix is."""
    counts, width = sources.sum(dim=-1), values.shape[-1]
    if bool((counts > width).all()):
        return _tall(values, twice)
    columns, condition = unit_basis(values, sources)
    tall = counts > width
    if bool(tall.any()):
        columns[tall], condition[tall] = _tall(values[tall], twice)
    return columns, condition


def _tall(values: Float[Tensor, "n s d"], twice: bool) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """More sources than the head is wide: Q of V = Q R from the Cholesky factor of V^T V; again for its rounding."""
    inverse, condition = inverse_factor(values.mT @ values)
    columns = values @ inverse.mT
    if twice:
        columns = columns @ inverse_factor(columns.mT @ columns)[0].mT
    return columns, condition


def unit_basis(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"]
) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """At most as many sources as the head is wide: if their values are independent, unit vectors are a basis."""
    width, place = values.shape[-1], sources.cumsum(dim=-1) - 1
    units = one_hot(place.clamp(0, width - 1), width) * sources[..., None]
    order = sources.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
    filled = sources.gather(1, order)
    packed = values.gather(1, repeat(order, "n w -> n w d", d=width)) * filled[..., None]
    gram = packed @ packed.mT
    size = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / filled.sum(dim=-1)
    gram += torch.diag_embed(torch.where(filled, 0, size.nan_to_num(1)[:, None]))
    return units.to(values.dtype), inverse_factor(gram)[1]


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
