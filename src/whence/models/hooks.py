"""Hooks for the passes of one thread: another thread may use the same model at the same time."""

import threading
from collections.abc import Callable, Iterable

from torch import nn

KNOWN = ("whence.", "transformers.", "torch.")  # whose hooks are no changes to what a model computes


class Reached(Exception):
    """Raised by a hook: what was wanted of a model has been computed."""


def here(hook: Callable) -> Callable:
    """The hook for the passes of this thread alone; one of another thread through the same model is not ours."""
    thread = threading.get_ident()
    return lambda *given: hook(*given) if threading.get_ident() == thread else None


def foreign_hooks(modules: Iterable[nn.Module]) -> list[Callable]:
    """The hooks on the modules' forward passes that the user put there."""
    each = ((*module._forward_pre_hooks.values(), *module._forward_hooks.values()) for module in modules)
    return [hook for hooks in each for hook in hooks if not str(getattr(hook, "__module__", "")).startswith(KNOWN)]
