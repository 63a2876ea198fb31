"""A Dataset of some targets as a page needs it: a row for every token, empty where none was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import BadInput
from whence.plot.sinks import BY_HEAD, MEAN

if TYPE_CHECKING:
    import xarray

MEASURED = "target_is_measured"


def filled(ds: xarray.Dataset) -> xarray.Dataset:
    """The same when every target is there; else with NaN in the rows of the others."""
    if "source" not in ds.sizes:
        if "target" in ds.indexes and ds.indexes["target"].tolist() != list(range(ds.sizes["target"])):
            raise BadInput(
                "A page shows every token of the text, and these measures know the targets alone; ask for a map as"
                " well, such as attention, or for all targets."
            )
        return ds
    if ds.sizes["source"] == ds.sizes["target"]:
        return ds
    every = ds["source"].values
    flags = {name: ds[name].reindex(target=every, fill_value=False) for name in (MEAN, BY_HEAD) if name in ds.coords}
    labels = {str(name): name for name in ds.coords if str(name).startswith("source_")}
    tokens = {f"target_{name.removeprefix('source_')}": ("target", ds[name].values) for name in labels}
    whole = ds.drop_vars([*flags, *tokens], errors="ignore").reindex(target=every)
    return whole.assign_coords(flags | tokens | {MEASURED: ("target", np.isin(every, ds["target"].values))})


def measured(ds: xarray.Dataset) -> list[int] | None:
    """The places of the targets that were measured; None when all were."""
    return np.flatnonzero(ds[MEASURED].values).tolist() if MEASURED in ds.coords else None
