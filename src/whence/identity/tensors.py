"""Tensors in a safetensors file, with what they are beside them; a changed bit in either is noticed when it is read."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from whence.sealed import Damaged, Shape, parsed, sealed, unsealed

ABOUT = "whence"


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Path:
    """Written atomically: under another name first, then renamed."""
    content, fresh = _contiguous(tensors), path.with_name(path.name + ".new")
    save_file(content, fresh, metadata=_sealed(content, about))
    os.replace(fresh, path)
    return path


def packed(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """The bytes of such a file."""
    content = _contiguous(tensors)
    return save(content, metadata=_sealed(content, about))


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in tensors.items()}


def _sealed(content: Mapping[str, Tensor], about: Mapping[str, Any]) -> dict[str, str]:
    checksums = {name: _sha256(value) for name, value in content.items()}
    return {ABOUT: sealed({**about, "tensors": checksums}).decode()}


class Tensors:
    """Such a file, opened: what it says of itself, if it has the shape, and one tensor at a time."""

    def __init__(self, path: Path, shape: Shape):
        self.path = path
        try:
            self._file = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise Damaged(f"{path} is damaged: it is no safetensors file ({error})") from error
        about = (self._file.metadata() or {}).get(ABOUT)
        if about is None:
            raise Damaged(f"{path} was not written by whence")
        self.about = unsealed(parsed(about, str(path)), {**shape, "tensors": {str: str}}, str(path))

    @property
    def names(self) -> list[str]:
        return list(self.about["tensors"])

    def read(self, name: str) -> Tensor:
        try:
            tensor = self._file.get_tensor(name)
        except SafetensorError as error:
            raise Damaged(f"{self.path} is damaged: it has no tensor {name}") from error
        if _sha256(tensor) != self.about["tensors"][name]:
            raise Damaged(f"{self.path} is damaged: {name} was changed after it was written")
        return tensor


def _sha256(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
