"""A run's tables, read back: data frames, Arrow datasets for what is too large for memory, maps as xarray."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import xarray

from whence.corpus.manifest import FINISHED, RECORD, run_id
from whence.corpus.part_moments import all_moments
from whence.corpus.plan import KIND, SHAPE, WHY
from whence.corpus.store import MANIFEST, Store, at, damaged, part_numbers, read_manifest, read_record, record_name
from whence.errors import BadInput
from whence.measures.registry import ANALYSES, HEADS, MAP, variables
from whence.models.encode import LABELS
from whence.models.fingerprint import attributes
from whence.sealed import Damaged, check_shape, digest

ANNOTATIONS = (*LABELS, "entity")
KEPT = 2**28  # bytes: a part's maps are kept in memory up to this size
_REPAIR = "start the same run again, and that part alone is measured again."


def open_run(out: str | Path, *, verify: bool = True) -> "Run":
    """The run in a folder, finished or not; refuses one that is damaged or incomplete.

    Args:
        out: the folder of the run
        verify: compare every checksum, which reads every file once (about half a second per gigabyte); False compares
            sizes

    Returns:
        The run. Its tables are DataFrames: `sentences`, `tokens` (a row for each layer), `pairs` of words, `heads`,
        `moments`; `maps` gives the Dataset of a sentence.

    Examples:
        >>> _ = whence.run(whence.load(), ["Paris is a city."], ["mixing"], out="run")
        >>> whence.open_run("run").sentences[["text", "tokens"]].values.tolist()
        [['Paris is a city.', 7]]
    """
    store = at(out)
    manifest = read_manifest(store, (KIND,), SHAPE)
    if manifest is None:
        raise BadInput(f"{str(out)!r} is no run: it has no {MANIFEST}; `whence measure` makes one.")
    store = replace(store, run=run_id(manifest))
    records = {number: _record(store, number, verify) for number in part_numbers(store)}
    if manifest["finished"]:
        _check_finished(store, manifest, records, verify)
    return Run(store, manifest, tuple(records.values()))


def _record(store: Store, number: int, verify: bool) -> Mapping[str, Any]:
    try:
        record = read_record(store, number, RECORD)
    except Damaged as error:
        raise Damaged(f"Part {number} of {store.root!r}: {error}; {_REPAIR}") from error
    assert record is not None
    wrong = damaged(store, record["files"], verify)
    if wrong:
        raise Damaged(f"Part {number} of {store.root!r}: {wrong[0]} is damaged or gone; {_REPAIR}")
    return record


def _check_finished(
    store: Store, manifest: Mapping[str, Any], records: Mapping[int, Mapping[str, Any]], verify: bool
) -> None:
    """Checks that no part is missing or left over, that they are of the same corpus, and the merged files."""
    check_shape(manifest, FINISHED, store.path(MANIFEST))
    count = manifest["corpus"]["parts"]
    if missing := sorted(set(range(count)) - records.keys()):
        raise Damaged(f"Part {missing[0]} of {store.root!r}: {record_name(missing[0])} is gone; {_REPAIR}")
    if extra := sorted(number for number in records if number >= count):
        raise Damaged(
            f"{store.root!r} was finished with {count} parts, and {record_name(extra[0])} is one more; delete it."
        )
    if digest([record["sha256"] for record in records.values()]) != manifest["corpus"]["sha256"]:
        raise Damaged(f"The parts of {store.root!r} were made from another corpus than its {MANIFEST} says.")
    if wrong := damaged(store, manifest["files"], verify):
        raise Damaged(f"{wrong[0]} of {store.root!r} is damaged or gone; start the same run again to have it written.")


@dataclass(frozen=True, eq=False)
class Run:
    """What was measured, table by table; columns are listed in the documentation."""

    store: Store
    manifest: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]

    @property
    def finished(self) -> bool:
        return bool(self.manifest["finished"])

    @property
    def attrs(self) -> dict[str, Any]:
        """Where its numbers come from, under the names that whence.measure gives to a Dataset."""
        plan = self.manifest["plan"]
        return attributes(self.manifest["model"], self.manifest["versions"], plan["measures"], plan["options"])

    @cached_property
    def sentences(self) -> pandas.DataFrame:
        """One row per sentence."""
        return self.arrow("sentences").to_table().to_pandas()

    @cached_property
    def tokens(self) -> pandas.DataFrame:
        """One row per token and layer; of "why", per predicted token."""
        return self.arrow("tokens").to_table().to_pandas()

    @cached_property
    def pairs(self) -> pandas.DataFrame:
        """One row per pair of words and layer; of "why", per predicted token, layer and source."""
        return self.arrow("pairs").to_table().to_pandas()

    @cached_property
    def heads(self) -> pandas.DataFrame:
        """One row per sentence, layer and head, of measures that give one number per head."""
        return self.arrow("heads").to_table().to_pandas()

    @cached_property
    def moments(self) -> pandas.DataFrame:
        """Count, mean and spread by variable, layer, head and group, of all parts; the standard deviation added."""
        if WHY in self.manifest["plan"]["measures"]:
            raise BadInput(f"The run in {self.store.root!r} has no table 'moments'; it is about predictions.")
        table = all_moments(self.store, [record["part"] for record in self.records]).to_pandas()
        spread = np.sqrt(table["m2"] / np.where(table["count"] > 1, table["count"] - 1, np.nan))
        return table.astype({"head": "Int16"}).assign(std=spread)

    @cached_property
    def maps(self) -> "Maps":
        """Sentence number -> Dataset of its maps, if the run kept them."""
        return Maps(self)

    def arrow(self, table: str) -> pyarrow.dataset.Dataset:
        """A table on disk, for filters and columns: run.arrow("tokens").to_table(columns=[...])."""
        names = [name for record in self.records for name in record["files"] if name.startswith(f"{table}/")]
        if not names:
            there = sorted({name.partition("/")[0] for record in self.records for name in record["files"]})
            why = _WHY.get(table, f"it has {', '.join(there)}." if there else "no part is done.")
            raise BadInput(f"The run in {self.store.root!r} has no table {table!r}; {why}")
        paths = [self.store.path(name) for name in names]
        return pyarrow.dataset.dataset(paths, format="parquet", filesystem=self.store.filesystem)

    @staticmethod
    def field(name: str) -> pyarrow.compute.Expression:
        """A column, for filters: run.arrow("tokens").to_table(filter=run.field("layer") == 2)."""
        return pyarrow.compute.field(name)

    def __repr__(self) -> str:
        model, corpus = self.manifest["model"]["id"], self.manifest["corpus"]
        count = sum(record["sentences"] for record in self.records)
        state = "" if self.finished else ", not finished"
        return (
            f"Run({corpus['name']!r}, {count:,} sentences{state}, model {model!r}, {self.manifest['plan']['measures']})"
        )


_WHY = {
    "heads": "none of its measures says one number of a head (value_rank, effective_correlation).",
    "pairs": "none of its measures gives a map of targets and sources.",
    "maps": "maps are kept on request only (maps=True).",
}


class Maps(Mapping[int, xarray.Dataset]):
    """The maps of a run by sentence number, read when asked for."""

    def __init__(self, run: Run):
        self._run = run
        self._dataset = run.arrow("maps")
        self._kept: tuple[int, pyarrow.Table | None] = (-1, None)

    def __getitem__(self, sentence: int) -> xarray.Dataset:
        table = self._rows(sentence)
        if table.empty:
            raise KeyError(sentence)
        arrays = {name: _array(str(name), rows) for name, rows in table.groupby("variable", sort=False)}
        return xarray.Dataset(_by_analysis(arrays)).assign_coords(self._labels(sentence)).assign_attrs(self._run.attrs)

    def __iter__(self) -> Iterator[int]:
        return iter(self._run.sentences["sentence"].tolist())

    def __len__(self) -> int:
        return sum(record["sentences"] for record in self._run.records)

    def _rows(self, sentence: int) -> pandas.DataFrame:
        """A sentence's rows of the table of maps; the part is kept for the next sentence unless it is large."""
        number = sentence // self._run.manifest["plan"]["part_size"]
        if self._kept[0] != number:
            self._kept = (number, self._part(number))
        part = self._kept[1]
        if part is None:
            return self._dataset.to_table(filter=pyarrow.compute.field("sentence") == sentence).to_pandas()
        begin, end = np.searchsorted(part["sentence"].to_numpy(), [sentence, sentence + 1])
        return part.slice(begin, end - begin).to_pandas()

    def _part(self, number: int) -> pyarrow.Table | None:
        name = f"/{number:05d}.parquet"
        file = next((file for file in self._dataset.get_fragments() if file.path.endswith(name)), None)
        return None if file is None or _bytes(file) > KEPT else file.to_table()

    def _labels(self, sentence: int) -> dict[str, Any]:
        """The coordinates that whence.measure gives."""
        first = self._run.manifest["plan"]["layers"][0]
        chosen = (pyarrow.compute.field("sentence") == sentence) & (pyarrow.compute.field("layer") == first)
        columns = ["token", "token_id", "word", "is_special", *ANNOTATIONS]
        table = self._run.arrow("tokens").to_table(columns=columns, filter=chosen).to_pandas()
        table = table.drop(columns=[name for name in ANNOTATIONS if not table[name].notna().any()])
        labels = {
            f"{axis}_{name}": (axis, values if values.dtype != object else values.astype(str))
            for axis in ("target", "source")
            for name in table
            for values in (table[name].fillna("").to_numpy(),)
        }
        return labels | {axis: np.arange(len(table)) for axis in ("target", "source")}


def _bytes(file: pyarrow.dataset.ParquetFileFragment) -> int:
    """The size of its table in memory."""
    return sum(group.total_byte_size for group in file.row_groups)


def _by_analysis(maps: Mapping[Any, xarray.DataArray]) -> dict[str, xarray.DataArray]:
    """The analyses of a variable joined, as whence.measure gives them; NaN where one is missing."""
    known = variables()
    by_variable = {name: values for name, values in maps.items() if known[name].analysis is None}
    parts = {name: analysis for name in maps if (analysis := known[name].analysis) is not None}
    every = pandas.Index([name for name in ANALYSES if name in {analysis for _, analysis in parts.values()}])
    for whole in dict.fromkeys(variable for variable, _ in parts.values()):
        own = {analysis: maps[name] for name, (variable, analysis) in parts.items() if variable == whole}
        joined = xarray.concat(own.values(), pandas.Index(own, name="analysis"), combine_attrs="drop")
        by_variable[whole] = joined.reindex(analysis=every)
    return by_variable


def _array(name: str, rows: pandas.DataFrame) -> xarray.DataArray:
    size, layers = int(rows["tokens"].iloc[0]), rows["layer"].unique()
    values = np.stack(rows["values"].to_numpy()).reshape(len(layers), -1, size, size)
    variable = variables().get(name)
    if variable is None:
        raise BadInput(f"The run has maps of {name!r}, which is no measure here; import the package that adds it.")
    about = {"units": variable.unit, "long_name": variable.about}
    if variable.dims == HEADS:
        return xarray.DataArray(values, {"layer": layers, "head": np.arange(values.shape[1])}, HEADS, attrs=about)
    return xarray.DataArray(values[:, 0], {"layer": layers}, MAP, attrs=about)
