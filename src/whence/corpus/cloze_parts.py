"""A corpus worked through in parts: tables in memory, or in a folder where finished parts are not done again."""

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from whence.corpus.store import MANIFEST, SCHEMA, Store, at, read_manifest, sound_record, write_part
from whence.errors import BadInput
from whence.models.fingerprint import LIBRARIES, weights_sha256
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE, digest, sealed
from whence.text.sentence import Sentence

Columns = Mapping[str, np.ndarray | Sequence[str]]
Progress = Callable[[int, int], None]
TABLE = "answers"
# what a manifest and a record must be when they are read back
SHAPE = {
    **dict.fromkeys(("kind", "dtype", "corpus"), str),
    "part_size": POSITIVE,
    "sentences": COUNT,
    "parameters": object,
    "versions": {str: str},
    "model": {"id": str, "revision": str | None, "weights_sha256": str},
}
RECORD = {"sentences": COUNT}


@dataclass(frozen=True)
class Course:
    """Which sentences, in parts of which size, into which folder (none: memory only)."""

    sentences: Sequence[Sentence]
    size: int
    out: str | Path | None
    progress: Progress | None

    def run(self, about: Mapping[str, Any], compute: Callable[[Sequence[Sentence]], Columns]) -> pa.Table:
        """compute(part) of all parts, joined; those that the folder has already are read from it."""
        store = None if self.out is None else at(self.out)
        with nullcontext() if store is None else store.locked():
            if store is not None:
                wanted = {**about, "corpus": _digest(self.sentences), "part_size": self.size}
                _begin(store, wanted, len(self.sentences))
                store = replace(store, run=digest(wanted))
            return pa.concat_tables([self._part(store, number, compute) for number in range(self.count)])

    @property
    def count(self) -> int:
        return -(-len(self.sentences) // self.size)

    def _part(self, store: Store | None, number: int, compute: Callable[[Sequence[Sentence]], Columns]) -> pa.Table:
        found = None if store is None else _read(store, number)
        if found is None:
            part = self.sentences[number * self.size : (number + 1) * self.size]
            found = _table(compute(part))
            if store is not None:
                write_part(store, number, {TABLE: _bytes(found)}, {"sentences": len(part)})
        if self.progress is not None:
            self.progress(min((number + 1) * self.size, len(self.sentences)), len(self.sentences))
        return found


def manifest(model: Model, kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the numbers depend on besides the corpus."""
    return {
        "kind": kind,
        "schema": SCHEMA,
        "model": {"id": model.id, "revision": model.revision, "weights_sha256": weights_sha256(model)},
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "parameters": json.loads(json.dumps(parameters, default=str)),
        "versions": {library: version(library) for library in LIBRARIES},
    }


def column(table: pa.Table, name: str, *shape: int) -> np.ndarray:
    """A column as an array: one value a row, or as many as the shape says."""
    if not shape:
        return table[name].to_numpy()
    return table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)


def _begin(store: Store, wanted: Mapping[str, Any], sentences: int) -> None:
    found = read_manifest(store, (wanted["kind"],), SHAPE)
    if found is None:
        store.write(MANIFEST, sealed({**wanted, "sentences": sentences}))
        return
    changed = [name for name in wanted if found.get(name) != wanted[name]]
    if changed:
        raise BadInput(
            f"{store.root!r} holds answers with another {changed[0].replace('_', ' ')}"
            f"{_fewer_or_more(found['sentences'], sentences)}; name another folder, or ask for the same."
        )


def _fewer_or_more(before: int, now: int) -> str:
    """A limit is the likeliest reason for another corpus."""
    return "" if before == now else f", of {before:,} sentences, and {now:,} were given"


def _read(store: Store, number: int) -> pa.Table | None:
    """A part that is done and undamaged."""
    if sound_record(store, number, RECORD) is None:
        return None
    return parquet.read_table(pa.BufferReader(store.read(f"{TABLE}/{number:05d}.parquet")))


def _table(columns: Columns) -> pa.Table:
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: np.ndarray | Sequence[str]) -> pa.Array:
    """Arrays with more than one axis become lists of one length."""
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(values.shape[1:])))


def _bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _digest(sentences: Sequence[Sentence]) -> str:
    digest = hashlib.sha256()
    for given in sentences:
        digest.update(json.dumps([given.text, given.pair, given.id, dict(given.labels)]).encode())
    return digest.hexdigest()
