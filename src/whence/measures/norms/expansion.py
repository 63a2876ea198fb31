"""By how much the attention's map f stretches vectors, from the weights alone (Kobayashi et al. 2021)."""

import torch
from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from whence.errors import Unsupported
from whence.models.anatomy import Anatomy
from whence.models.precision import single
from whence.models.values import value_maps
from whence.models.weights import Affine, Projection


def expansion(anatomy: Anatomy) -> Float[Tensor, " layer"]:
    """How much longer f makes a vector, per layer: the root of the mean square of its singular values.

    f(x) = sum_h (x W_V^h + b_V^h) W_O^h, as the (d + 1) x (d + 1) matrix F = [[W, 0], [b, 1]] of (x, 1);
    sqrt(sum sigma^2 / (d + 1)) = |F|_F / sqrt(d + 1). Weights only, no data. The projection's bias is no part of f.
    """
    projections = [anatomy.projection(block) for block in anatomy.blocks]
    rates = [_rate(value, projection) for value, projection in zip(value_maps(anatomy), projections, strict=True)]
    return torch.stack(rates)


def _rate(value: Affine, projection: Projection | None) -> Float[Tensor, ""]:
    if projection is None:
        raise Unsupported("The attention's output projection was not found, so its expansion rate is unknown.")
    both = affine_of(value, projection)
    squares = both.weight.square().sum() + (0 if both.bias is None else both.bias.square().sum()) + 1
    return (squares / (len(both.weight) + 1)).sqrt()


def affine_of(value: Affine, projection: Projection) -> Affine:
    """f as one affine map, m x m: values and projection multiplied, heads summed."""
    heads, width, _ = projection.weight.shape
    groups = value.weight.shape[1] // width

    def through(rows: Float[Tensor, "r gd"]) -> Float[Tensor, "r m"]:
        by_head = repeat(single(rows), "r (g d) -> r (g k) d", g=groups, k=heads // groups)
        return einsum(by_head, single(projection.weight), "r h d, h d m -> r m")

    return Affine(through(value.weight), None if value.bias is None else through(value.bias[None])[0])
