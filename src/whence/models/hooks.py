"""Hooks for the passes of one thread: another thread may use the same model at the same time."""

import threading
from collections.abc import Callable


def here(hook: Callable) -> Callable:
    """The hook for the passes of this thread alone; one of another thread through the same model is not ours."""
    thread = threading.get_ident()
    return lambda *given: hook(*given) if threading.get_ident() == thread else None
