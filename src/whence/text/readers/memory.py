"""Tables in memory to sentences: data frames, Arrow tables, datasets, and rows as dicts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import pyarrow

from whence.errors import BadInput
from whence.text.readers.rows import Row
from whence.text.readers.skipped import Skipped
from whence.text.readers.tables import columns, sentences
from whence.text.sentence import Sentence


@runtime_checkable
class Columnar(Protocol):
    """What pandas, polars, DuckDB and pyarrow have: their columns as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def table(
    path: Any,
    skipped: Skipped,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    document: str | None = None,
) -> Iterator[Sentence]:
    """The rows of a table in memory; `path` is the table itself."""
    numbered = (Row(number, _cells(row)) for number, row in enumerate(rows(path), 1))
    return sentences(skipped.name, skipped, numbered, columns(text, pair, label, id, document))


def is_table(source: object) -> bool:
    """A frame, an Arrow table, a dataset, or rows: columns, or what gives one row after the other."""
    rows = isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping)
    return rows or isinstance(source, Columnar)


def rows(source: Any) -> Iterator[object]:
    """The rows, by the names of their columns."""
    if not isinstance(source, Columnar):
        yield from source
        return
    with pyarrow.RecordBatchReader.from_stream(source) as batches:
        for batch in batches:
            yield from batch.to_pylist()


def _cells(row: object) -> Mapping[str, object]:
    if not isinstance(row, Mapping):
        raise BadInput(
            f"A row of the table is a {type(row).__name__}, and columns by name were expected, as in {{'text': …}};"
            " a list of texts is a corpus as it is and needs no reading."
        )
    return row
