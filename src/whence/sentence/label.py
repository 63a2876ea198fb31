"""Arrays of one sentence as a labelled Dataset: axes, analyses side by side, and what is known of every token."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray

from whence.measures.registry import ANALYSES, LABELS, MIXED, Settings, Variable, axes
from whence.models.encode import Encoded


def labelled(
    arrays: dict[str, np.ndarray],
    about: Mapping[str, Mapping[str, Any]],
    selected: Mapping[str, Variable],
    encoded: Encoded,
    settings: Settings,
    sources: Encoded | None = None,
) -> xarray.Dataset:
    """The Dataset of one text; its `sources` are those of another where targets attend to that."""
    labels = {name: arrays.pop(name) == 1 for name in LABELS if name in arrays}
    selected = _by_analysis(arrays, selected)
    analyses = [name for name in ANALYSES if name in {row.analysis[1] for row in selected.values() if row.analysis}]
    data: dict[str, Any] = {}
    for name, variable in selected.items():
        if variable.analysis is None:
            attributes = {"units": variable.unit, "long_name": variable.about, **about.get(name, {})}
            data[name] = variable.dims, arrays.pop(name), attributes
    for name in dict.fromkeys(variable.analysis[0] for variable in selected.values() if variable.analysis is not None):
        parts = {row.analysis[1]: key for key, row in selected.items() if row.analysis and row.analysis[0] == name}
        dims = selected[next(iter(parts.values()))].dims
        data[name] = ("analysis", *dims), _side_by_side(arrays, parts, analyses), _about_analyses(parts, selected)
    sizes = {dim: size for dims, values, _ in data.values() for dim, size in zip(dims, values.shape, strict=True)}
    known = {"target": encoded, "source": sources or encoded}
    return xarray.Dataset(data, _coordinates(sizes, analyses, known, settings) | _of_rows(labels, sizes))


def _of_rows(labels: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, Any]:
    """What is said of rows, where the Dataset has such rows."""
    return {
        name: (LABELS[name].dims, values, {"long_name": LABELS[name].about})
        for name, values in labels.items()
        if sizes.keys() >= set(LABELS[name].dims)
    }


def _by_analysis(arrays: dict[str, np.ndarray], selected: Mapping[str, Variable]) -> dict[str, Variable]:
    """A variable with an axis of analyses as one for each, so that those of other measures can stand beside them."""
    declared: dict[str, Variable] = {}
    for name, variable in selected.items():
        if "analysis" not in variable.dims:
            declared[name] = variable
            continue
        dims = tuple(dim for dim in variable.dims if dim != "analysis")
        declared |= {f"{name}_{label}": replace(variable, dims=dims, analysis=(name, label)) for label in MIXED}
        arrays |= {f"{name}_{label}": row for label, row in zip(MIXED, arrays.pop(name), strict=True)}
    return declared


def _side_by_side(arrays: dict[str, np.ndarray], parts: Mapping[str, str], analyses: list[str]) -> np.ndarray:
    """The arrays of every analysis in one; each is freed once copied, so that none is in memory twice."""
    first = arrays[next(iter(parts.values()))]
    stacked, missing = np.empty((len(analyses), *first.shape), first.dtype), np.nan if first.dtype.kind == "f" else -1
    del first
    for place, analysis in enumerate(analyses):
        stacked[place] = arrays.pop(parts[analysis]) if analysis in parts else missing
    return stacked


def _about_analyses(parts: Mapping[str, str], selected: Mapping[str, Variable]) -> dict[str, str]:
    """The unit of all analyses, and what they are: once if that is the same for all, else by name."""
    units = {selected[key].unit for key in parts.values()}
    texts = {name: selected[key].about for name, key in parts.items()}
    same = len(texts) > 1 and len(set(texts.values())) == 1
    return {"units": " or ".join(sorted(units)), **({"long_name": next(iter(texts.values()))} if same else texts)}


def _coordinates(
    sizes: Mapping[str, int], analyses: list[str], known: Mapping[str, Encoded], settings: Settings
) -> dict[str, Any]:
    """Index coordinates; on target and source the token, its id, its word, whether it is special, its annotations."""
    rows: dict[str, Sequence[int]] = {axis: range(len(encoded.tokens)) for axis, encoded in known.items()}
    rows["target"] = settings.targets or rows["target"]
    registered = axes()
    coordinates: dict[str, Any] = {"layer": np.array(settings.layers)}
    for axis, size in sizes.items():
        if axis != "layer":
            axis_labels = analyses if axis == "analysis" else rows.get(axis, registered[axis].labels(size))
            coordinates[axis] = np.array(axis_labels)
    if "largest" in sizes:  # what the sources are that it numbers
        coordinates["source"] = np.array(rows["source"])
    for axis in rows.keys() & coordinates.keys():
        labels = tokens_of(known[axis])
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
    places = {name: np.array(values) for name, values in encoded.places.items()}
    annotations = {name: np.array([each or "" for each in values]) for name, values in encoded.annotations().items()}
    return labels | places | annotations


def said(encoded: Encoded) -> dict[str, str]:
    """The text of a Dataset, and the picture as the model reads it, where there is one."""
    texts = {"text": encoded.sentence.text, "pair": encoded.sentence.pair or ""}
    return texts if encoded.picture is None else texts | {"picture": encoded.picture}
