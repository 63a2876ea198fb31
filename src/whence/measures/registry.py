"""What can be measured: a table, one row per measure, and the names and axes of its variables."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.models.anatomy import Anatomy
from whence.models.trace import Batch

SCHEMA = 1

# the analyses a mixing ratio can come from: weights or norms, without and with the residual, past the norm
METHODS = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")

# axes
HEADS = ("layer", "head", "target", "source")
MAP = ("layer", "target", "source")
BY_HEAD = ("layer", "head")
RATIO = ("method", "layer", "target")
BY_LAYER = ("layer",)

# what a model must give
ATTENTION = frozenset({"attention"})
ROWS = frozenset({"attention", "rows"})
VALUES = frozenset({"attention", "values"})
NORMS = frozenset({"attention", "values", "norms"})


@dataclass(frozen=True)
class Variable:
    """One array of the Dataset. `base` names the map it is made from, for what is accumulated over layers."""

    dims: tuple[str, ...]
    unit: str
    about: str
    needs: frozenset[str]
    base: str | None = None


@dataclass(frozen=True)
class Measure:
    """A row. `over` says what the function named by `source` looks at:

    block   (Block, Settings) -> tensors without the layer axis, batch first
    layers  (tensors of the base maps with layer axis, batch second, Settings) -> the same
    model   (Settings) -> tensors with layer axis, no batch
    """

    about: str
    variables: Mapping[str, Variable]
    papers: tuple[str, ...]
    source: str
    over: str = "block"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def compute(self) -> Callable[..., Mapping[str, Tensor]]:
        module, name = self.source.split(":")
        return getattr(importlib.import_module(f"whence.measures.{module}"), name)


@dataclass(frozen=True)
class Settings:
    """What a measure may look at besides the block: the model, the padding, what is wanted and how."""

    anatomy: Anatomy
    batch: Batch
    wanted: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mask(self) -> Bool[Tensor, "b s"]:
        return self.batch.mask


_TOLERANCE = {"tolerance": None}

MEASURES: dict[str, Measure] = {
    "attention": Measure(
        about="The attention weights as the model computed them.",
        variables={"attention": Variable(HEADS, "share", "weight of a source in a target's new vector", ATTENTION)},
        papers=("vaswani2017",),
        source="blocks:attention",
    ),
}


def variables() -> dict[str, Variable]:
    """Every variable there is, by name."""
    return {name: variable for row in MEASURES.values() for name, variable in row.variables.items()}


def owners() -> dict[str, str]:
    """The measure that each variable belongs to."""
    return {variable: name for name, row in MEASURES.items() for variable in row.variables}


def chosen(names: str | Iterable[str], gives: frozenset[str], family: str) -> dict[str, Variable]:
    """The variables asked for, by their own names or that of a measure; refuses what the model cannot give."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise BadInput("No measure was asked for; `whence measures` lists them.")
    found = {name: variable for given in wanted for name, variable in _expanded(given).items()}
    for name, variable in found.items():
        if not variable.needs <= gives:
            raise Unsupported(
                f"{name!r} needs {_listed(variable.needs - gives)}, which could not be read of the family {family!r};"
                f" it gives {_listed(gives)}."
            )
    return found


def given_by(gives: frozenset[str], names: Iterable[str]) -> list[str]:
    """Those of the named measures that a model with these capabilities can give whole."""
    return [name for name in names if all(variable.needs <= gives for variable in _expanded(name).values())]


def options_of(names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The measures' options with their defaults, changed by what was given; an unknown one is refused."""
    known = {option: default for name in names for option, default in MEASURES[name].options.items()}
    for option in given:
        if option not in known:
            raise BadInput(f"No measure asked for has an option {option!r}; they have: {_listed(known) or 'none'}.")
    return known | dict(given)


def _expanded(name: str) -> Mapping[str, Variable]:
    if name in MEASURES:
        return MEASURES[name].variables
    if name in (known := variables()):
        return {name: known[name]}
    raise BadInput(f"There is no measure {name!r}; there are: {_listed(MEASURES)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
