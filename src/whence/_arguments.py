"""Numbers from users, checked: layers, positions, targets, sources, seeds and shares."""

import math
import operator
from collections.abc import Iterable
from typing import Any

from whence.errors import BadInput

LARGEST = 2**63 - 1
SEEDS = 2**50


def numbers(name: str, value: object) -> list[int]:
    """A list of ints from one number or several, Python's or NumPy's."""
    try:
        values: list[Any] = (
            list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
        )
        if any(isinstance(number, bool) for number in values):
            raise TypeError
        return [operator.index(number) for number in values]
    except TypeError:
        raise BadInput(f"A {name} is a whole number, and {value!r} was given.") from None


def listed(name: str, value: object, *kinds: type) -> list[Any]:
    """A list from one of these kinds or several."""
    if isinstance(value, kinds):
        return [value]
    if not isinstance(value, Iterable):
        raise BadInput(f"A {name} is asked for by name, and {value!r:.40} was given.")
    return list(value)


def layers(value: object, first: int, last: int, some: bool = True) -> list[int]:
    """Layers that the model has; `some` refuses an empty list."""
    indices = numbers("layer", value)
    wrong = [layer for layer in indices if not first <= layer <= last]
    if wrong or (some and not indices):
        raise BadInput(f"The model has layers {first} to {last}, and {wrong[0] if wrong else 'none'} was asked for.")
    return indices


def whole(name: str, value: Any, least: int, most: int = LARGEST) -> int:
    """One whole number within its bounds; a float such as 2e9 counts as one."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not _is_whole(number) or operator.index(number) < least:
        raise BadInput(f"The {name} is a whole number of at least {least}, and {value!r:.40} was given.")
    if operator.index(number) > most:
        raise BadInput(f"The {name} is a whole number of at most {most}, and {value!r:.40} was given.")
    return operator.index(number)


def seed_of(value: Any) -> int:
    """A seed that every random number generator accepts."""
    return whole("seed", value, 0, SEEDS)


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    number = real(value)
    if not 0 < number < math.inf:
        raise BadInput(f"The {name} is a number above 0, and {value!r:.40} was given.")
    return number


def share(name: str, value: Any, zero: bool = False) -> float:
    """A number between 0 and 1; 0 itself only with `zero`."""
    number = real(value)
    if not (0 <= number < 1 if zero else 0 < number < 1):
        least = "from 0 to less than 1" if zero else "between 0 and 1"
        raise BadInput(f"The {name} is a number {least}, and {value!r} was given.")
    return number


def real(value: Any) -> float:
    """Any number; NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_whole(value: object) -> bool:
    """Tried, not looked up: an array of several elements has `__index__`, too, but it raises."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
