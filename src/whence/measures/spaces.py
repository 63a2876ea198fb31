"""What a head's output depends on: the part of a row of weights inside the column space of the values it reads.

A head gives A T with T = V W_O. T has the column space of V where the head's slice of W_O has full row rank, so the
small V is enough. Gram matrices in float64 come first; an SVD settles what they leave in doubt.
"""

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.models.trace import Block

# a Gram matrix squares the condition number: up to here float64 still leaves ten digits after the second pass
TRUSTED = 1e5
# targets solved at once: their d x d matrices stay in cache
CHUNK = 64


def support(block: Block, mask: Bool[Tensor, "b s"]) -> Bool[Tensor, "b #h t s"]:
    """Which sources each target sees: real tokens the mask lets through; padding sees and is seen by nothing."""
    real = mask[:, None, :, None] & mask[:, None, None, :]
    return real if block.allowed is None else block.allowed & real


def readable(block: Block) -> Float[Tensor, "b g s d"]:
    """The values, without what the output projection drops: V, or V B B^T with B spanning the columns of W_O.

    One row per group of heads; one per head where a slice of W_O lacks rank, for then sharing heads differ.
    """
    values = at_least_single(block.grouped_values)
    if block.parts is None:
        return values
    weight = at_least_single(block.parts.projection.weight)
    tolerance = torch.finfo(weight.dtype).eps * max(weight.shape[1:])
    wide = weight.double()
    _, condition = _inverse_factor(wide @ wide.mT)
    if bool((condition < TRUSTED).all()):
        return values
    left, sizes, _ = torch.linalg.svd(wide, full_matrices=False)
    kept = left * (sizes > tolerance * sizes[:, :1])[:, None]
    return einsum(at_least_single(block.values), (kept @ kept.mT).to(values), "b h s d, h d e -> b h s e")


def at_least_single(tensor: Tensor) -> Tensor:
    """Half precision is read as float32; the rest stays what it is."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def project(
    weights: Float[Tensor, "b h t s"],
    values: Float[Tensor, "b g s d"],
    seen: Bool[Tensor, "b #h t s"],
    tolerance: float | None = None,
) -> Float[Tensor, "b h t s"]:
    """Each row of weights projected on the column space of the values it sees, zero on what it does not see.

    a -> a_S V_S V_S^+, S the sources seen. Singular values below tolerance (eps * max(|S|, d)) times the largest are zero.
    """
    targets, sources = seen.any(dim=-1), seen.any(dim=-2)
    if bool((seen == targets[..., :, None] & sources[..., None, :]).all()):
        return _project_alike(weights, basis(values, sources, tolerance), targets)
    if seen.shape[1] > 1:
        values = repeat(values, "b g s d -> b (g k) s d", k=weights.shape[1] // values.shape[1])
    grouped = rearrange(weights.double(), "b (g k) t s -> b g k t s", g=values.shape[1])
    seen = seen.expand(-1, values.shape[1], -1, -1)
    out = torch.empty_like(grouped)
    for index in torch.cartesian_prod(*map(torch.arange, values.shape[:2])).tolist():
        i, g = index
        limits = _limits(tolerance, seen[i, g].sum(dim=-1), values)
        out[i, g] = _project_rows(grouped[i, g], values[i, g].double(), seen[i, g], limits)
    return rearrange(out, "b g k t s -> b (g k) t s").to(weights.dtype)


def basis(
    values: Float[Tensor, "b g s d"], sources: Bool[Tensor, "b #g s"], tolerance: float | None = None
) -> Float[Tensor, "b g s d"]:
    """Orthonormal columns that span those of the values over the given sources; columns past the rank are zero."""
    sources = rearrange(sources.expand(values.shape[:3]), "b g s -> (b g) s")
    counts = sources.sum(dim=-1)
    limits = _limits(tolerance, counts, values)
    flat = rearrange(values.double(), "b g s d -> (b g) s d") * sources[..., None]
    out, sure = torch.zeros_like(flat), counts == 0
    for chosen, factor in ((counts > values.shape[-1], _tall), ((counts <= values.shape[-1]) & ~sure, _flat)):
        if bool(chosen.any()):
            out[chosen], condition = factor(flat[chosen], sources[chosen])
            sure[chosen] = _trusted(condition, limits[chosen])
    for index in (~sure).nonzero().flatten().tolist():
        out[index, sources[index]] = _settled(flat[index, sources[index]], limits[index])
    return rearrange(out, "(b g) s d -> b g s d", b=values.shape[0])


def _limits(tolerance: float | None, counts: Int[Tensor, "*n"], values: Tensor) -> Float[Tensor, "*n"]:
    """The smallest singular value, relative to the largest, that counts: eps * max(sources, head width) unless given."""
    if tolerance is not None:
        return torch.full_like(counts, tolerance, dtype=torch.float64)
    return torch.finfo(values.dtype).eps * counts.clamp(min=values.shape[-1]).double()


def _trusted(condition: Float[Tensor, "*n"], limits: Float[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
    return (condition * limits < 1) & (condition < TRUSTED)


def _inverse_factor(gram: Float[Tensor, "*n d d"]) -> tuple[Float[Tensor, "*n d d"], Float[Tensor, "*n"]]:
    """M with G^-1 = M^T M, and a bound from above on the condition number of V where G = V^T V."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(gram), upper=False)
    squared = torch.linalg.matrix_norm(gram) * torch.linalg.matrix_norm(inverse.mT @ inverse)
    return inverse, squared.sqrt().nan_to_num(torch.inf).masked_fill(failed > 0, torch.inf)


def _tall(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"]
) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """More sources than the head is wide: the Q of V = Q R, by Cholesky of V^T V, twice for its rounding."""
    inverse, condition = _inverse_factor(values.mT @ values)
    first = values @ inverse.mT
    again, _ = _inverse_factor(first.mT @ first)
    return first @ again.mT, condition


def _flat(
    values: Float[Tensor, "n s d"], sources: Bool[Tensor, "n s"]
) -> tuple[Float[Tensor, "n s d"], Float[Tensor, " n"]]:
    """No more sources than the head is wide: if their values are independent, unit vectors are a basis."""
    width, place = values.shape[-1], sources.cumsum(dim=-1) - 1
    units = torch.nn.functional.one_hot(place.clamp(min=0), width) * sources[..., None]
    order = sources.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
    packed = values.gather(1, order[..., None].expand(-1, -1, width))
    gram = packed @ packed.mT
    filler = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / sources.sum(dim=-1)
    gram += torch.diag_embed(~sources.gather(1, order) * filler[:, None])
    return units.to(values.dtype), _inverse_factor(gram)[1]


def _settled(values: Float[Tensor, "s d"], limit: Float[Tensor, ""]) -> Float[Tensor, "s d"]:
    """A basis where the rank falls short: one column per distinct value when those are independent, else by SVD."""
    classes = _classes(values)
    sizes = classes.sum(dim=0)
    if len(sizes) <= values.shape[-1] and _independent(_distinct(values, classes), sizes[None], limit[None])[0]:
        columns = classes / sizes.sqrt()
    else:
        left, singular, _ = torch.linalg.svd(values, full_matrices=False)
        columns = left[:, singular > limit * singular[0]]
    return torch.nn.functional.pad(columns, (0, values.shape[-1] - columns.shape[1]))


def _classes(values: Float[Tensor, "s d"]) -> Float[Tensor, "s u"]:
    """Which sources share one value, as 0 and 1: in the first layer of a model with rotary positions, equal tokens."""
    lengths = values.square().sum(dim=-1)
    if len(lengths.unique()) == len(lengths):
        return torch.eye(len(values), dtype=values.dtype, device=values.device)
    _, which = values.unique(dim=0, return_inverse=True)
    return torch.nn.functional.one_hot(which).to(values.dtype)


def _distinct(values: Float[Tensor, "s d"], classes: Float[Tensor, "s u"]) -> Float[Tensor, "u d"]:
    return values[classes.argmax(dim=0)]


def _independent(
    values: Float[Tensor, "u d"], counts: Float[Tensor, "t u"], limits: Float[Tensor, " t"]
) -> Bool[Tensor, " t"]:
    """Whether the distinct values each target sees are independent. What holds of a union holds of its parts."""
    union = counts.any(dim=0)
    if union.sum() <= values.shape[-1]:
        _, condition = _inverse_factor(values[union] @ values[union].T)
        sure = _trusted(condition * counts.max().sqrt(), limits.max())
        if bool(sure) or len(counts) == 1:
            return sure.expand(len(counts))
    halves = (len(counts) + 1) // 2
    parts = zip(counts.split(halves), limits.split(halves), strict=True)
    return torch.cat([_independent(values, *part) for part in parts])


def _project_alike(
    weights: Float[Tensor, "b h t s"], columns: Float[Tensor, "b g s d"], targets: Bool[Tensor, "b #h t"]
) -> Float[Tensor, "b h t s"]:
    """All targets see the same sources: A U U^T."""
    columns = columns.to(weights.dtype)
    grouped = rearrange(weights, "b (g k) t s -> b g (k t) s", g=columns.shape[1])
    out = rearrange((grouped @ columns) @ columns.mT, "b g (k t) s -> b (g k) t s", t=weights.shape[2])
    return out if bool(targets.all()) else out * targets[..., None]


def _project_rows(
    weights: Float[Tensor, "k t s"], values: Float[Tensor, "s d"], seen: Bool[Tensor, "t s"], limits: Float[Tensor, " t"]
) -> Float[Tensor, "k t s"]:
    """Every target sees sources of its own: weights averaged over equal values, or a solve where they are many."""
    classes = _classes(values)
    counts = seen.double() @ classes
    out = ((weights * seen) @ classes / counts.clamp(min=1)) @ classes.T * seen
    few = counts.count_nonzero(dim=-1) <= values.shape[-1]
    sure = torch.ones_like(few)
    if bool(few.any()):
        sure[few] = _independent(_distinct(values, classes), counts[few], limits[few])
    for chunk in (~few).nonzero().flatten().split(CHUNK):
        out[:, chunk], condition = _solved(weights[:, chunk], values, seen[chunk])
        sure[chunk] = _trusted(condition, limits[chunk])
    for row in (~sure).nonzero().flatten().tolist():
        columns = _settled(values[seen[row]], limits[row])
        out[:, row, seen[row]] = weights[:, row, seen[row]] @ columns @ columns.T
    return out


def _solved(
    weights: Float[Tensor, "k t s"], values: Float[Tensor, "s d"], seen: Bool[Tensor, "t s"]
) -> tuple[Float[Tensor, "k t s"], Float[Tensor, " t"]]:
    """a V_S G_S^-1 V_S^T, and the same once more for what rounding left."""
    inverse, condition = _inverse_factor(grams(values, seen))
    inverse = inverse.mT @ inverse
    found = torch.zeros_like(weights)
    for _ in range(2):
        left = einsum((weights - found) * seen, values, "k t s, s d -> k t d")
        found = found + einsum(left, inverse, values, "k t d, t d e, s e -> k t s") * seen
    return found, condition


def grams(values: Float[Tensor, "s d"], seen: Bool[Tensor, "t s"]) -> Float[Tensor, "t d d"]:
    """G_i = sum over the sources j that i sees of v_j v_j^T: once what all see, then each target's own."""
    shared = seen.all(dim=0)
    own = seen.any(dim=0) & ~shared
    outer = einsum(values[own], values[own], "s d, s e -> s d e")
    return values[shared].T @ values[shared] + einsum(seen[:, own].to(values.dtype), outer, "t s, s d e -> t d e")
