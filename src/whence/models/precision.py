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
    before = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    after = {name: _single(value) for name, value in before.items()}
    changed = any(after[name] is not before[name] for name in before)
    return dataclasses.replace(found, **after) if changed else found
