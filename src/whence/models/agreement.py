"""How far apart two tensors of token vectors are, relative to each token, with and without its largest entries."""

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDED = 4  # roundings of a sum that separate two ways to compute it
LARGEST = 8  # entries of a token that may be huge: real models have a few such dimensions


def apart(
    actual: Float[Tensor, "*tokens m"],
    expected: Float[Tensor, "*tokens m"],
    beside: Float[Tensor, "*#tokens m"] | None = None,
) -> float:
    """Largest |actual_i - expected_i| / |expected_i| of any token i; NaN counts as infinitely far.

    A huge token does not hide an error of the others, nor a few huge entries one in the rest of a token. Where both are
    sums with a much larger tensor, pass that as `beside`: errors are then relative to what was added to it, and only
    what exceeds the rounding of the sum counts.
    """
    expected = expected.to(actual.device)
    difference, size = (actual - expected).detach().abs(), expected.detach()
    if beside is not None:
        size = size - beside.to(actual.device)
        difference = _past(difference, expected.abs())
    return max(_worst(difference, size), _worst(*_without_largest(difference, size)))


def _without_largest(difference: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The other entries, and how far they differ by more than rounding beside the largest explains."""
    count = min(LARGEST, size.shape[-1] // 4)
    if count == 0:
        return difference, size
    largest = size.abs().topk(count, dim=-1).values
    others = size.abs() < largest[..., -1:]
    return _past(difference, largest[..., :1]) * others, size * others


def _past(difference: Tensor, scale: Tensor) -> Tensor:
    return (difference - ROUNDED * torch.finfo(scale.dtype).eps * scale).clamp(min=0)


def _worst(difference: Tensor, size: Tensor) -> float:
    difference, size = (torch.linalg.vector_norm(part.double(), dim=-1) for part in (difference, size))
    error = torch.where(difference == 0, 0.0, difference / size)
    return float(error.nan_to_num(nan=float("inf")).max())


def unlike(actual: Tensor, expected: Tensor) -> float:
    """The same for tensors whose shapes may differ; if they do, they are infinitely far apart."""
    return apart(actual, expected) if actual.shape == expected.shape else float("inf")
