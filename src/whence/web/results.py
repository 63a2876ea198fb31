"""What has been measured already: Datasets by content, the least recently used forgotten first."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from functools import reduce
from typing import TYPE_CHECKING, Literal

from whence.errors import BadInput, WhenceError
from whence.measures.registry import ANALYSES
from whence.sealed import digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray

ANYWAY = 65_536  # what an entry weighs besides its arrays: labels, attributes, objects


class Gone(WhenceError):
    """A result that was never there, or is no longer kept."""


def key(*content: object) -> str:
    """The same content, the same key."""
    return digest(content)[:32]


class Results:
    """Datasets up to so many bytes in total; safe to use from several threads."""

    def __init__(self, limit: int):
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[str, xarray.Dataset] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: str, dataset: xarray.Dataset) -> None:
        """Keeps it, and forgets others until all fit; the newest stays even if it exceeds the limit alone."""
        with self._lock:
            before = self._kept.pop(key, None)
            self.bytes += weight(dataset) - (0 if before is None else weight(before))
            self._kept[key] = dataset
            while self.bytes > self.limit and len(self._kept) > 1:
                self.bytes -= weight(self._kept.popitem(last=False)[1])

    def get(self, key: str) -> xarray.Dataset:
        with self._lock:
            if key not in self._kept:
                raise Gone("This result is not kept (any more); measure the sentence again.")
            self._kept.move_to_end(key)
            return self._kept[key]

    def merged(self, keys: Iterable[str]) -> xarray.Dataset:
        """Results of one sentence in one model as one Dataset."""
        return merge([self.get(key) for key in keys])


def weight(dataset: xarray.Dataset) -> int:
    return dataset.nbytes + ANYWAY


def merge(datasets: list[xarray.Dataset]) -> xarray.Dataset:
    """One Dataset with the variables of all; they must be of the same sentence in the same model."""
    import xarray

    if any("predicted" in dataset.dims or "ended" in dataset.attrs for dataset in datasets):
        raise BadInput("Predictions and answers are asked for by themselves (/api/why, /api/answer), not put together.")
    same = {tuple(str(dataset.attrs[name]) for name in ("model", "revision", "text", "pair")) for dataset in datasets}
    if len(same) > 1 or len({_tokens(dataset) for dataset in datasets if "target_token_id" in dataset}) > 1:
        raise BadInput("These results are of different sentences or models; only parts of one can be put together.")
    if len(datasets) == 1:
        return datasets[0]
    datasets = _same_analyses(datasets)
    merged = xarray.merge(datasets, compat="override", join="exact", combine_attrs="override")
    for name in ("norms", "mixing", "rollout"):  # one result has some of their analyses, another has others
        arrays = [dataset[name] for dataset in datasets if name in dataset]
        if len(arrays) > 1:
            merged[name] = reduce(lambda earlier, later: earlier.fillna(later), arrays)
    measures = dict.fromkeys(name for dataset in datasets for name in str(dataset.attrs["measures"]).split(","))
    parameters: dict[str, object] = {}
    for dataset in datasets:
        parameters |= json.loads(str(dataset.attrs["parameters"]))
    return merged.assign_attrs(measures=",".join(measures), parameters=json.dumps(parameters, sort_keys=True))


def one_head(dataset: xarray.Dataset, head: Literal["mean"] | int) -> xarray.Dataset:
    """The attention of one layer, of one of its heads or the mean of all."""
    if "attention" not in dataset or dataset.sizes["layer"] != 1:
        raise BadInput("This result is no map of one layer; ask for the measure 'map'.")
    heads = dataset.sizes["head"]
    if head != "mean" and not 0 <= head < heads:
        raise BadInput(f"There is no head {head}; there are {heads}, counted from 0.")
    maps = dataset["attention"]
    if head != "mean":
        return dataset[["attention"]].isel(head=[head])
    return dataset[["attention"]].isel(head=[0]).assign(attention=maps.mean("head", skipna=False).expand_dims(head=[0]))


def _same_analyses(datasets: list[xarray.Dataset]) -> list[xarray.Dataset]:
    """Each with the analyses of all, NaN where it has none."""
    present = {name for dataset in datasets if "analysis" in dataset.coords for name in dataset["analysis"].values}
    analyses = [name for name in ANALYSES if name in present]
    return [ds.reindex(analysis=analyses) if "analysis" in ds.coords else ds for ds in datasets]


def _tokens(dataset: xarray.Dataset) -> tuple[int, ...]:
    return tuple(dataset["target_token_id"].values.tolist())
