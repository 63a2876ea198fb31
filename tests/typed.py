"""What checks annotations while the tests run: jaxtyping where there are shapes, beartype alone where there are none.

jaxtyping's import hook binds the arguments of every call to name their axes, and checks them twice, also where no
annotation has an axis; in tests of readers that was more than half of the time.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping

shaped = jaxtyping.jaxtyped


def jaxtyped(*, typechecker: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Stands in for jaxtyping.jaxtyped, which the hook puts in front of every function and class of whence."""

    def checked(found: Any) -> Any:
        function = found.__init__ if inspect.isclass(found) else found
        if not inspect.isfunction(function) or any(map(has_shape, function.__annotations__.values())):
            return shaped(found, typechecker=typechecker)
        if not inspect.isclass(found):
            return typechecker(found)
        if dataclasses.is_dataclass(found):
            found.__init__ = typechecker(function)
        return found

    return checked


def has_shape(hint: Any) -> bool:
    """Whether an axis may be named in it; of what is written as a string, nothing is known."""
    if isinstance(hint, str | list):
        return isinstance(hint, str) or any(map(has_shape, hint))
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(has_shape, get_args(hint)))
