"""Large matrix products: torch's own go through MKL, which on AMD runs at half the speed of oneDNN (torch 2.13)."""

import torch
from jaxtyping import Float
from torch import Tensor


def product(vectors: Float[Tensor, "*k n"], maps: Float[Tensor, "n m"]) -> Float[Tensor, "*k m"]:
    """vectors @ maps, by oneDNN for float32 on a processor."""
    if vectors.dtype != torch.float32 or vectors.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return vectors @ maps
    return torch.ops.mkldnn._linear_pointwise(vectors, maps.mT, None, "none", [], "")


def products(vectors: Float[Tensor, "b k n"], maps: Float[Tensor, "b n m"]) -> Float[Tensor, "b k m"]:
    """The same for few and large ones, one after the other."""
    return torch.stack([product(rows, columns) for rows, columns in zip(vectors, maps, strict=True)])
