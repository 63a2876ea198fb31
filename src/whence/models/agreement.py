"""How far apart two tensors of token vectors are, each token judged by its own size."""

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDED = 4  # roundings of a sum that separate two ways to compute it


def apart(
    found: Float[Tensor, "*tokens m"],
    expected: Float[Tensor, "*tokens m"],
    beside: Float[Tensor, "*#tokens m"] | None = None,
) -> float:
    """Largest |found_i - expected_i| / |expected_i| of any token i; NaN counts as infinitely far.

    One huge token hides nothing of the others. What was added to a much larger tensor is judged without it: give that
    as `beside`, and its share is taken off both, and off their difference what rounding the sum explains.
    """
    difference, size = (found - expected).abs(), expected
    if beside is not None:
        size = expected - beside
        difference = (difference - ROUNDED * torch.finfo(expected.dtype).eps * expected.abs()).clamp(min=0)
    difference, size = (torch.linalg.vector_norm(part.double(), dim=-1) for part in (difference, size))
    error = torch.where(difference == 0, 0.0, difference / size)
    return float(error.detach().nan_to_num(nan=float("inf")).max())


def unlike(found: Tensor, expected: Tensor) -> float:
    """The same for tensors that may have other shapes, which are infinitely far apart."""
    return apart(found, expected) if found.shape == expected.shape else float("inf")
