"""Weights in half precision taken to float32: a derivative of rounded numbers is noise."""

import dataclasses
from typing import Any, TypeVar

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
Some = TypeVar("Some")


def reported(dtype: torch.dtype) -> torch.dtype:
    """What is measured is given back in float64 for a model in float64, and in float32 for all others."""
    return torch.promote_types(dtype, torch.float32)


def single(weights: Some) -> Some:
    """The same weights or tensor in float32 where they were in half precision; else as they are."""
    return _single(weights)


def _single(weights: Any) -> Any:
    if isinstance(weights, Tensor):
        return weights.float() if weights.dtype in HALF else weights
    if not dataclasses.is_dataclass(weights) or isinstance(weights, type):
        return weights
    changed = {name: after for name, value in vars(weights).items() if (after := _single(value)) is not value}
    return dataclasses.replace(weights, **changed) if changed else weights
