"""Where every number came from: the model, its precision and place, and the versions of the libraries."""

import functools
import hashlib
import importlib.metadata
import json
from typing import Any

import torch

from whence.models.affine import adapters
from whence.models.load import Model

LIBRARIES = ("torch", "transformers", "xarray", "numpy")
version = functools.cache(importlib.metadata.version)  # reads a file every time


def provenance(model: Model) -> dict[str, Any]:
    """In types that every file format keeps."""
    return {
        "model": model.id,
        "revision": model.revision or "",
        "family": model.anatomy.family,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "device": str(model.model.device),
        "causal": int(model.anatomy.causal),
        "whence_version": version("whence"),
    } | {f"{library}_version": version(library) for library in LIBRARIES}


def weights_sha256(model: Model) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    for layer in adapters(model.model):
        digest.update(repr(layer).encode())
    return digest.hexdigest()


def tokenizer_sha256(tokenizer: Any) -> str:
    """Truncation and padding are left out: a tokenizer keeps those of its latest call."""
    if not tokenizer.is_fast:
        return hashlib.sha256(repr(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()
    parts = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
