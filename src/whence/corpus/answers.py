"""What a model answers to the masked sentences of a corpus, part by part: in memory, or in a folder that resumes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from whence._arguments import whole
from whence.corpus.manifest import manifest, shape
from whence.corpus.parts import cut
from whence.corpus.resume import Progress, resumed
from whence.corpus.run_tables import as_parquet
from whence.corpus.store import Store, at, part_numbers, write_part
from whence.errors import BadInput
from whence.models.load import Model
from whence.text.sentence import Sentence, sentences

Columns = Mapping[str, np.ndarray | Sequence[str]]
Compute = Callable[[Sequence[Sentence]], Columns]
TABLE = "answers"
SHAPE = shape({"stages?": [str], "recipes?": {str: object}, "rankings?": [str], "layered?": [str]})


def answers(
    kind: str,
    model: Model,
    settings: Mapping[str, Any],
    corpus: Iterable[object],
    compute: Compute,
    out: str | Path | None,
    part_size: int,
    progress: Progress | None,
) -> pa.Table:
    """compute(sentences) of every part, joined; with `out`, finished parts are read from that folder."""
    part_size = whole("part_size", part_size, 1)
    texts = list(sentences(corpus))
    if not texts:
        raise BadInput("The corpus is empty; give at least one sentence with a mask.")
    if out is None:
        return pa.concat_tables(_in_memory(texts, part_size, compute, progress))
    store, requested = at(out), manifest(kind, model, {"part_size": part_size, **settings}, corpus)
    with store.locked(), resumed(store, requested, SHAPE, texts, progress) as work:
        for part in work.pending():
            about = {"sha256": part.sha256, "sentences": len(part.sentences)}
            table = as_parquet(_table(compute(part.sentences)))
            work.count(write_part(work.store, part.number, {TABLE: table}, about))
        work.finish()
        return pa.concat_tables(_read(store))


def column(table: pa.Table, name: str, *shape: int) -> np.ndarray:
    """A column as an array: one value per row, or an array of this shape per row."""
    if not shape:
        return table[name].to_numpy()
    return table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)


def _in_memory(
    texts: Sequence[object], part_size: int, compute: Compute, progress: Progress | None
) -> Iterator[pa.Table]:
    for part in cut(texts, part_size):
        yield _table(compute(part.sentences))
        if progress is not None:
            progress(part.first + len(part.sentences), len(texts))


def _read(store: Store) -> Iterator[pa.Table]:
    for number in part_numbers(store):
        yield pyarrow.parquet.read_table(pa.BufferReader(store.read(f"{TABLE}/{number:05d}.parquet")))


def _table(columns: Columns) -> pa.Table:
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: np.ndarray | Sequence[str]) -> pa.Array:
    """Arrays with more than one axis become lists of a fixed length."""
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(values.shape[1:])))
