"""A request for measures, checked: its options, layers and targets, and the functions that compute it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from whence import _arguments
from whence.errors import BadInput
from whence.measures.options import Options
from whence.measures.registry import Settings, measures, owners, variables

Function = Callable[..., Mapping[str, Tensor]]


def layers_of(layers: int | Iterable[int] | None, count: int) -> list[int]:
    """The layers asked for, checked and in order; all when none are named."""
    return list(range(1, count + 1)) if layers is None else sorted(set(_arguments.layers(layers, 1, count)))


def targets_of(targets: int | Iterable[int] | None, count: int) -> tuple[int, ...] | None:
    """The positions asked for, checked and in order; None when none are named, which means all."""
    if targets is None:
        return None
    positions = _arguments.numbers("target", targets)
    wrong = [position for position in positions if not -count <= position < count]
    if wrong or not positions:
        raise BadInput(f"The text has targets 0 to {count - 1}, and {wrong[0] if wrong else 'none'} was asked for.")
    return tuple(sorted({position % count for position in positions}))


def with_bases(selected: Iterable[str]) -> frozenset[str]:
    """The variables, and the maps that some of them are made from."""
    names, registered = frozenset(selected), variables()
    return names | {base for name in names if (base := registered[name].base) is not None}


def parameters_of(options: Mapping[str, Options]) -> dict[str, dict[str, Any]]:
    """The options of each measure that has some."""
    return {name: values for name, chosen in options.items() if (values := chosen.values())}


def computes(over: str, settings: Settings, options: Mapping[str, Options]) -> list[tuple[Function, Settings]]:
    """The functions behind the variables, and the settings of each: once for all measures that share its options."""
    functions: dict[tuple[str, str], tuple[Function, Settings]] = {}
    for name in dict.fromkeys(owners()[variable] for variable in sorted(settings.wanted)):
        row = measures()[name]
        if row.over != over:
            continue
        values = options[name].values() if name in options else row.options().values()
        key = row.source, repr(sorted(values.items(), key=str))
        before = functions[key][1].wanted if key in functions else frozenset()
        names = before | (settings.wanted & row.variables.keys())
        functions[key] = row.compute, replace(settings, wanted=names, options=values)
    return list(functions.values())
