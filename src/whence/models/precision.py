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


def single(found: Some) -> Some:
    """The same weights or tensor in float32 where they were in half precision; else as they are."""
    return _single(found)


def _single(found: Any) -> Any:
    if isinstance(found, Tensor):
        return found.float() if found.dtype in HALF else found
    if not dataclasses.is_dataclass(found) or isinstance(found, type):
        return found
    changed = {name: after for name, value in vars(found).items() if (after := _single(value)) is not value}
    return dataclasses.replace(found, **changed) if changed else found
