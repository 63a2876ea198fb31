"""What can be measured: a table, one row per measure, and the names and axes of its variables."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.models.anatomy import Anatomy
from whence.models.trace import Block

SCHEMA = 1

HEADS = ("layer", "head", "target", "source")
MAP = ("layer", "target", "source")
BY_HEAD = ("layer", "head")
RATIO = ("method", "layer", "target")


@dataclass(frozen=True)
class Variable:
    """One array of the Dataset."""

    dims: tuple[str, ...]
    unit: str
    about: str


@dataclass(frozen=True)
class Settings:
    """What a measure may look at besides the block."""

    anatomy: Anatomy
    mask: Bool[Tensor, "b s"]
    options: Mapping[str, Any] = field(default_factory=dict)


Compute = Callable[[Block, Settings], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Measure:
    """A row: `source` names the function, Block and Settings -> tensors without the layer axis, batch first."""

    about: str
    variables: Mapping[str, Variable]
    needs: frozenset[str]
    papers: tuple[str, ...]
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def compute(self) -> Compute:
        module, name = self.source.split(":")
        return getattr(importlib.import_module(module), name)


MEASURES: dict[str, Measure] = {
    "attention": Measure(
        about="The attention weights as the model computed them.",
        variables={"attention": Variable(HEADS, "share", "weight of a source in a target's new vector, per head")},
        needs=frozenset({"attention"}),
        papers=("vaswani2017",),
        source="whence.measures.blocks:attention",
    ),
}


def chosen(names: str | Iterable[str], gives: frozenset[str], family: str) -> dict[str, Measure]:
    """The rows asked for; a name may also be that of a variable. Refuses what is unknown or the model cannot give."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise BadInput("No measure was asked for; `whence measures` lists them.")
    rows = {name: MEASURES[name] for name in map(_owner, wanted)}
    for name, row in rows.items():
        lacking = row.needs - gives
        if lacking:
            raise Unsupported(
                f"The measure {name!r} needs {_listed(lacking)}, which could not be read of the family {family!r};"
                f" it gives {_listed(gives)}."
            )
    return rows


def given_by(gives: frozenset[str], names: Iterable[str]) -> list[str]:
    """Those of the named measures that exist and that a model with these capabilities can give."""
    return [name for name in names if name in MEASURES and MEASURES[name].needs <= gives]


def options_of(rows: Mapping[str, Measure], given: Mapping[str, Any]) -> dict[str, Any]:
    """The measures' options with their defaults, changed by what was given; an unknown one is refused."""
    known = {name: default for row in rows.values() for name, default in row.options.items()}
    for name in given:
        if name not in known:
            raise BadInput(f"No measure asked for has an option {name!r}; they have: {_listed(known) or 'none'}.")
    return known | dict(given)


def _owner(name: str) -> str:
    if name in MEASURES:
        return name
    for owner, row in MEASURES.items():
        if name in row.variables:
            return owner
    raise BadInput(f"There is no measure {name!r}; there are: {_listed(MEASURES)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
