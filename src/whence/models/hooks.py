"""Hooks for the passes of one thread: another thread may use the same model at the same time."""

import threading
from collections.abc import Callable, Iterable

from torch import nn

KNOWN = ("whence.", "transformers.", "torch.")  # packages whose hooks do not change what a model computes


class Reached(Exception):
    """Raised by a hook to stop a forward pass that has gone far enough."""


def here(hook: Callable) -> Callable:
    """The hook, called only in passes of this thread: another may run the same model."""
    thread = threading.get_ident()
    return lambda *args: hook(*args) if threading.get_ident() == thread else None


def foreign_hooks(modules: Iterable[nn.Module]) -> list[Callable]:
    """The user's own forward hooks on the modules."""
    by_module = ((*module._forward_pre_hooks.values(), *module._forward_hooks.values()) for module in modules)
    return [hook for hooks in by_module for hook in hooks if not str(getattr(hook, "__module__", "")).startswith(KNOWN)]
