"""How many bits a number gets: 32 where 16 would not do, and 16 where an estimate is rougher than they are."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from whence.models.tangent import Step
from whence.models.weights import Parts

HALF = (torch.float16, torch.bfloat16)
COARSE = torch.bfloat16
# instructions by which a processor multiplies COARSE numbers about twice as fast as float32
INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
WHOLE = (Step, Parts)  # the model's own, read as they are
KEPT = {"rounded": False}  # of a field whose rounding would not average out, such as one factor for a whole vector
Some = TypeVar("Some")


def single(found: Some) -> Some:
    """The same block, parts or tensor in float32 where it was in half precision; else as it is."""
    return _each(found, lambda tensor: _taken_to(torch.float32, tensor) if tensor.dtype in HALF else tensor)


def rounded(found: Some) -> Some:
    """The same derivative in 16 bits: the range of float32, two to three digits."""
    return _each(found, lambda tensor: _taken_to(COARSE, tensor), WHOLE)


def rounding_pays(device: torch.device) -> bool:
    """Whether products of 16-bit numbers are known to be faster here."""
    able = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return any(able.get(name, False) for name in INSTRUCTIONS)


def _taken_to(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    """What is one matrix for all tokens stays one."""
    shared = tensor.dim() > 0 and tensor.stride(0) == 0
    return tensor[:1].to(dtype).expand_as(tensor) if shared else tensor.to(dtype)


def _each(found: Any, change: Callable[[Tensor], Tensor], whole: tuple[type, ...] = ()) -> Any:
    """The same with every tensor in it changed; as it is when none was, or when it is of a type that is left whole."""
    if isinstance(found, Tensor):
        return change(found)
    if isinstance(found, tuple):
        return tuple(_each(part, change, whole) for part in found)
    if isinstance(found, whole):
        return found
    if not dataclasses.is_dataclass(found) or isinstance(found, type):
        return found
    fields = [field for field in dataclasses.fields(found) if not whole or field.metadata.get("rounded", True)]
    before = {field.name: getattr(found, field.name) for field in fields}
    after = {name: _each(value, change, whole) for name, value in before.items()}
    changed = any(after[name] is not before[name] for name in before)
    return dataclasses.replace(found, **after) if changed else found
