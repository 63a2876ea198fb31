"""What a run is to measure, checked before any work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.corpus.manifest import REFUSE, shape
from whence.corpus.summaries import quantities
from whence.errors import BadInput, Unsupported
from whence.measures.registry import (
    BY_HEAD,
    BY_LAYER,
    HEADS,
    MAP,
    METHODS,
    RATIO,
    Variable,
    chosen,
    owners,
    variables,
)
from whence.measures.request import layers_of, settled_options
from whence.models.anatomy import Anatomy
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE

KIND = "run"
# axes a run has columns for; numbers of one sentence (how many directions a sketch tried) are not kept
KEPT = (MAP, HEADS, RATIO, BY_HEAD)
WHEN_TOO_LONG = (REFUSE, "truncate", "skip")
# of a plan in a manifest that is read back
SHAPE = shape(
    {
        **{name: [str] for name in ("measures", "variables", "by")},
        **dict.fromkeys(("batch_tokens", "threads"), POSITIVE),
        "options": {str: object},
        "layers": [POSITIVE],
        "maps": bool,
        "neighbours": COUNT,
        "too_long": str,
    }
)
# what tokens can be grouped by in the moments, besides all together
GROUPS = ("class", "upos", "xpos", "deprel", "ner")


@dataclass(frozen=True)
class Plan:
    """The parameters of a run; together with model and corpus they settle every byte of its tables."""

    measures: tuple[str, ...]
    variables: tuple[str, ...]
    options: Mapping[str, Any]
    layers: tuple[int, ...]
    maps: bool
    neighbours: int
    by: tuple[str, ...]
    too_long: str
    part_size: int
    batch_tokens: int
    threads: int

    def of_dims(self, *dims: tuple[str, ...]) -> list[str]:
        """The variables with these axes."""
        return [name for name in self.variables if variables()[name].dims in dims]

    @property
    def map_names(self) -> list[str]:
        """Variables that become a column of pairs: maps, or the mean of the heads' maps."""
        return [name for name in self.of_dims(MAP, HEADS) if not name.endswith("_error")]

    @property
    def token_columns(self) -> list[str]:
        """Columns of the table of tokens that were measured."""
        ratios = [f"{name}_{method}" for name in self.of_dims(RATIO) for method in METHODS]
        return ratios + [f"{name}_{part}" for name in self.map_names for part in quantities(variables()[name].unit)]


def planned(model: Model, measures: str | Iterable[str], options: Mapping[str, Any], **asked: Any) -> Plan:
    """The plan, or one sentence on what cannot be done."""
    named = (measures,) if isinstance(measures, str) else tuple(measures)
    wanted = chosen(named, model.gives, model.anatomy.family)
    for name, variable in wanted.items():
        if variable.dims == BY_LAYER:
            raise Unsupported(f"{name!r} is about the model, not about a text; ask whence.measure for it.")
        if owners()[name] == "origin":
            raise Unsupported(f"{name!r} is summed up from contributions; ask for 'contribution'.")
    names = tuple(dict.fromkeys(owners()[variable] for variable in wanted))
    _check(asked)
    kept = _kept(wanted, named, asked["maps"])
    if wrong := [name for name in ("targets", "sources") if options.get(name) is not None]:
        raise BadInput(f"{wrong[0]!r} names positions of one sentence, and a corpus has many; leave it out.")
    return Plan(
        measures=names,
        variables=kept,
        options=settled_options(names, options),
        layers=tuple(_layers(asked["layers"], wanted, model.anatomy)),
        by=tuple(asked["by"]),
        **{name: asked[name] for name in ("maps", "neighbours", "too_long", "part_size", "batch_tokens", "threads")},
    )


def _kept(wanted: Mapping[str, Variable], asked: Sequence[str], maps: bool) -> tuple[str, ...]:
    """The variables that have a table; a sentence's one number, or an error without maps, goes beside them only."""
    kept = [
        name for name, variable in wanted.items() if variable.dims in KEPT and (maps or not name.endswith("_error"))
    ]
    measured = {owners()[name] for name in kept}
    for name, variable in wanted.items():
        if name in kept:
            continue
        if variable.dims in KEPT and (name in asked or owners()[name] not in measured):
            raise BadInput(f"{name!r} is stored beside the map it is the error of; ask for maps=True (--maps).")
        if variable.dims not in KEPT and (variable.dims or owners()[name] not in measured):
            raise Unsupported(
                f"{name!r} has {_axes(variable.dims)}, and a run stores what has {' or '.join(map(_axes, KEPT))}; ask"
                " whence.measure for it."
            )
    return tuple(kept)


def _axes(dims: tuple[str, ...]) -> str:
    return f"the axes ({', '.join(dims)})" if dims else "no axes"


def _layers(asked: Iterable[int] | None, wanted: Mapping[str, Variable], anatomy: Anatomy) -> list[int]:
    """Layers that have every variable, so that no row of a table is empty in part."""
    attention = [name for name, variable in wanted.items() if variable.of_attention]
    if asked is None and len(attention) == len(wanted):
        return list(anatomy.attending)
    found = layers_of(asked, anatomy.layers)
    if attention and not set(found) <= set(anatomy.attending):
        raise BadInput(
            f"{attention[0]!r} is there in layers {anatomy.listed_attending} alone, which attend; name some of them, or"
            " measure apart what other layers have."
        )
    return found


def _check(asked: Mapping[str, Any]) -> None:
    for name in ("part_size", "batch_tokens", "threads"):
        if asked[name] < 1:
            raise BadInput(f"{name} is at least 1, and {asked[name]} was given.")
    if asked["neighbours"] < 0:
        raise BadInput(f"neighbours is at least 0, and {asked['neighbours']} was given.")
    if asked["too_long"] not in WHEN_TOO_LONG:
        raise BadInput(f"too_long is one of {', '.join(WHEN_TOO_LONG)}, and {asked['too_long']!r} was given.")
    if wrong := [name for name in asked["by"] if name not in GROUPS]:
        raise BadInput(f"Moments can be grouped by {', '.join(GROUPS)}, and {wrong[0]!r} was given.")
