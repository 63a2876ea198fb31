"""The manifest: what a folder of parts was made from, and whether the same work may resume there."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from whence.corpus.store import FILES, MANIFEST, SCHEMA, OtherRun, Store, part_numbers, read_manifest, read_record
from whence.errors import BadInput
from whence.models import fingerprint
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE, Damaged, Shape, digest, sealed

REFUSE = "refuse"  # sentences that are too long: the finished parts then have none
_SECTIONS = ("schema", "model", "plan", "versions")
_CHANGING = ("model id", "plan too_long")
# the shape of a record that is read back, and of the manifest of finished work
RECORD = {
    "sha256": str,
    "too_long?": str,
    "sentences": COUNT,
    "tokens?": COUNT,
    "skipped?": [{"sentence": COUNT, "why": str}],
}
FINISHED = {
    "corpus": {"sha256": str, **dict.fromkeys(("parts", "sentences", "tokens", "skipped"), COUNT)},
    "files": FILES,
}


def shape(plan: Mapping[str, Shape]) -> Shape:
    """The shape of a manifest that is read back, with these parameters beside the size of the parts."""
    return {
        "finished": bool,
        "corpus": {"name": str, "limit": int | None, "parts?": COUNT, "sha256?": str},
        "model": {
            **dict.fromkeys(("id", "family", "dtype", "device", "weights_sha256", "tokenizer_sha256"), str),
            "revision": str | None,
            "layers": COUNT,
            "heads": COUNT,
            "causal": bool,
        },
        "plan": {"part_size": POSITIVE, **plan},
        "versions": dict.fromkeys((*fingerprint.LIBRARIES, *fingerprint.FILES), str),
    }


def manifest(kind: str, model: Model, plan: Mapping[str, Any], corpus: object) -> dict[str, Any]:
    """The provenance of every number in the folder. Nothing here depends on the engine or on the time."""
    limit = getattr(corpus, "limit", None)
    name = str(getattr(corpus, "name", type(corpus).__name__))
    return {
        "kind": kind,
        "schema": SCHEMA,
        "finished": False,
        "corpus": {"name": name, "limit": limit if isinstance(limit, int) else None},
        "model": fingerprint.hashed(model),
        "plan": _settled(plan),
        "versions": dict(fingerprint.versions()),
    }


def run_id(manifest: Mapping[str, Any]) -> str:
    """A digest of everything that must be the same to resume; every part's record has it."""
    sections = [_flat(section, manifest[section]) for section in _SECTIONS]
    return digest([{name: value for name, value in content.items() if name not in _CHANGING} for content in sections])


def begun(store: Store, requested: dict[str, Any], expected: Shape) -> dict[str, Any]:
    """The manifest: written if the folder has none, otherwise compared with the one that is there."""
    there = read_manifest(store, (requested["kind"],), expected)
    if there is None:
        _check_parts(store, requested["plan"].get("too_long"))
        store.write(MANIFEST, sealed(requested))
        return requested
    if (why := _differs(there, requested)) is not None:
        raise BadInput(f"{store.root!r} holds another run: {why}; name another folder, or ask for the same.")
    return there | {"plan": requested["plan"]}


def _differs(before: Mapping[str, Any], requested: Mapping[str, Any]) -> str | None:
    """Why the work cannot resume: the first parameter that changed, in words."""
    for section in _SECTIONS:
        was, now = _flat(section, before.get(section)), _flat(section, requested[section])
        for name in sorted(was.keys() | now.keys()):
            if was.get(name) != now.get(name) and not _may_change(name, was.get(name)):
                parameter = name.removeprefix("plan ")
                return f"it was begun with {parameter} {was.get(name)!r}, and {now.get(name)!r} was asked for"
    return None


def _may_change(name: str, before: object) -> bool:
    """The path of the same weights may, and so may the treatment of too long sentences if there was none so far."""
    return name in _CHANGING and (name != "plan too_long" or before == REFUSE)


def _check_parts(store: Store, too_long: str | None) -> None:
    """Refuses parts of another run in a folder without a manifest; damaged ones are done again anyway."""
    for number in part_numbers(store):
        with suppress(Damaged):
            try:
                record = read_record(store, number, RECORD)
                same = record is None or record.get("too_long") in (too_long, REFUSE)
            except OtherRun:
                same = False
            if not same:
                raise BadInput(f"{store.root!r} has parts of another run, and no {MANIFEST}; name another folder.")


def _flat(section: str, content: object) -> dict[str, object]:
    return (
        {f"{section} {key}": value for key, value in content.items()}
        if isinstance(content, dict)
        else {section: content}
    )


def _settled(content: Any) -> Any:
    """As it will be read back from JSON."""
    if isinstance(content, Mapping):
        return {str(key): _settled(value) for key, value in content.items()}
    if isinstance(content, tuple | list):
        return [_settled(value) for value in content]
    return content if isinstance(content, str | int | float | bool | None) else str(content)
