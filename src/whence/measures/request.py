"""What is asked of the measures, checked: their options, the layers, and the functions that compute them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from whence import _arguments
from whence.measures.registry import MEASURES, options_of, owners, variables

# options between 0 and 1, and whether 0 is one: only exact zeros; options that are whole numbers, and the least of them
SHARES = {"tolerance": True, "block_error": False, "error": False}
WHOLE = {"seed": 0, "memory": 1}


def settled_options(names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of these measures, with their defaults, or one sentence on what makes no sense."""
    found = options_of(names, given)
    for name, zero in SHARES.items():
        if found.get(name) is not None:
            _arguments.share(name, found[name], zero)
    for name, least in WHOLE.items():
        if found.get(name) is not None:
            found[name] = _arguments.whole(name, found[name], least)
    return found


def layers_of(asked: int | Iterable[int] | None, count: int) -> list[int]:
    """The layers asked for, checked and in order; all when none are named."""
    return list(range(1, count + 1)) if asked is None else sorted(set(_arguments.layers(asked, 1, count)))


def with_bases(wanted: Iterable[str]) -> frozenset[str]:
    """The variables, and the maps that some of them are made from."""
    names = frozenset(wanted)
    return names | {base for name in names if (base := variables()[name].base) is not None}


def computes(over: str, needed: Iterable[str]) -> list[Callable[..., Mapping[str, Tensor]]]:
    """The functions behind the variables, each once."""
    rows = [MEASURES[name] for name in dict.fromkeys(owners()[variable] for variable in sorted(needed))]
    return list({row.source: row.compute for row in rows if row.over == over}.values())
