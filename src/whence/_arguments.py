"""Numbers that were asked for: layers, positions, targets, sources, and shares."""

import math
import operator
from collections.abc import Iterable
from typing import Any

from whence.errors import BadInput


def numbers(what: str, asked: object) -> list[int]:
    """As a list, whether one was given or several, from Python or NumPy."""
    several: list[Any] = list(asked) if isinstance(asked, Iterable) and not isinstance(asked, str | bytes) else [asked]
    try:
        if any(isinstance(number, bool) for number in several):
            raise TypeError
        return [operator.index(number) for number in several]
    except TypeError:
        raise BadInput(f"A {what} is a whole number, and {asked!r} was given.") from None


def layers(asked: object, first: int, last: int, some: bool = True) -> list[int]:
    """Layers that the model has; `some` refuses none at all."""
    found = numbers("layer", asked)
    wrong = [layer for layer in found if not first <= layer <= last]
    if wrong or (some and not found):
        raise BadInput(f"The model has layers {first} to {last}, and {wrong[0] if wrong else 'none'} was asked for.")
    return found


def whole(what: str, asked: Any, least: int) -> int:
    """One whole number that is not too small; 2e9 is one."""
    given = int(asked) if isinstance(asked, float) and asked.is_integer() else asked
    if isinstance(given, bool) or not hasattr(given, "__index__") or operator.index(given) < least:
        raise BadInput(f"The {what} is a whole number of at least {least}, and {asked!r} was given.")
    return operator.index(given)


def share(what: str, asked: Any, zero: bool = False) -> float:
    """A number between 0 and 1, zero itself only where it means something."""
    try:
        found = float(asked)
    except (TypeError, ValueError):
        found = math.nan
    if not (0 <= found < 1 if zero else 0 < found < 1):
        least = "from 0 to less than 1" if zero else "between 0 and 1"
        raise BadInput(f"The {what} is a number {least}, and {asked!r} was given.")
    return found
