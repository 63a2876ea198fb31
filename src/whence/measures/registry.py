"""What can be measured: a table, one row per measure, and the names and axes of its variables."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.measures.takes import Takes, one_pass
from whence.models.anatomy import Anatomy
from whence.models.block import Batch

SCHEMA = 1

# the analyses a mixing ratio can come from: weights or norms, without and with the residual, past the norm
METHODS = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")

# axes
HEADS = ("layer", "head", "target", "source")
MAP = ("layer", "target", "source")
BY_HEAD = ("layer", "head")
RATIO = ("method", "layer", "target")
BY_LAYER = ("layer",)
BY_TOKEN = ("layer", "target")

AXES = frozenset({"layer", "head", "target", "source", "method", "distance", "neighbour"})

# what a model must give
ATTENTION = frozenset({"attention"})
ROWS = frozenset({"attention", "rows"})
VALUES = frozenset({"attention", "values"})
NORMS = frozenset({"attention", "values", "norms"})
DERIVATIVES = frozenset({"derivatives"})
NEURONS = NORMS | {"neurons"}


@dataclass(frozen=True)
class Variable:
    """One array of the Dataset. `base` names the map it is made from, for what is accumulated over layers."""

    dims: tuple[str, ...]
    unit: str
    about: str
    needs: frozenset[str]
    base: str | None = None

    @property
    def of_attention(self) -> bool:
        """Whether only layers that attend have it."""
        return "attention" in self.needs


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
    takes: Takes = one_pass
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
    layers: tuple[int, ...] | None = None
    progress: Callable[[int, int], None] | None = None

    @property
    def mask(self) -> Bool[Tensor, "b s"]:
        return self.batch.mask

    @property
    def places(self) -> list[int]:
        """The layers asked for, counted from 0."""
        return [layer - 1 for layer in self.layers or range(1, self.anatomy.layers + 1)]


_NORM = "length"
_SHARE = "share"
_TOLERANCE = {"tolerance": None}

# maps that can be accumulated over layers, and what each needs
_MAPS = {
    "attn_w": Variable(MAP, _SHARE, "attention weight, mean of the heads", ROWS),
    "attn_n": Variable(MAP, _NORM, "length of the vector the attention carries from source to target", NORMS),
    "attnres_w": Variable(MAP, _SHARE, "half the attention weight, half the token itself for the residual", ROWS),
    "attnres_n": Variable(MAP, _NORM, "the same length with the residual added to the token itself", NORMS),
    "attnresln_n": Variable(MAP, _NORM, "the same length past the norm that follows the residual", NORMS),
}
_BLOCK = {"block_n": Variable(MAP, _NORM, "length of the vector from source to target in the whole block", NEURONS)}
_ALTI = {"alti": Variable(MAP, _SHARE, "how much nearer a source's vector brings the target to its state", NORMS)}
_ZEROING = {"value_zeroing": Variable(MAP, _SHARE, "change of the block's output without the source's value", NORMS)}

_START = {"start": "embedding", "memory": None}
_CHOSEN = {"norm": "frobenius", "targets": None, "sources": None}
_SKETCH = {"mode": "auto", "error": 0.02, "seed": 0}

MEASURES: dict[str, Measure] = {
    "attention": Measure(
        about="The attention weights as the model computed them.",
        variables={"attention": Variable(HEADS, _SHARE, "weight of a source in a target's new vector", ATTENTION)},
        papers=("vaswani2017",),
        source="blocks:attention",
    ),
    "effective": Measure(
        about="The part of the attention that reaches the head's output.",
        variables={"effective": Variable(HEADS, "weight", "attention without its part in the null space", VALUES)},
        papers=("brunner2020",),
        source="blocks:effective",
        options=_TOLERANCE,
    ),
    "effective_correlation": Measure(
        about="How alike attention and its effective part are.",
        variables={
            "effective_correlation": Variable(BY_HEAD, "correlation", "Pearson's, over all pairs of tokens", VALUES)
        },
        papers=("brunner2020",),
        source="blocks:effective_correlation",
        options=_TOLERANCE,
    ),
    "null": Measure(
        about="The part of the attention that has no effect on the head's output.",
        variables={"null": Variable(HEADS, "weight", "attention inside the null space", VALUES)},
        papers=("brunner2020",),
        source="blocks:effective",
        options=_TOLERANCE,
    ),
    "rank": Measure(
        about="How many directions a head's values span, and how many changes of attention they cannot see.",
        variables={
            "rank": Variable(BY_HEAD, "dimensions", "numerical rank of the values past the projection", VALUES),
            "nullity": Variable(BY_HEAD, "dimensions", "changes of a row without effect", VALUES),
            "nullity_sums": Variable(BY_HEAD, "dimensions", "those of them that keep the row's sum", VALUES),
        },
        papers=("brunner2020",),
        source="blocks:rank",
        options=_TOLERANCE,
    ),
    "minimum": Measure(
        about="The smallest attention with the same head output and row sums.",
        variables={"minimum": Variable(HEADS, "weight", "smallest weights that do the same; may be negative", VALUES)},
        papers=("brunner2020",),
        source="blocks:minimum",
        options=_TOLERANCE,
    ),
    "minimum_simplex": Measure(
        about="The smallest probability distribution with the same head output.",
        variables={"minimum_simplex": Variable(HEADS, _SHARE, "smallest distribution that does it", VALUES | ROWS)},
        papers=("brunner2020",),
        source="blocks:minimum_simplex",
        options=_TOLERANCE,
    ),
    "norms": Measure(
        about="How much each source gives each target in the attention part of a block, by weight and by norm.",
        variables=_MAPS,
        papers=("kobayashi2020", "kobayashi2021"),
        source="blocks:norms",
    ),
    "norms_heads": Measure(
        about="The same by head, before the residual.",
        variables={"attn_n_heads": Variable(HEADS, _NORM, "length of what a head carries", NORMS)},
        papers=("kobayashi2020",),
        source="blocks:norms_heads",
    ),
    "mixing": Measure(
        about="How much of each token's new vector came from other tokens, by five methods.",
        variables={"mixing": Variable(RATIO, _SHARE, "share that came from other tokens", NORMS)},
        papers=("kobayashi2021",),
        source="blocks:norms",
    ),
    "block": Measure(
        about="How much each source gives each target in a whole block, feed-forward included.",
        variables=_BLOCK,
        papers=("kobayashi2024",),
        source="blocks:block",
        options={"block_error": None, "seed": 0},
    ),
    "alti": Measure(
        about="Share of each source in the state after attention, by how much nearer it brings the target.",
        variables=_ALTI,
        papers=("ferrando2022",),
        source="blocks:alti",
    ),
    "value_zeroing": Measure(
        about="Share of each source in a block's output, by what its absence changes.",
        variables=_ZEROING,
        papers=("mohebbi2023",),
        source="blocks:value_zeroing",
    ),
    "expansion": Measure(
        about="How much longer the attention's map makes a vector, from the weights alone.",
        variables={"expansion": Variable(BY_LAYER, "factor", "root mean square of the singular values", NORMS)},
        papers=("kobayashi2021",),
        source="blocks:expansion",
        over="model",
    ),
    "contribution": Measure(
        about="How much each input token contributed to each hidden token (Hidden Token Attribution).",
        variables={
            "contribution": Variable(MAP, _SHARE, "share of an input token in a hidden token", DERIVATIVES),
            "contribution_error": Variable(MAP, _SHARE, "its standard error; zero when exact", DERIVATIVES),
            "contribution_probes": Variable((), "directions", "tried of each input token", DERIVATIVES),
            "contribution_misplaced": Variable((), _SHARE, "expected at the wrong input token", DERIVATIVES),
        },
        papers=("brunner2020",),
        source="flow.variables:flow",
        over="model",
        options=_START | _CHOSEN | _SKETCH,
    ),
    "jacobian": Measure(
        about="How strongly each hidden token reacts to each input token.",
        variables={
            "jacobian": Variable(MAP, "norm", "norm of the derivative by the input token", DERIVATIVES),
            "jacobian_error": Variable(MAP, "norm", "its standard error; zero when exact", DERIVATIVES),
            "jacobian_probes": Variable((), "directions", "tried of each input token", DERIVATIVES),
            "jacobian_misplaced": Variable((), _SHARE, "expected at the wrong input token", DERIVATIVES),
        },
        papers=("brunner2020",),
        source="flow.variables:flow",
        over="model",
        options=_START | _CHOSEN | _SKETCH,
    ),
    "origin": Measure(
        about="What contributions say in a few numbers: what is left of a token, and from how far the rest came.",
        variables={
            "self_contribution": Variable(BY_TOKEN, _SHARE, "share of the token itself", DERIVATIVES),
            "own_largest": Variable(BY_TOKEN, "0 or 1", "whether it is its own largest contributor", DERIVATIVES),
            "by_distance": Variable(
                ("layer", "distance"), "tokens", "total contribution by place, source - target", DERIVATIVES
            ),
            "by_neighbour": Variable(
                ("layer", "target", "neighbour"), _SHARE, "mean contribution of a group of neighbours", DERIVATIVES
            ),
        },
        papers=("brunner2020",),
        source="flow.variables:flow",
        over="model",
        options=_START | _CHOSEN | _SKETCH,
    ),
    "jacobian_local": Measure(
        about="How strongly each token after a block reacts to each token before it, exact.",
        variables={"jacobian_local": Variable(MAP, "norm", "norm of the derivative in one block", DERIVATIVES)},
        papers=("brunner2020",),
        source="flow.variables:local",
        over="model",
        options=_CHOSEN | {"memory": None},
    ),
    "gradient": Measure(
        about="G*: gradient of the sum of a hidden token's components by each input token.",
        variables={"gradient": Variable(MAP, "norm", "length of the gradient by the input token", DERIVATIVES)},
        papers=("westera2019",),
        source="flow.variables:gradients",
        over="model",
        options=_START,
    ),
    "gradient_local": Measure(
        about="G: the same in one block.",
        variables={"gradient_local": Variable(MAP, "norm", "length of the gradient in one block", DERIVATIVES)},
        papers=("westera2019",),
        source="flow.variables:gradients_local",
        over="model",
        options={"memory": None},
    ),
    "rollout": Measure(
        about="Any of the maps accumulated over layers, rows as shares; see the docs for when it misleads.",
        variables={
            f"rollout_{name}": Variable(
                MAP, _SHARE, f"{name} accumulated over layers", entry.needs | {"attention throughout"}, base=name
            )
            for name, entry in (_MAPS | _BLOCK | _ALTI | _ZEROING).items()
        },
        papers=("abnar2020",),
        source="blocks:rollouts",
        over="layers",
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
    found: dict[str, Variable] = {}
    for given in wanted:
        variables_of = _expanded(given)
        _check_axes(variables_of)
        possible = [name for name, variable in variables_of.items() if variable.needs <= gives]
        for name, variable in variables_of.items():
            if name not in possible:
                raise Unsupported(
                    f"{name!r} needs {_listed(variable.needs - gives)}, which the family {family!r} does not give; "
                    + (f"of {given!r} ask for {_listed(possible)}." if possible else f"it gives {_listed(gives)}.")
                )
        found |= variables_of
    return found


def _check_axes(found: Mapping[str, Variable]) -> None:
    """Measures can be added to the table; one with an axis of its own could be neither sized nor labelled."""
    for name, variable in found.items():
        if unknown := set(variable.dims) - AXES:
            raise Unsupported(
                f"{name!r} has the axis {min(unknown)!r}, which nothing knows the length of; register it with some of"
                f" {_listed(AXES)}."
            )


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
