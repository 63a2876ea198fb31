"""Numbers that were asked for: layers, positions, targets, sources."""

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
