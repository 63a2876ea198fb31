"""Arrays of one sentence as a labelled Dataset: axes, analyses side by side, and what is known of every token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from whence.measures.registry import ANALYSES, MAP, MIXED, Settings, Variable, axes
from whence.models.encode import Encoded


def labelled(
    arrays: dict[str, np.ndarray],
    about: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Variable],
    encoded: Encoded,
    settings: Settings,
) -> xarray.Dataset:
    analyses = _analyses(wanted)
    data: dict[str, Any] = {}
    for name, variable in wanted.items():
        if variable.analysis is None:
            attributes = {"units": variable.unit, "long_name": variable.about, **about.get(name, {})}
            values = arrays.pop(name)
            if "analysis" in variable.dims:
                values = _filled(values, analyses)
            data[name] = variable.dims, values, attributes
    for name in dict.fromkeys(variable.analysis[0] for variable in wanted.values() if variable.analysis is not None):
        parts = {own.analysis[1]: key for key, own in wanted.items() if own.analysis and own.analysis[0] == name}
        data[name] = ("analysis", *MAP), _side_by_side(arrays, parts, analyses), _parts_about(parts, wanted)
    sizes = {dim: size for dims, values, _ in data.values() for dim, size in zip(dims, values.shape, strict=True)}
    return xarray.Dataset(data, _coordinates(sizes, analyses, encoded, settings))


def _analyses(wanted: Mapping[str, Variable]) -> list[str]:
    """Those that some variable has, in the order of the table."""
    known = {variable.analysis[1] for variable in wanted.values() if variable.analysis is not None}
    mixed = any("analysis" in variable.dims for variable in wanted.values())
    return [name for name in ANALYSES if name in known or (mixed and name in MIXED)]


def _filled(values: np.ndarray, analyses: list[str]) -> np.ndarray:
    """A ratio by analysis, NaN for those that have none."""
    if len(analyses) == len(MIXED):
        return values
    filled = np.full((len(analyses), *values.shape[1:]), np.nan, dtype=values.dtype)
    filled[[analyses.index(name) for name in MIXED]] = values
    return filled


def _side_by_side(arrays: dict[str, np.ndarray], parts: Mapping[str, str], analyses: list[str]) -> np.ndarray:
    """The maps of every analysis in one array; each is let go as it is copied, so that none is there twice."""
    first = arrays[next(iter(parts.values()))]
    found = np.empty((len(analyses), *first.shape), dtype=first.dtype)
    del first
    for place, analysis in enumerate(analyses):
        found[place] = arrays.pop(parts[analysis]) if analysis in parts else np.nan
    return found


def _parts_about(parts: Mapping[str, str], wanted: Mapping[str, Variable]) -> dict[str, str]:
    """The unit is that of all; what each analysis is, by its name."""
    units = {wanted[key].unit for key in parts.values()}
    return {"units": " or ".join(sorted(units)), **{name: wanted[key].about for name, key in parts.items()}}


def _coordinates(sizes: Mapping[str, int], analyses: list[str], encoded: Encoded, settings: Settings) -> dict[str, Any]:
    """Index coordinates; on target and source the token, its id, its word, whether it is special, its annotations."""
    labels = tokens_of(encoded)
    rows = {"target": list(settings.targets or range(len(encoded.tokens))), "source": range(len(encoded.tokens))}
    known = axes()
    found: dict[str, Any] = {"layer": np.array(settings.layers)}
    for axis, size in sizes.items():
        if axis != "layer":
            own = analyses if axis == "analysis" else rows.get(axis, known[axis].labels(size))
            found[axis] = np.array(own)
    for axis in rows.keys() & sizes.keys():
        found |= {f"{axis}_{name}": (axis, values[list(rows[axis])]) for name, values in labels.items()}
    return found


def tokens_of(encoded: Encoded) -> dict[str, np.ndarray]:
    """What is known of every token."""
    labels = {
        "token": np.array(encoded.tokens, dtype=str),
        "token_id": encoded.batch.ids[0].numpy(),
        "word": np.array(encoded.words, dtype=str),
        "is_special": np.array(encoded.special),
    }
    return labels | {name: np.array([each or "" for each in values]) for name, values in encoded.annotations().items()}
