"""The moments of a part, accumulated batch by batch so that no values are kept, and those of all parts merged."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
from einops import rearrange

from whence.corpus.annotate import Coded
from whence.corpus.measure_batch import Measured
from whence.corpus.moments import NAMES, Moments, grouped, merge, merged
from whence.corpus.store import Store
from whence.sealed import Damaged

MOMENTS = "moments.parquet"  # of all parts
ALL = "all"
NONE = ""
UNLABELLED = -1
KEYS = ("variable", "layer", "head", "by", "group", "source")
SCHEMA = pa.schema(
    [
        ("variable", pa.string()),
        ("layer", pa.int16()),
        ("head", pa.int16()),
        ("by", pa.string()),
        ("group", pa.string()),
        ("source", pa.string()),
        ("count", pa.int64()),
        ("mean", pa.float64()),
        ("m2", pa.float64()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
    ]
)


# kind of array -> its axes as layer, head or 1, source class or 1, then sentences and tokens
_PATTERNS = {
    "tokens": "b l t -> l 1 1 b t",
    "heads": "b l h t -> l h 1 b t",
    "classes": "b l t c -> l 1 c b t",
    "classes_heads": "b l h t c -> l h c b t",
}


@dataclass
class Collected:
    """Moments by (variable, kind of array, grouping), with axes layer, head, source class, group."""

    groups: dict[str, list[str]]
    "Grouping -> the names of its groups in this part."
    classes: list[str]
    moments: dict[tuple[str, str, str], Moments] = field(default_factory=dict)

    def add(self, measured: Measured, sentences: list[Coded]) -> None:
        real = _real(sentences)
        codes = {by: self._codes(by, sentences) for by in self.groups}
        labelled = {by: group_codes != UNLABELLED for by, group_codes in codes.items()}
        for kind, pattern in _PATTERNS.items():
            for name, padded in getattr(measured, kind).items():
                values = rearrange(padded, pattern)[..., real]
                for by, names in self.groups.items():
                    chosen = labelled[by]
                    self._put((name, kind, by), grouped(values[..., chosen], codes[by][chosen], len(names)))
        for name, by_sentence in measured.sentences.items():
            values = rearrange(by_sentence, "b l h -> l h 1 b")
            self._put((name, "heads", ALL), grouped(values, np.zeros(len(sentences), dtype=int), 1))

    def table(self, layers: tuple[int, ...]) -> pa.Table:
        """One row per group that has values."""
        rows = [self._rows(key, moments, layers) for key, moments in self.moments.items()]
        if not rows:  # every sentence of the part was skipped
            return SCHEMA.empty_table()
        return as_table({name: np.concatenate([row[name] for row in rows]) for name in SCHEMA.names})

    def _rows(self, key: tuple[str, str, str], moments: Moments, layers: tuple[int, ...]) -> dict[str, np.ndarray]:
        (name, kind, by), places = key, np.nonzero(moments.count)
        layer, head, source, group = places
        sources = np.array(self.classes if kind.startswith("classes") else [NONE], dtype=object)
        return {
            "variable": np.full(len(layer), name, dtype=object),
            "layer": np.array(layers)[layer],
            "head": head if kind.endswith("heads") else np.full(len(head), -1),
            "by": np.full(len(layer), by, dtype=object),
            "group": np.array(self.groups[by], dtype=object)[group],
            "source": sources[source],
        } | {part: getattr(moments, part)[places] for part in NAMES}

    def _codes(self, by: str, sentences: list[Coded]) -> np.ndarray:
        places = {name: place for place, name in enumerate(self.groups[by])}
        names = (name for coded in sentences for name in group_names(coded, by))
        return np.array([UNLABELLED if name is None else places[name] for name in names])

    def _put(self, key: tuple[str, str, str], moments: Moments) -> None:
        before = self.moments.get(key)
        self.moments[key] = moments if before is None else merge(before, moments)


def as_table(columns: dict[str, np.ndarray]) -> pa.Table:
    """With nulls for "no head" and "no source", which are -1 and empty while moments are merged."""
    arrays = {name: pa.array(columns[name], type=SCHEMA.field(name).type) for name in SCHEMA.names}
    arrays["head"] = pa.array(columns["head"], mask=np.asarray(columns["head"]) < 0, type=pa.int16())
    arrays["source"] = pa.array(columns["source"], mask=np.asarray(columns["source"]) == NONE, type=pa.string())
    return pa.table(arrays, schema=SCHEMA)


def all_moments(store: Store, numbers: list[int]) -> pa.Table:
    """The moments of several parts merged, read one after the other."""
    table = merged((_moments(store, number) for number in numbers), KEYS)
    return as_table({name: table[name].to_numpy() for name in table.columns})


def _moments(store: Store, number: int) -> pandas.DataFrame:
    """A part's moments with -1 for no head and "" for no source, so that these merge like any other value."""
    name = f"moments/{number:05d}.parquet"
    data = store.read(name)
    if data is None:
        raise Damaged(f"{store.path(name)} is gone; start the same run again, and that part alone is measured again.")
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pandas().fillna({"head": -1, "source": NONE})


def groups_of(sentences: list[Coded], by: tuple[str, ...]) -> dict[str, list[str]]:
    """Grouping -> the groups that occur; tokens without the annotation are in none."""
    sets = {name: {group for coded in sentences for group in group_names(coded, name)} - {None} for name in (ALL, *by)}
    return {name: sorted(group for group in groups if group is not None) for name, groups in sets.items() if groups}


def group_names(coded: Coded, by: str) -> Sequence[str | None]:
    if by == ALL:
        return [NONE] * (len(coded) - coded.first)
    return (coded.classes if by == "class" else coded.encoded.labels(by))[coded.first :]


def _real(sentences: list[Coded]) -> np.ndarray:
    """Which positions of the padded batch hold a token: b t."""
    lengths = np.array([len(coded) - coded.first for coded in sentences])
    return np.arange(lengths.max()) < lengths[:, None]
