"""What a measure is: its variables, their axes, what it needs of a model, and the function behind it.

The library's own are in table.py. Another package adds one by an entry point of the group `whence.measures`.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxtyping import Bool
from torch import Tensor

from whence._arguments import listed
from whence._plugins import plugins
from whence.errors import BadInput, Unsupported
from whence.measures.options import Options
from whence.measures.takes import Sizes, Takes, one_pass
from whence.models.anatomy import Anatomy
from whence.models.block import Batch

# axes of variables
HEADS = ("layer", "head", "target", "source")
MAP = ("layer", "target", "source")
BY_HEAD = ("layer", "head")
BY_LAYER = ("layer",)
BY_TOKEN = ("layer", "target")
HEAD_TOKEN = ("layer", "head", "target")

# capabilities that a model must have
ATTENTION = frozenset({"attention"})
ROWS = frozenset({"attention", "rows"})
VALUES = frozenset({"attention", "values"})
NORMS = frozenset({"attention", "values", "norms"})
DERIVATIVES = frozenset({"derivatives"})
NEURONS = NORMS | {"neurons"}
SECANT = NORMS | {"secant", "attention throughout"}


@dataclass(frozen=True)
class Axis:
    """An axis of a variable.

    size    how long it is, from the sizes of model and text
    labels  its coordinate, from its length
    kept    how a run stores it: as `rows` of a table, as `columns`, one for each label, or not at all
    """

    size: Callable[[Sizes], int]
    labels: Callable[[int], Sequence[Any]] = range
    kept: Literal["rows", "columns"] | None = None


# the analyses a norm, a mixing ratio and a rollout can come from: by weights or norms, without and with the residual,
# past the norm, through the whole block; the last two only accumulated over layers. A request for `norms` or `mixing`
# means those of the attention part: the whole block takes several times as long, and has to be asked for
MIXED = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
WHOLE_BLOCK = "block_n"
ANALYSES = (*MIXED, WHOLE_BLOCK, "alti", "value_zeroing")

AXES: dict[str, Axis] = {
    "layer": Axis(lambda sizes: sizes.layers, kept="rows"),
    "head": Axis(lambda sizes: sizes.heads, kept="rows"),
    "target": Axis(lambda sizes: sizes.tokens, kept="rows"),
    "source": Axis(lambda sizes: sizes.tokens, kept="rows"),
    "largest": Axis(lambda sizes: sizes.tokens),  # sources of a row, where only some are kept
    "analysis": Axis(lambda sizes: len(MIXED), lambda count: MIXED, "columns"),
}


@dataclass(frozen=True)
class Variable:
    """One array.

    base      the map it is made from, for what is accumulated over layers
    analysis  the variable of the Dataset it is a part of, and the analysis it stands for there
    reads     what its function reads of a block's attention: the `whole`, the `rows` of whichever targets it is given,
              or nothing but their `margins`; long texts are not held whole for the last two
    """

    dims: tuple[str, ...]
    unit: str
    about: str
    needs: frozenset[str] = frozenset()
    base: str | None = None
    analysis: tuple[str, str] | None = None
    reads: Literal["whole", "rows", "margins"] = "whole"

    @property
    def of_attention(self) -> bool:
        """Whether only layers that attend have it."""
        return "attention" in self.needs


# what is said of the rows of a decoder's maps, as coordinates beside whatever is measured
LABELS: dict[str, Variable] = {
    "sink": Variable(
        BY_TOKEN,
        "",
        "whether the first token holds more than half of the row's attention, mean of heads",
        reads="margins",
    ),
    "head_sink": Variable(
        HEAD_TOKEN, "", "whether the first token holds more than half of the row's attention", reads="margins"
    ),
}


@dataclass(frozen=True)
class Measure:
    """A row of the table. `over` says what the function named by `source` ("package.module:function") looks at:

    block   (Block, Settings) -> tensors without the layer axis, batch first
    layers  (tensors of the base maps with layer axis, batch second, Settings) -> the same
    model   (Settings) -> tensors with layer axis, no batch

    papers   keys of whence.citations.PAPERS, or BibTeX
    takes    the memory it works in, besides its results
    options  the dataclass of its options, if it has some
    axes     axes of its own, which no other measure has
    """

    about: str
    variables: Mapping[str, Variable]
    papers: tuple[str, ...]
    source: str
    takes: Takes = one_pass
    over: Literal["block", "layers", "model"] = "block"
    options: type[Options] = Options
    axes: Mapping[str, Axis] = field(default_factory=dict)

    @property
    def compute(self) -> Callable[..., Mapping[str, Tensor]]:
        module, name = self.source.split(":")
        return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Settings:
    """What a measure may look at besides the block: the model, the padding, which variables and how."""

    anatomy: Anatomy
    batch: Batch
    wanted: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[int, ...] | None = None
    targets: tuple[int, ...] | None = None
    top: int | None = None
    memory: int | None = None
    progress: Callable[[int, int], None] | None = None
    finished: Callable[[Tensor], None] | None = None
    "Is given the last states of the pass over the blocks, which goes on to them where less would do."

    @property
    def mask(self) -> Bool[Tensor, "b s"]:
        return self.batch.mask

    @property
    def places(self) -> list[int]:
        """The layers asked for, counted from 0."""
        return [layer - 1 for layer in self.layers or range(1, self.anatomy.layers + 1)]


def measures() -> dict[str, Measure]:
    """Every measure by name: the library's own, and those of other packages."""
    from whence.measures.table import MEASURES

    return plugins("whence.measures", Measure) | MEASURES


def variables() -> dict[str, Variable]:
    """Every variable by name."""
    return {name: variable for row in measures().values() for name, variable in row.variables.items()}


def owners() -> dict[str, str]:
    """The measure that each variable belongs to."""
    return {variable: name for name, row in measures().items() for variable in row.variables}


def axes() -> dict[str, Axis]:
    """Every axis by name, including those that measures define."""
    return {name: axis for row in measures().values() for name, axis in row.axes.items()} | AXES


def chosen(
    request: str | Options | Iterable[str | Options],
    gives: frozenset[str],
    family: str,
    reasons: Mapping[str, str] | None = None,
) -> tuple[dict[str, Variable], dict[str, Options]]:
    """The variables asked for, by their own names or that of a measure, and the options of each measure.

    Refuses what the model cannot give, and says why where that is known.
    """
    items = listed("measure", request, str, Options)
    if not items:
        raise BadInput("No measure was asked for; `whence measures` lists them.")
    selected: dict[str, Variable] = {}
    options: dict[str, Options] = {}
    for item in items:
        name = item if isinstance(item, str) else measure_of(item)
        expanded = _expanded(name)
        _check_axes(expanded)
        _check_given(name, expanded, gives, family, reasons or {})
        selected |= expanded
        if isinstance(item, Options):
            options[name] = item
    names = dict.fromkeys(owners()[name] for name in selected)
    return selected, {name: options.get(name) or measures()[name].options() for name in names}


def measure_of(options: Options) -> str:
    """The name of the measure whose options these are."""
    names = {row.options: name for name, row in measures().items() if row.options is not Options}
    if type(options) not in names:
        raise BadInput(f"{type(options).__name__} is the options of no measure that is installed.")
    return names[type(options)]


def _check_given(
    name: str, selected: Mapping[str, Variable], gives: frozenset[str], family: str, reasons: Mapping[str, str]
) -> None:
    possible = [variable_name for variable_name, variable in selected.items() if variable.needs <= gives]
    for variable_name, variable in selected.items():
        if variable_name not in possible:
            lacking = variable.needs - gives
            why = "".join(f" ({reasons[need]})" for need in sorted(lacking) if need in reasons)
            raise Unsupported(
                f"{variable_name!r} needs {_listed(lacking)}, which the family {family!r} does not give{why}; "
                + (f"of {name!r} ask for {_listed(possible)}." if possible else f"it gives {_listed(gives)}.")
            )


def _check_axes(selected: Mapping[str, Variable]) -> None:
    registered = axes()
    for name, variable in selected.items():
        if unknown := set(variable.dims) - registered.keys():
            raise Unsupported(
                f"{name!r} has the axis {min(unknown)!r}, which nothing knows the length of; its measure has to say it"
                f" (axes=), or use some of {_listed(registered)}."
            )


def given_by(gives: frozenset[str], names: Iterable[str]) -> list[str]:
    """The named measures all of whose variables a model with these capabilities can give."""
    return [name for name in names if all(variable.needs <= gives for variable in _expanded(name).values())]


def with_options(names: Iterable[str], options: Mapping[str, Any]) -> list[str | Options]:
    """Measures by name, each with the options it accepts; an option that none accepts is refused."""
    rows = [(name, measures()[owners().get(name, name)].options.names()) for name in names if _expanded(name)]
    available = {option for _, accepted in rows for option in accepted}
    for option in options:
        if option not in available:
            raise BadInput(f"No measure asked for has an option {option!r}; they have: {_listed(available) or 'none'}.")
    configured: list[str | Options] = []
    for name, accepted in rows:
        fitting = {option: value for option, value in options.items() if option in accepted}
        configured.append(measures()[owners().get(name, name)].options(**fitting) if fitting else name)
    return configured


def _expanded(name: str) -> Mapping[str, Variable]:
    if name in (table := measures()):
        return table[name].variables
    if name in (registered := variables()):
        return {name: registered[name]}
    raise BadInput(f"There is no measure {name!r}; there are: {_listed(table)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
