"""Arrays of one sentence as a labelled Dataset: layers, heads, and what is known of every token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from whence.measures.flow.summaries import NEIGHBOURS
from whence.measures.registry import METHODS, Variable
from whence.models.encode import Encoded


def labelled(
    arrays: Mapping[str, np.ndarray],
    wanted: Mapping[str, Variable],
    encoded: Encoded,
    layers: list[int],
    attributes: Mapping[str, Any],
) -> xarray.Dataset:
    data = {
        name: (variable.dims, arrays[name], {"units": variable.unit, "long_name": variable.about})
        for name, variable in wanted.items()
    }
    sizes = {dim: size for dims, values, _ in data.values() for dim, size in zip(dims, values.shape, strict=True)}
    return xarray.Dataset(data, _coordinates(sizes, encoded, layers), attributes)


def _coordinates(sizes: Mapping[str, int], encoded: Encoded, layers: list[int]) -> dict[str, Any]:
    """Index coordinates; on target and source the token, its id, its word, whether it is special, its annotations."""
    labels = {
        "token": np.array(encoded.tokens, dtype=str),
        "token_id": encoded.batch.ids[0].numpy(),
        "word": np.array(encoded.words, dtype=str),
        "is_special": np.array(encoded.special),
    }
    labels |= {name: np.array([each or "" for each in values]) for name, values in encoded.annotations().items()}
    tokens = len(encoded.tokens)
    indices: dict[str, Any] = {
        "target": np.arange(tokens),
        "source": np.arange(tokens),
        "head": np.arange(sizes.get("head", 0)),
        "method": list(METHODS),
        "distance": np.arange(1 - tokens, tokens),
        "neighbour": list(NEIGHBOURS),
    }
    found = {"layer": np.array(layers)} | {name: values for name, values in indices.items() if name in sizes}
    for axis in ("target", "source"):
        if axis in sizes:
            found |= {f"{axis}_{name}": (axis, values) for name, values in labels.items()}
    return found
