"""Weights in half precision taken to float32: a derivative of rounded numbers is noise."""

import dataclasses
import sys
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
COLUMNS = 8192  # of a matrix in half precision that are widened together
Some = TypeVar("Some")


def is_packed(weight: Tensor) -> bool:
    """Whether it is quantised by torchao, in a class of tensors that passes for another dtype."""
    torchao = sys.modules.get("torchao.utils")
    return torchao is not None and isinstance(weight, torchao.TorchAOBaseTensor)


def unpacked(weight: Tensor) -> Tensor:
    """The numbers that a quantised weight stands for; any other as it is."""
    return weight.dequantize() if is_packed(weight) else weight


def reported(dtype: torch.dtype) -> torch.dtype:
    """What is measured is given back in float64 for a model in float64, and in float32 for all others."""
    return torch.promote_types(dtype, torch.float32)


def single(weights: Some) -> Some:
    """The same weights or tensor in float32 where they were in half precision; else as they are."""
    return _single(weights)


def product(states: Float[Tensor, "*_ i"], weight: Float[Tensor, "i o"]) -> Float[Tensor, "*_ o"]:
    """states W; a matrix in half precision is widened to the states' a few columns at a time, backwards too."""
    if weight.dtype == states.dtype:
        return states @ weight
    return cast(Tensor, _Widened.apply(states, weight))


class _Widened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor) -> Tensor:
        ctx.weight = weight
        return torch.cat([states @ part.to(states.dtype) for part in weight.split(COLUMNS, dim=1)], dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        pairs = zip(gradients[0].split(COLUMNS, dim=-1), ctx.weight.split(COLUMNS, dim=1), strict=True)
        return torch.stack([part @ columns.to(part.dtype).T for part, columns in pairs]).sum(dim=0), None


def _single(weights: Any) -> Any:
    if isinstance(weights, Tensor):
        return weights.float() if weights.dtype in HALF else weights
    if not dataclasses.is_dataclass(weights) or isinstance(weights, type):
        return weights
    changed = {name: after for name, value in vars(weights).items() if (after := _single(value)) is not value}
    return dataclasses.replace(weights, **changed) if changed else weights
