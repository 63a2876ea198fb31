"""One sentence, measured: a verified pass, every measure asked for, one labelled Dataset."""

import json
import logging
import math
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence.errors import BadInput
from whence.measures.registry import SCHEMA, Measure, Settings, Variable, chosen, options_of
from whence.models.capture import walk
from whence.models.encode import Encoded, encode
from whence.models.load import Model
from whence.models.memory import attention_bytes, claim, gigabytes
from whence.text import Sentence, sentence

LARGE = 1_000_000_000
LIBRARIES = ("torch", "transformers", "xarray", "numpy")
log = logging.getLogger("whence")


def measure(
    model: Model,
    text: object,
    measures: str | Iterable[str] = ("attention",),
    *,
    layers: Iterable[int] | None = None,
    truncate: bool = False,
    memory_limit: int | None = None,
    **options: Any,
) -> xarray.Dataset:
    """The measures of one text, or of a pair of texts, as a Dataset with tokens, words and provenance.

    `layers` keeps only those blocks (1 is the first). A text longer than the model takes is an error unless `truncate`.
    """
    rows = chosen(measures, model.gives, model.anatomy.family)
    settled = options_of(rows, options)
    wanted = _layers(layers, model.anatomy.layers)
    given = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, given, truncate)
    _claim(model, rows, len(encoded.tokens), len(wanted), memory_limit)
    arrays = _arrays(model, rows, encoded, wanted, settled)
    return _labelled(arrays, rows, encoded, wanted).assign_attrs(_provenance(model, rows, given, settled))


def _layers(asked: Iterable[int] | None, count: int) -> list[int]:
    if asked is None:
        return list(range(1, count + 1))
    found = sorted(set(asked))
    wrong = [layer for layer in found if not 1 <= layer <= count]
    if wrong or not found:
        raise BadInput(f"The model has layers 1 to {count}, and {wrong[0] if wrong else 'none'} was asked for.")
    return found


def _arrays(
    model: Model, rows: Mapping[str, Measure], encoded: Encoded, layers: list[int], options: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Variable -> array with all its axes; only one block's attention is alive at a time."""
    settings = Settings(model.anatomy, encoded.batch.mask.to(model.model.device), options)
    computes = [row.compute for row in rows.values()]

    def visit(block) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        if block.layer in layers:
            for compute in computes:
                found |= {name: values[0].float().cpu() for name, values in compute(block, settings).items()}
        return found

    blocks = [found for found in walk(model.anatomy, encoded.batch, visit).blocks if found]
    variables = _variables(rows)
    return {
        name: torch.stack([found[name] for found in blocks], dim=variables[name].dims.index("layer")).numpy()
        for name in variables
    }


def _variables(rows: Mapping[str, Measure]) -> dict[str, Variable]:
    return {name: variable for row in rows.values() for name, variable in row.variables.items()}


def _labelled(
    arrays: Mapping[str, np.ndarray], rows: Mapping[str, Measure], encoded: Encoded, layers: list[int]
) -> xarray.Dataset:
    variables = _variables(rows)
    data = {
        name: (variables[name].dims, values, {"units": variables[name].unit, "long_name": variables[name].about})
        for name, values in arrays.items()
    }
    dataset = xarray.Dataset(data)
    return dataset.assign_coords(_coordinates(dataset, encoded, layers))


def _coordinates(dataset: xarray.Dataset, encoded: Encoded, layers: list[int]) -> dict[str, Any]:
    """Index coordinates, and on target and source the token, its id, its word and whether it is special."""
    labels = {
        "token": np.array(encoded.tokens, dtype=str),
        "token_id": encoded.batch.ids[0].numpy(),
        "word": np.array(encoded.words, dtype=str),
        "is_special": np.array(encoded.special),
    }
    found: dict[str, Any] = {"layer": layers}
    for axis in ("target", "source"):
        if axis in dataset.dims:
            found[axis] = np.arange(len(encoded.tokens))
            found |= {f"{axis}_{name}": (axis, values) for name, values in labels.items()}
    if "head" in dataset.dims:
        found["head"] = np.arange(dataset.sizes["head"])
    return found


def _provenance(
    model: Model, rows: Mapping[str, Measure], text: Sentence, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Where every number came from, in types that every file format keeps."""
    return {
        "model": model.id,
        "revision": model.revision or "",
        "family": model.anatomy.family,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "device": str(model.model.device),
        "causal": int(model.anatomy.causal),
        "text": text.text,
        "pair": text.pair or "",
        "measures": ",".join(rows),
        "parameters": json.dumps(options, default=str, sort_keys=True),
        "seed": int(options.get("seed", 0)),
        "schema": SCHEMA,
        "whence_version": version("whence"),
    } | {f"{library}_version": version(library) for library in LIBRARIES}


def _claim(model: Model, rows: Mapping[str, Measure], tokens: int, layers: int, limit: int | None) -> None:
    anatomy = model.anatomy
    sizes = {"layer": layers, "head": anatomy.heads, "target": tokens, "source": tokens, "method": 5}
    kept = sum(4 * math.prod(sizes[dim] for dim in variable.dims) for variable in _variables(rows).values())
    needed = 2 * kept + attention_bytes(1, anatomy.heads, tokens)  # stacking holds the pieces and the whole
    if needed > LARGE:
        log.warning("%s tokens will take about %s of memory", f"{tokens:,}", gigabytes(needed))
    claim(needed, tokens, model.model.device, limit)
