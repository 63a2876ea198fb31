"""Numbers that were asked for: layers, positions, targets, sources, and shares."""

import math
import operator
from collections.abc import Iterable
from typing import Any

from whence.errors import BadInput

LARGEST = 2**63 - 1
SEEDS = 2**50


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


def whole(what: str, asked: Any, least: int, most: int = LARGEST) -> int:
    """One whole number that is neither too small nor too large; 2e9 is one."""
    given = int(asked) if isinstance(asked, float) and asked.is_integer() else asked
    if isinstance(given, bool) or not _is_whole(given) or operator.index(given) < least:
        raise BadInput(f"The {what} is a whole number of at least {least}, and {asked!r:.40} was given.")
    if operator.index(given) > most:
        raise BadInput(f"The {what} is a whole number of at most {most}, and {asked!r:.40} was given.")
    return operator.index(given)


def seed_of(asked: Any) -> int:
    """A seed that every generator of random numbers takes."""
    return whole("seed", asked, 0, SEEDS)


def positive(what: str, asked: Any) -> float:
    """A number above 0, and not infinite."""
    found = _number(asked)
    if not 0 < found < math.inf:
        raise BadInput(f"The {what} is a number above 0, and {asked!r:.40} was given.")
    return found


def share(what: str, asked: Any, zero: bool = False) -> float:
    """A number between 0 and 1, zero itself only where it means something."""
    found = _number(asked)
    if not (0 <= found < 1 if zero else 0 < found < 1):
        least = "from 0 to less than 1" if zero else "between 0 and 1"
        raise BadInput(f"The {what} is a number {least}, and {asked!r} was given.")
    return found


def _number(asked: Any) -> float:
    try:
        return float(asked)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_whole(asked: object) -> bool:
    """An array of one element has an index, and one of several has the method but no index."""
    try:
        operator.index(asked)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
