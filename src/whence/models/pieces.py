"""A model in pieces: weights that are on the host or on the disk until the module they belong to runs.

accelerate's hooks fetch a module's weights before it runs, to the device it computes on, and let them go behind it.
Here the same hooks fetch them for longer: while a block is run and looked at.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from whence.errors import Unsupported


def held(*modules: nn.Module) -> AbstractContextManager[object]:
    """Inside, the modules' own weights are there, and running them leaves them there."""
    waiting = [(module, hook) for module in modules for hook in _hooks(module) if hook.offload]
    return _all_fetched(waiting) if waiting else nullcontext()


@contextmanager
def _all_fetched(waiting: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    with ExitStack() as stack:
        for module, hook in waiting:
            stack.enter_context(_fetched(module, hook))
        yield


def held_whole(module: nn.Module) -> AbstractContextManager[object]:
    """The same of a module and all in it."""
    return held(*module.modules())


@contextmanager
def _fetched(module: nn.Module, hook: Any) -> Iterator[None]:
    hook.pre_forward(module)
    hook.offload = False
    try:
        yield
    finally:
        hook.offload = True
        hook.post_forward(module, None)


def fetched(model: nn.Module, name: str, tensor: Tensor) -> Tensor:
    """A weight of the model by its name, wherever it is kept."""
    if not tensor.is_meta:
        return tensor
    path, _, last = name.rpartition(".")
    module = model.get_submodule(path)
    with held(module):
        return getattr(module, last).detach()


@contextmanager
def all_there(model: nn.Module) -> Iterator[None]:
    """Says in one sentence that a pass met weights that no hook had fetched."""
    try:
        yield
    except RuntimeError as error:
        if not in_pieces(model) or "meta" not in str(error):
            raise
        raise Unsupported(
            f"{type(model).__name__} uses weights of a part that is not running (its embeddings, as a rule), so that"
            " part cannot be offloaded; give it a device of its own in the device map."
        ) from error


def in_pieces(module: nn.Module) -> bool:
    """Whether some of its weights are fetched when it runs."""
    return any(hook.offload for part in module.modules() for hook in _hooks(part))


def device_of(module: nn.Module) -> torch.device:
    """Where the module computes, wherever its weights are kept; of several devices the first."""
    for part in module.modules():
        for hook in _hooks(part):
            if hook.execution_device is not None:
                return torch.device(hook.execution_device)
        if (weight := next(part.parameters(recurse=False), None)) is not None:
            return weight.device  # whoever places weights puts a hook on the modules that have them
    raise ValueError(f"{type(module).__name__} has no weights.")


def devices_of(model: nn.Module) -> list[torch.device]:
    """All devices that some part of it computes on."""
    hooks = [hook for part in model.modules() for hook in _hooks(part) if hook.execution_device is not None]
    devices = [torch.device(hook.execution_device) for hook in hooks]
    return sorted(set(devices), key=str) or [next(model.parameters()).device]


def _hooks(module: nn.Module) -> list[Any]:
    """accelerate's hooks on the module that place its weights."""
    hook = vars(module).get("_hf_hook")
    accelerate = None if hook is None else sys.modules.get("accelerate.hooks")
    if accelerate is None:
        return []
    hooks = hook.hooks if isinstance(hook, accelerate.SequentialHook) else (hook,)
    return [hook for hook in hooks if isinstance(hook, accelerate.AlignDevicesHook)]
