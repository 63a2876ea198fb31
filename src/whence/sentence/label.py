"""Arrays of one sentence as a labelled Dataset: axes, analyses side by side, and what is known of every token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from whence.measures.registry import ANALYSES, LABELS, MAP, MIXED, Settings, Variable, axes
from whence.models.encode import Encoded


def labelled(
    arrays: dict[str, np.ndarray],
    about: Mapping[str, Mapping[str, Any]],
    selected: Mapping[str, Variable],
    encoded: Encoded,
    settings: Settings,
) -> xarray.Dataset:
    analyses = _analyses(selected)
    labels = {name: arrays.pop(name) == 1 for name in LABELS if name in arrays}
    data: dict[str, Any] = {}
    for name, variable in selected.items():
        if variable.analysis is None:
            attributes = {"units": variable.unit, "long_name": variable.about, **about.get(name, {})}
            values = arrays.pop(name)
            if "analysis" in variable.dims:
                values = _filled(values, analyses)
            data[name] = variable.dims, values, attributes
    for name in dict.fromkeys(variable.analysis[0] for variable in selected.values() if variable.analysis is not None):
        maps = {row.analysis[1]: key for key, row in selected.items() if row.analysis and row.analysis[0] == name}
        data[name] = ("analysis", *MAP), _side_by_side(arrays, maps, analyses), _about_maps(maps, selected)
    sizes = {dim: size for dims, values, _ in data.values() for dim, size in zip(dims, values.shape, strict=True)}
    return xarray.Dataset(data, _coordinates(sizes, analyses, encoded, settings) | _of_rows(labels, sizes))


def _of_rows(labels: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, Any]:
    """What is said of rows, where the Dataset has such rows."""
    return {
        name: (LABELS[name].dims, values, {"long_name": LABELS[name].about})
        for name, values in labels.items()
        if sizes.keys() >= set(LABELS[name].dims)
    }


def _analyses(selected: Mapping[str, Variable]) -> list[str]:
    """The analyses that some variable has, in the order of the table."""
    named = {variable.analysis[1] for variable in selected.values() if variable.analysis is not None}
    mixed = any("analysis" in variable.dims for variable in selected.values())
    return [name for name in ANALYSES if name in named or (mixed and name in MIXED)]


def _filled(values: np.ndarray, analyses: list[str]) -> np.ndarray:
    """A ratio by analysis, NaN for analyses without one."""
    if len(analyses) == len(MIXED):
        return values
    filled = np.full((len(analyses), *values.shape[1:]), np.nan, dtype=values.dtype)
    filled[[analyses.index(name) for name in MIXED]] = values
    return filled


def _side_by_side(arrays: dict[str, np.ndarray], maps: Mapping[str, str], analyses: list[str]) -> np.ndarray:
    """The maps of every analysis in one array; each is freed once copied, so that none is in memory twice."""
    first = arrays[next(iter(maps.values()))]
    stacked = np.empty((len(analyses), *first.shape), dtype=first.dtype)
    del first
    for place, analysis in enumerate(analyses):
        stacked[place] = arrays.pop(maps[analysis]) if analysis in maps else np.nan
    return stacked


def _about_maps(maps: Mapping[str, str], selected: Mapping[str, Variable]) -> dict[str, str]:
    """The unit of all maps, and what each analysis is, by name."""
    units = {selected[key].unit for key in maps.values()}
    return {"units": " or ".join(sorted(units)), **{name: selected[key].about for name, key in maps.items()}}


def _coordinates(sizes: Mapping[str, int], analyses: list[str], encoded: Encoded, settings: Settings) -> dict[str, Any]:
    """Index coordinates; on target and source the token, its id, its word, whether it is special, its annotations."""
    labels = tokens_of(encoded)
    rows = {"target": list(settings.targets or range(len(encoded.tokens))), "source": range(len(encoded.tokens))}
    registered = axes()
    coordinates: dict[str, Any] = {"layer": np.array(settings.layers)}
    for axis, size in sizes.items():
        if axis != "layer":
            axis_labels = analyses if axis == "analysis" else rows.get(axis, registered[axis].labels(size))
            coordinates[axis] = np.array(axis_labels)
    for axis in rows.keys() & sizes.keys():
        coordinates |= {f"{axis}_{name}": (axis, values[list(rows[axis])]) for name, values in labels.items()}
    return coordinates


def tokens_of(encoded: Encoded) -> dict[str, np.ndarray]:
    """What is known of every token."""
    labels = {
        "token": np.array(encoded.tokens, dtype=str),
        "token_id": encoded.batch.ids[0].numpy(),
        "word": np.array(encoded.words, dtype=str),
        "is_special": np.array(encoded.special),
    }
    return labels | {name: np.array([each or "" for each in values]) for name, values in encoded.annotations().items()}
