"""Functions with a backward pass of their own (BLOOM's GELU, RecurrentGemma's root), differentiated as computed.

In their old form, a `torch.autograd.Function` without `setup_context`, they have no forward derivative and `torch.func`
refuses them. What they compute is made of functions that have one.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx


@contextmanager
def written_out(model: nn.Module) -> Iterator[None]:
    """Replaces the functions in passes of this thread, and restores them afterwards."""
    with ExitStack() as undo:
        for function in _functions(model):
            function.apply = _applied(function)  # type: ignore[method-assign]
            undo.callback(delattr, function, "apply")
        yield


def _functions(model: nn.Module) -> set[type[Function]]:
    """Those of the old form in the files of the model's modules."""
    files = {type(module).__module__ for module in model.modules()}
    classes = {value for file in files for value in vars(sys.modules[file]).values() if isinstance(value, type)}
    return {value for value in classes if issubclass(value, Function) and _is_old(value)}


def _is_old(function: type[Function]) -> bool:
    """Of the old form, and not written out already; the base of all is no function itself."""
    inherits = function is not Function and "apply" not in vars(function)
    return inherits and function.setup_context is Function.setup_context


def _applied(function: type[Function]) -> Callable[..., Any]:
    own, thread = function.apply, threading.get_ident()
    return lambda *args: function.forward(FunctionCtx(), *args) if threading.get_ident() == thread else own(*args)
