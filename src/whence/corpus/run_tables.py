"""The tables of a part: which columns each has, and how they are made from arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from whence.corpus.annotate import Coded
from whence.corpus.word_pairs import ACROSS, Pair
from whence.models.encode import LABELS

# for every sentence: column -> measured values, layer x token or layer x pair
Values = Sequence[Mapping[str, np.ndarray]]

SENTENCES: dict[str, tuple[pa.DataType, Callable[[Coded], object]]] = {
    "sentence": (pa.int64(), lambda coded: coded.number),
    "id": (pa.string(), lambda coded: coded.sentence.id),
    "document": (pa.string(), lambda coded: coded.sentence.document),
    "text": (pa.string(), lambda coded: coded.sentence.text),
    "pair": (pa.string(), lambda coded: coded.sentence.pair),
    "tokens": (pa.int32(), len),
    "words": (pa.int32(), lambda coded: len(coded.pieces)),
    "labels": (pa.map_(pa.string(), pa.string()), lambda coded: sorted(coded.sentence.labels.items())),
}


def _labels(coded: Coded, name: str) -> list[str | None]:
    return coded.encoded.labels(name)


TOKENS: dict[str, tuple[pa.DataType, Callable[[Coded], Sequence]]] = {
    "sentence": (pa.int64(), lambda coded: [coded.number] * len(coded)),
    "document": (pa.string(), lambda coded: [coded.sentence.document] * len(coded)),
    "position": (pa.int32(), lambda coded: range(len(coded))),
    "token": (pa.string(), lambda coded: coded.encoded.tokens),
    "token_id": (pa.int32(), lambda coded: coded.encoded.batch.ids[0].tolist()),
    "is_special": (pa.bool_(), lambda coded: coded.encoded.special),
    "class": (pa.string(), lambda coded: coded.classes),
    "word": (pa.string(), lambda coded: coded.encoded.words),
    "word_index": (pa.int32(), lambda coded: coded.word_ids),
    **{name: (pa.string(), partial(_labels, name=name)) for name in LABELS},
    "entity": (pa.string(), lambda coded: coded.encoded.entities()),
}

PAIRS: dict[str, tuple[pa.DataType, Callable[[Coded, Pair], object]]] = {
    "sentence": (pa.int64(), lambda coded, pair: coded.number),
    "document": (pa.string(), lambda coded, pair: coded.sentence.document),
    "kind": (pa.string(), lambda coded, pair: pair.kind),
    "relation": (pa.string(), lambda coded, pair: pair.relation),
    "target_is_governor": (pa.bool_(), lambda coded, pair: pair.target_is_governor),
    "coreferent": (pa.bool_(), lambda coded, pair: pair.coreferent),
    "target_index": (pa.int32(), lambda coded, pair: pair.target),
    "source_index": (pa.int32(), lambda coded, pair: pair.source),
    "distance": (pa.int32(), lambda coded, pair: None if pair.kind == ACROSS else pair.source - pair.target),
    "target_position": (pa.int32(), lambda coded, pair: coded.pieces[pair.target][0]),
    "source_position": (pa.int32(), lambda coded, pair: coded.pieces[pair.source][0]),
    "target_word": (pa.string(), lambda coded, pair: coded.sentence.word(pair.target)),
    "source_word": (pa.string(), lambda coded, pair: coded.sentence.word(pair.source)),
    "target_upos": (pa.string(), lambda coded, pair: coded.label(pair.target, "upos")),
    "source_upos": (pa.string(), lambda coded, pair: coded.label(pair.source, "upos")),
}

MAPS = pa.schema(
    [
        ("sentence", pa.int64()),
        ("variable", pa.string()),
        ("layer", pa.int16()),
        ("head", pa.int16()),
        ("tokens", pa.int32()),
        ("values", pa.list_(pa.float32())),
    ]
)


def sentence_table(sentences: Sequence[Coded]) -> pa.Table:
    columns = {name: pa.array([of(coded) for coded in sentences], type=kind) for name, (kind, of) in SENTENCES.items()}
    return pa.table(columns)


def token_table(sentences: Sequence[Coded], values: Values, layers: Sequence[int], names: Sequence[str]) -> pa.Table:
    """One row per token that has one and layer: sentence by sentence, layer by layer, token by token."""
    counts = [len(coded) - coded.first for coded in sentences]
    about = {
        name: pa.array([value for coded in sentences for value in of(coded)[coded.first :]], type=kind)
        for name, (kind, of) in TOKENS.items()
    }
    return _by_layer(about, counts, values, layers, names)


def pair_table(
    sentences: Sequence[Coded],
    pairs: Sequence[Sequence[Pair]],
    values: Values,
    layers: Sequence[int],
    names: Sequence[str],
) -> pa.Table:
    """One row per pair of words and layer, in the same order."""
    every = [(coded, pair) for coded, own_pairs in zip(sentences, pairs, strict=True) for pair in own_pairs]
    about = {name: pa.array([of(*item) for item in every], type=kind) for name, (kind, of) in PAIRS.items()}
    return _by_layer(about, [len(own_pairs) for own_pairs in pairs], values, layers, names)


def head_table(sentences: Sequence[Coded], values: Values, layers: Sequence[int], names: Sequence[str]) -> pa.Table:
    """One row per sentence, layer and head."""
    heads = next(iter(values[0].values())).shape[1] if values else 0
    numbers = [coded.number for coded in sentences]
    size = len(layers) * heads
    columns = {
        "sentence": pa.array(np.repeat(numbers, size), type=pa.int64()),
        "layer": pa.array(np.tile(np.repeat(layers, heads), len(numbers)), type=pa.int16()),
        "head": pa.array(np.tile(np.arange(heads), len(layers) * len(numbers)), type=pa.int16()),
    }
    for name in names:
        flat = [arrays[name].ravel() for arrays in values]
        columns[name] = pa.array(np.concatenate(flat) if flat else [], type=pa.float32())
    return pa.table(columns)


def map_table(rows: Sequence[tuple[int, str, int, int | None, np.ndarray]]) -> pa.Table:
    """One row per map: sentence, variable, layer, head; `values` is the map row by row, targets by sources."""
    sentence, variable, layer, head, maps = zip(*rows, strict=True) if rows else ((),) * 5
    offsets = np.cumsum([0, *(array.size for array in maps)], dtype=np.int32)
    flat = np.concatenate([array.ravel() for array in maps]) if maps else np.array([], dtype=np.float32)
    values = pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat.astype(np.float32)))
    return pa.table([sentence, variable, layer, head, [len(array) for array in maps], values], schema=MAPS)


def as_parquet(table: pa.Table) -> bytes:
    """The bytes of a Parquet file, which depend on the table alone: no times, no paths."""
    buffer = pa.BufferOutputStream()
    pyarrow.parquet.write_table(table, buffer, compression="zstd", store_schema=True)
    return buffer.getvalue().to_pybytes()


def _by_layer(
    about: Mapping[str, pa.Array], counts: Sequence[int], values: Values, layers: Sequence[int], names: Sequence[str]
) -> pa.Table:
    """The annotations of every item repeated for every layer, next to its measured values there."""
    starts = np.cumsum([0, *counts])
    ranges = [
        np.tile(np.arange(start, start + count), len(layers)) for start, count in zip(starts, counts, strict=False)
    ]
    items = pa.array(np.concatenate(ranges) if ranges else np.array([], dtype=int))
    repeated = [np.repeat(np.asarray(layers, dtype=np.int16), count) for count in counts]
    columns = {name: column.take(items) for name, column in about.items()}
    columns["layer"] = pa.array(np.concatenate(repeated) if repeated else [], type=pa.int16())
    for name in names:
        flat = [arrays[name].ravel() for arrays in values]
        kind = pa.bool_() if name.endswith("own_largest") else pa.float32()
        columns[name] = pa.array(np.concatenate(flat) if flat else [], type=kind)
    return pa.table(columns)
