"""What a run is to measure, checked before any work, and everything that its numbers depend on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from whence._arguments import LARGEST, whole
from whence.corpus.store import FILES, SCHEMA
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
from whence.models.anatomy import Anatomy
from whence.models.fingerprint import LIBRARIES, tokenizer_sha256, weights_sha256
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE, digest
from whence.sentence.measure import layers_of, settled_options

KIND = "run"
# axes a run has columns for; numbers of one sentence (how many directions a sketch tried) are not kept
KEPT = (MAP, HEADS, RATIO, BY_HEAD)
THREADS = 4096  # more than any machine has
TOO_LONG = ("refuse", "truncate", "skip")
# parameters that are whole numbers, the least and the most
COUNTS = {
    "part_size": (1, LARGEST),
    "batch_tokens": (1, LARGEST),
    "threads": (1, THREADS),
    "neighbours": (0, LARGEST),
}
# what tokens can be grouped by in the moments, besides all together
GROUPS = ("class", "upos", "xpos", "deprel", "ner")

_SECTIONS = ("schema", "model", "plan", "versions")
_CHANGING = ("model id", "plan too_long")
_LIBRARIES = ("whence", *LIBRARIES, "pyarrow")
_DIGEST = str
# what a manifest must be when it is read back
SHAPE = {
    "finished": bool,
    "corpus": {"name": str, "limit": int | None, "parts?": COUNT, "sha256?": _DIGEST},
    "model": {
        **dict.fromkeys(("id", "family", "dtype", "device"), str),
        **dict.fromkeys(("weights_sha256", "tokenizer_sha256"), _DIGEST),
        "revision": str | None,
        "layers": COUNT,
        "heads": COUNT,
        "causal": bool,
    },
    "plan": {
        **{name: [str] for name in ("measures", "variables", "by")},
        **dict.fromkeys(("part_size", "batch_tokens", "threads"), POSITIVE),
        "options": {str: object},
        "layers": [POSITIVE],
        "maps": bool,
        "neighbours": COUNT,
        "too_long": str,
    },
    "seed": int,
    "versions": dict.fromkeys(_LIBRARIES, str),
}
# and besides, when the run is finished
FINISHED = {
    "corpus": {"sha256": _DIGEST, **dict.fromkeys(("parts", "sentences", "tokens", "skipped"), COUNT)},
    "files": FILES,
}
RECORD = {
    "sha256": _DIGEST,
    "too_long": str,
    "sentences": COUNT,
    "tokens": COUNT,
    "skipped": [{"sentence": COUNT, "why": str}],
}


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
    counts = {name: whole(name, asked[name], least, most) for name, (least, most) in COUNTS.items()}
    kept = _kept(wanted, named, asked["maps"])
    if wrong := [name for name in ("targets", "sources") if options.get(name) is not None]:
        raise BadInput(f"{wrong[0]!r} names positions of one sentence, and a corpus has many; leave it out.")
    return Plan(
        measures=names,
        variables=kept,
        options=settled_options(names, options),
        layers=tuple(_layers(asked["layers"], wanted, model.anatomy)),
        by=tuple(asked["by"]),
        maps=asked["maps"],
        too_long=asked["too_long"],
        **counts,
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


def _layers(asked: int | Iterable[int] | None, wanted: Mapping[str, Variable], anatomy: Anatomy) -> list[int]:
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


def manifest(model: Model, plan: Plan, corpus: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of every number of the run. Nothing here depends on the engine or on the time."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "finished": False,
        "corpus": dict(corpus),
        "model": _about(model),
        "plan": _settled(asdict(plan)),
        "seed": int(plan.options.get("seed", 0)),
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def identity(manifest: Mapping[str, Any]) -> str:
    """A digest of all that keeps a run from being gone on with, by which its parts know it."""
    sections = [_flat(section, manifest[section]) for section in _SECTIONS]
    return digest([{name: value for name, value in each.items() if name not in _CHANGING} for each in sections])


def differs(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """What keeps a run from being gone on with: the first parameter that is not what it was, in words."""
    for section in _SECTIONS:
        before, now = _flat(section, found.get(section)), _flat(section, wanted[section])
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name) and not _may_change(name, before.get(name)):
                said = name.removeprefix("plan ")
                return f"it was begun with {said} {before.get(name)!r}, and {now.get(name)!r} was asked for"
    return None


def _check(asked: Mapping[str, Any]) -> None:
    if asked["too_long"] not in TOO_LONG:
        raise BadInput(f"too_long is one of {', '.join(TOO_LONG)}, and {asked['too_long']!r} was given.")
    if wrong := [name for name in asked["by"] if name not in GROUPS]:
        raise BadInput(f"Moments can be grouped by {', '.join(GROUPS)}, and {wrong[0]!r} was given.")


def _about(model: Model) -> dict[str, Any]:
    return {
        "id": model.id,
        "revision": model.revision,
        "family": model.anatomy.family,
        "layers": model.anatomy.layers,
        "heads": model.anatomy.heads,
        "causal": model.anatomy.causal,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "device": model.model.device.type,
        "weights_sha256": weights_sha256(model),
        "tokenizer_sha256": tokenizer_sha256(model.tokenizer),
    }


def _may_change(name: str, before: object) -> bool:
    """Another path to the same weights; and parts done so far had nothing too long if such was refused."""
    return name in _CHANGING and (name != "plan too_long" or before == TOO_LONG[0])


def _flat(section: str, content: object) -> dict[str, object]:
    return (
        {f"{section} {key}": value for key, value in content.items()}
        if isinstance(content, dict)
        else {section: content}
    )


def _settled(content: Any) -> Any:
    """As JSON will give it back."""
    if isinstance(content, Mapping):
        return {str(key): _settled(value) for key, value in content.items()}
    if isinstance(content, tuple | list):
        return [_settled(value) for value in content]
    return content if isinstance(content, str | int | float | bool | None) else str(content)
