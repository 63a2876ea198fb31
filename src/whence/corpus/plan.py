"""What a run is to measure, checked before any work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence._arguments import LARGEST, layers, listed, whole
from whence.corpus.manifest import REFUSE, shape
from whence.corpus.summaries import quantities
from whence.errors import BadInput, Unsupported
from whence.measures.options import Options
from whence.measures.registry import (
    BY_HEAD,
    BY_LAYER,
    BY_TOKEN,
    HEAD_TOKEN,
    HEADS,
    MAP,
    Variable,
    axes,
    chosen,
    owners,
    variables,
)
from whence.measures.registry import measures as registered
from whence.measures.request import layers_of, parameters_of
from whence.models.anatomy import Anatomy
from whence.models.inputs import TEXT, textless
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE
from whence.sentence.two_stacks import CHAINED, TOGETHER
from whence.sentence.why import measures_of

KIND = "run"
# about predictions, as whence.why takes them; they have tables of their own
WHY = "why"
PREDICTIONS = {WHY: ("share", "dependence"), "share": ("share",), "dependence": ("dependence",)}
# the axes a table can have as rows; a variable may also have axes that are kept as columns
KEPT = (MAP, HEADS, BY_TOKEN, HEAD_TOKEN, BY_HEAD)
THREADS = 4096  # more than any machine has
WHEN_TOO_LONG = (REFUSE, "truncate", "skip")
# parameters that are whole numbers, with their bounds
COUNTS = {
    "part_size": (1, LARGEST),
    "batch_tokens": (1, LARGEST),
    "threads": (1, THREADS),
    "neighbours": (0, LARGEST),
}
# the shape of a manifest that is read back
SHAPE = shape(
    {
        **{name: [str] for name in ("measures", "variables", "by")},
        **dict.fromkeys(("batch_tokens", "threads"), POSITIVE),
        "options": {str: {str: object}},
        "layers": [COUNT],
        "maps": bool,
        "neighbours": COUNT,
        "too_long": str,
    }
)
# what tokens can be grouped by in the moments, besides all together
GROUPS = ("class", "upos", "xpos", "deprel", "ner")


@dataclass(frozen=True)
class Plan:
    """The parameters of a run; together with model and corpus they determine every byte of its tables."""

    measures: tuple[str, ...]
    variables: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    layers: tuple[int, ...]
    maps: bool
    neighbours: int
    by: tuple[str, ...]
    too_long: str
    part_size: int
    batch_tokens: int
    threads: int

    def of_dims(self, *dims: tuple[str, ...]) -> list[str]:
        """The variables with these axes as rows."""
        return [name for name in self.variables if row_axes(variables()[name]) in dims]

    @property
    def map_names(self) -> list[str]:
        """Variables that become a column of pairs: maps, or the mean of the heads' maps."""
        return [name for name in self.of_dims(MAP, HEADS) if not name.endswith("_se")]

    @property
    def token_columns(self) -> list[str]:
        """The measured columns of the table of tokens."""
        known = variables()
        of_tokens = [column for name in self.of_dims(BY_TOKEN, HEAD_TOKEN) for column in columns(name, known[name])]
        return of_tokens + [f"{name}_{part}" for name in self.map_names for part in quantities(known[name].unit)]

    @property
    def settings(self) -> dict[str, Options]:
        """The options of each measure, as they were given."""
        table = registered()
        return {name: table[name].options(**self.options.get(name, {})) for name in self.measures}


def row_axes(variable: Variable) -> tuple[str, ...] | None:
    """The axes that are rows of a table; None if the variable has one that a run does not keep."""
    known = axes()
    if any(known[dim].kept is None for dim in variable.dims):
        return None
    return tuple(dim for dim in variable.dims if known[dim].kept == "rows")


def columns(name: str, variable: Variable) -> list[str]:
    """The names of its columns: one for each label of each axis kept as columns, as in mixing_attn_n."""
    known, names = axes(), [name]
    for dim in variable.dims:
        if known[dim].kept == "columns":
            labels = known[dim].labels(0)
            names = [f"{column}_{label}" for column in names for label in labels]
    return names


def planned(model: Model, measures: str | Options | Iterable[str | Options], **parameters: Any) -> Plan:
    """The plan, or one sentence on what cannot be done."""
    named = tuple(listed("measure", measures, str, Options))
    if any(name in PREDICTIONS for name in named if isinstance(name, str)):
        return _of_predictions(model, named, parameters)
    requested, options = chosen(named, model.gives, model.anatomy.family, model.reasons)
    for name, variable in requested.items():
        if variable.dims == BY_LAYER:
            raise Unsupported(f"{name!r} is about the model, not about a text; ask whence.measure for it.")
        if owners()[name] == "origin":
            raise Unsupported(f"{name!r} is summed up from contributions; ask for 'contribution'.")
    _check(parameters)
    if model.encoder is not None:
        _check_pairs(requested, parameters["maps"])
    counts = {name: whole(name, parameters[name], least, most) for name, (least, most) in COUNTS.items()}
    kept = _kept(requested, named, parameters["maps"])
    if any(values.get("sources") is not None for values in parameters_of(options).values()):
        raise BadInput("'sources' names positions of one sentence, and a corpus has many; leave it out.")
    return Plan(
        measures=tuple(options),
        variables=kept,
        options=parameters_of(options),
        layers=tuple(_layers(parameters["layers"], requested, model.anatomy)),
        by=tuple(parameters["by"]),
        maps=parameters["maps"],
        too_long=parameters["too_long"],
        **counts,
    )


def _of_predictions(model: Model, named: Sequence[str | Options], parameters: Mapping[str, Any]) -> Plan:
    """A run about what predictions rest on; where no layer is named, on the embeddings' output, layer 0."""
    if model.encoder is None and model.reads != TEXT:
        raise Unsupported(
            f"A run about predictions is of tokens, and {textless(model.model)}; whence.why explains its classes, one"
            " input at a time."
        )
    others = [name for name in named if not isinstance(name, str) or name not in PREDICTIONS]
    if others:
        raise BadInput(
            f"{WHY!r} is about predictions and has tables of its own, so it does not go with {others[0]!r}; run both,"
            " each into a folder of its own."
        )
    if parameters["maps"]:
        raise BadInput(f"{WHY!r} has no maps; its shares and dependences are all in the table of pairs.")
    _check(parameters)
    chosen = (0,) if parameters["layers"] is None else parameters["layers"]
    counts = {name: whole(name, parameters[name], least, most) for name, (least, most) in COUNTS.items()}
    variables = {variable: None for name in named for variable in PREDICTIONS[str(name)]}
    return Plan(
        measures=(WHY,),
        variables=tuple(measures_of(model, list(variables))),
        options={},
        layers=tuple(sorted(set(layers(chosen, 0, model.anatomy.chained, some=True)))),
        by=(),
        maps=False,
        too_long=parameters["too_long"],
        **(counts | {"neighbours": 0}),
    )


def _kept(requested: Mapping[str, Variable], names: Sequence[str | Options], maps: bool) -> tuple[str, ...]:
    """The variables that are stored; a standard error only beside its map."""
    kept = [name for name in requested if maps or not name.endswith("_se")]
    measured = {owners()[name] for name in kept}
    for name, variable in requested.items():
        if row_axes(variable) not in KEPT:
            known = " or ".join(f"({', '.join(dims)})" for dims in KEPT)
            raise Unsupported(
                f"{name!r} has the axes ({', '.join(variable.dims)}), and a run stores what has, besides axes that are"
                f" kept as columns, {known}; ask whence.measure for it."
            )
        if name not in kept and (name in names or owners()[name] not in measured):
            raise BadInput(f"{name!r} is stored beside the map it is the error of; ask for maps=True (--maps).")
    return tuple(kept)


def _check_pairs(requested: Mapping[str, Variable], maps: bool) -> None:
    """Of an encoder-decoder there are the rows that go over both texts."""
    if maps:
        raise BadInput("Maps over two texts are not kept (maps=True); whence.measure gives them, pair by pair.")
    for name, variable in requested.items():
        if owners()[name] not in TOGETHER | CHAINED or row_axes(variable) not in (MAP, BY_TOKEN):
            known = ", ".join(sorted(TOGETHER | CHAINED))
            raise Unsupported(
                f"A run over pairs has what goes over both texts ({known}), and {name!r} was asked for; ask"
                " whence.measure for it."
            )


def _layers(layers: int | Iterable[int] | None, requested: Mapping[str, Variable], anatomy: Anatomy) -> list[int]:
    """Layers that have every variable, so that no row of a table has gaps."""
    attention = [name for name, variable in requested.items() if variable.of_attention]
    if layers is None and len(attention) == len(requested):
        return list(anatomy.attending)
    numbers = layers_of(layers, anatomy.layers)
    if attention and not set(numbers) <= set(anatomy.attending):
        raise BadInput(
            f"{attention[0]!r} is there in layers {anatomy.listed_attending} alone, which attend; name some of them, or"
            " measure apart what other layers have."
        )
    return numbers


def _check(parameters: Mapping[str, Any]) -> None:
    if parameters["too_long"] not in WHEN_TOO_LONG:
        raise BadInput(f"too_long is one of {', '.join(WHEN_TOO_LONG)}, and {parameters['too_long']!r} was given.")
    if wrong := [name for name in listed("group", parameters["by"]) if name not in GROUPS]:
        raise BadInput(f"Moments can be grouped by {', '.join(GROUPS)}, and {wrong[0]!r} was given.")
