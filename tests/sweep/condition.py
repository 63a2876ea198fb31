"""Everything about a model that has to be the same after it was loaded and measured."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

PLAIN = frozenset(vars(nn.Module())) - {"training"}  # tables of children, tensors and hooks, which have rows below
INERT = {"_output_capturing_hooks_installed"}  # of hooks that transformers installs in the first pass that needs some


def condition(model: PreTrainedModel) -> dict[str, Any]:
    """By kind, for comparison with `changed`."""
    parts = dict(model.named_modules())
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    configs = [part.config for part in parts.values() if isinstance(part, PreTrainedModel)]
    return {
        "modules": {name: (id(part), type(part).__name__) for name, part in parts.items()},
        "training": {name: part.training for name, part in parts.items()},
        "hooks": {name: _hooks(part) for name, part in parts.items()},
        "attributes": {name: _attributes(part) for name, part in parts.items()},
        "settings": [str(config.to_dict()) for config in configs],
        "attention implementation": [config._attn_implementation for config in configs],
        "experts implementation": [config._experts_implementation for config in configs],
        "tensors": {name: _tensor(tensor) for name, tensor in tensors.items()},
        "gradients": {name: (tensor.requires_grad, tensor.grad is None) for name, tensor in tensors.items()},
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The kinds that differ, with the first place where they do."""
    return ", ".join(f"{kind}{_first(before[kind], after[kind])}" for kind in before if before[kind] != after[kind])


def _first(before: Any, after: Any) -> str:
    if not isinstance(before, dict):
        return ""
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return f" of {names[0] or 'the model'}"


def _hooks(part: nn.Module) -> int:
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    return sum(not str(hook.__module__).startswith("transformers") for hook in hooks)


def _attributes(part: nn.Module) -> dict[str, Any]:
    return {name: _described(value) for name, value in vars(part).items() if name not in PLAIN | INERT}


def _described(value: Any) -> Any:
    """Containers by what they hold, which may have been changed in place."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, dict | list | set | tuple):
        return repr(value)
    return id(value) if isinstance(value, nn.Module | PreTrainedConfig) or callable(value) else repr(value)


def _tensor(tensor: Tensor) -> tuple[object, ...]:
    content = tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8)
    return id(tensor), tensor.dtype, tensor.device, hashlib.sha1(content.numpy().tobytes()).hexdigest()
