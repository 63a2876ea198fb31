"""One sentence, measured: a verified pass, every measure asked for, one labelled Dataset."""

import itertools
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence._arguments import LARGEST, SEEDS, numbers, share, whole
from whence.errors import BadInput
from whence.measures.flow.summaries import NEIGHBOURS
from whence.measures.registry import (
    MEASURES,
    METHODS,
    SCHEMA,
    Settings,
    Variable,
    chosen,
    options_of,
    owners,
    variables,
)
from whence.measures.takes import Sizes
from whence.models.anatomy import Anatomy
from whence.models.block import Block
from whence.models.capture import walk
from whence.models.encode import Encoded, encode
from whence.models.fingerprint import provenance as of_model
from whence.models.load import Model, loaded
from whence.models.memory import HOST, Needs, budget, claim, gigabytes
from whence.text.sentence import Sentence, sentence

LARGE = 1_000_000_000
MEMORY = 2**31  # for derivatives, unless there is less or an option says so
# options between 0 and 1, and whether 0 is one: only exact zeros; options that are whole numbers, the least and most
SHARES = {"tolerance": True, "block_error": False, "error": False}
WHOLE = {"seed": (0, SEEDS), "memory": (1, LARGEST)}
log = logging.getLogger("whence")


def measure(
    model: Model,
    text: object,
    measures: str | Iterable[str] = ("attention",),
    *,
    layers: int | Iterable[int] | None = None,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> xarray.Dataset:
    """The measures of one text, or of a pair of texts, as a Dataset with tokens, words and provenance.

    `layers` keeps only those blocks (1 is the first). Blocks that do not attend, in hybrids, are NaN where attention is
    needed. A text longer than the model takes is an error unless `truncate`.
    `progress(done, of)` is called during the computation, and may end it by raising. Other keywords are options of
    the measures, such as `mode` and `error` of contributions; the page of a measure in the documentation lists its own.
    """
    wanted = chosen(measures, loaded(model).gives, model.anatomy.family)
    names = list(dict.fromkeys(owners()[variable] for variable in wanted))
    settled = settled_options(names, options)
    kept = layers_of(layers, model.anatomy.layers)
    _check_attending(kept, wanted.values(), model.anatomy)
    memory_limit = None if memory_limit is None else whole("memory_limit", memory_limit, 1)
    given = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, given, truncate)
    needed = needs(model, wanted, len(encoded.tokens), kept, settled)
    used = settled | _claimed(needed, model, len(encoded.tokens), memory_limit, settled)
    with torch.autocast(model.model.device.type, enabled=False):
        arrays = _arrays(model, wanted, encoded, used, kept, progress)
    attributes = provenance(model, names, settled) | _texts(given)
    dataset = _labelled(arrays, wanted, encoded, kept, attributes)
    return dataset.assign_attrs(_unproved(dataset, model.anatomy))


def settled_options(names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of these measures, with their defaults, or one sentence on what makes no sense."""
    found = options_of(names, given)
    for name, zero in SHARES.items():
        if found.get(name) is not None:
            share(name, found[name], zero)
    for name, (least, most) in WHOLE.items():
        if found.get(name) is not None:
            found[name] = whole(name, found[name], least, most)
    return found


def layers_of(asked: int | Iterable[int] | None, count: int) -> list[int]:
    """The layers asked for, checked and in order; all when none are named."""
    if asked is None:
        return list(range(1, count + 1))
    found = sorted(set(numbers("layer", asked)))
    wrong = [layer for layer in found if not 1 <= layer <= count]
    if wrong or not found:
        raise BadInput(f"The model has layers 1 to {count}, and {wrong[0] if wrong else 'none'} was asked for.")
    return found


def _check_attending(layers: Iterable[int], wanted: Iterable[Variable], anatomy: Anatomy) -> None:
    """Not all that was asked for would be NaN."""
    if all(variable.of_attention for variable in wanted) and not set(layers) & set(anatomy.attending):
        raise BadInput(f"None of the layers asked for attends; {anatomy.listed_attending} do.")


def _arrays(
    model: Model,
    wanted: Mapping[str, Variable],
    encoded: Encoded,
    options: Mapping[str, Any],
    layers: list[int],
    progress: Callable[[int, int], None] | None,
) -> dict[str, np.ndarray]:
    """Variable -> array with all its axes."""
    bases = {variable.base for variable in wanted.values() if variable.base is not None}
    needed = frozenset(wanted) | bases
    settings = Settings(model.anatomy, encoded.batch, needed, options, tuple(layers), progress)
    across = computes("layers", needed)
    visited = tuple(range(1, max(layers) + 1)) if across else tuple(layers)
    found = _over_blocks(settings, computes("block", needed), visited)
    for compute in across:
        found |= compute(found, settings)
    places = slice(None) if visited == tuple(layers) else [layer - 1 for layer in layers]
    arrays = {name: _placed(found[name][places], wanted[name]) for name in wanted if name in found}
    for compute in computes("model", needed):
        arrays |= {name: _given(values, settings) for name, values in compute(settings).items() if name in wanted}
    return arrays


def computes(over: str, needed: Iterable[str]) -> list[Callable[..., Mapping[str, Tensor]]]:
    """The functions behind the variables, each once."""
    rows = [MEASURES[name] for name in dict.fromkeys(owners()[variable] for variable in sorted(needed))]
    return list({row.source: row.compute for row in rows if row.over == over}.values())


def _over_blocks(
    settings: Settings, computes: list[Callable[..., Mapping[str, Tensor]]], layers: tuple[int, ...]
) -> dict[str, Tensor]:
    """Variable -> tensor, layer first, batch second; one block's attention is alive at a time, NaN where there is none.

    What a block gives is put into its place at once: pieces that are stacked in the end would be there twice.
    """
    rows: dict[str, Tensor] = {}
    if not computes:
        return rows
    places = {layer: place for place, layer in enumerate(layers)}
    steps, total = itertools.count(1), len(set(layers) & set(settings.anatomy.attending)) * len(computes)
    dtype = precision(settings.anatomy.model.dtype)

    def visit(block: Block) -> None:
        if block.layer not in places or not block.attends:
            return
        for compute in computes:
            for name, values in compute(block, settings).items():
                if name in settings.wanted:
                    if name not in rows:
                        rows[name] = torch.full((len(layers), *values.shape), torch.nan, dtype=dtype)
                    rows[name][places[block.layer]] = values
            if settings.progress is not None:
                settings.progress(next(steps), total)

    walk(settings.anatomy, settings.batch, visit)
    return rows


def stacked(blocks: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Variable -> tensor, layer first; NaN in layers of which nothing was kept, because they do not attend."""
    known = next(kept for kept in blocks if kept)
    empty = {name: torch.full_like(values, torch.nan) for name, values in known.items()}
    return {name: torch.stack([kept.get(name, empty[name]) for kept in blocks]) for name in known}


def _given(values: Tensor, settings: Settings) -> np.ndarray:
    """On the host, in the precision it is given back in."""
    return values.to("cpu", precision(settings.anatomy.model.dtype)).numpy()


def precision(dtype: torch.dtype) -> torch.dtype:
    """float64 for a model in float64; float32 for all others, half precision included."""
    return torch.promote_types(dtype, torch.float32)


def _placed(values: Tensor, variable: Variable) -> np.ndarray:
    """Without the batch, the layer axis where the variable has it."""
    return values[:, 0].movedim(0, variable.dims.index("layer")).numpy()


def _labelled(
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


def provenance(model: Model, names: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Where every number came from, in types that every file format keeps."""
    return of_model(model) | {
        "measures": ",".join(names),
        "parameters": json.dumps(options, default=str, sort_keys=True),
        "seed": int(options.get("seed", 0)),
        "schema": SCHEMA,
    }


def _texts(given: Sentence) -> dict[str, str]:
    return {"text": given.text, "pair": given.pair or ""}


def _unproved(dataset: xarray.Dataset, anatomy: Anatomy) -> dict[str, int]:
    """How many rows of the smallest distribution are NaN for want of a proof, also said in the log."""
    if "minimum_simplex" not in dataset:
        return {}
    attending = dataset.minimum_simplex.sel(layer=dataset.layer.isin(anatomy.attending))
    count = int(attending.isnull().any("source").sum())
    if count:
        log.warning("%s rows of minimum_simplex were not proved to be the smallest and are NaN", f"{count:,}")
    return {"minimum_simplex_unproved": count}


def needs(
    model: Model, wanted: Mapping[str, Variable], tokens: int, layers: list[int], options: Mapping[str, Any]
) -> Needs:
    """What these variables take, said from sizes alone; no text is run."""
    sizes = Sizes.of(model.anatomy, tokens, tuple(layers), options)
    bases = {variable.base for variable in wanted.values() if variable.base is not None} - set(wanted)
    kept = sum(_bytes(variable, sizes, sizes.layers) for variable in wanted.values())
    kept += sum(_bytes(variables()[base], sizes, sizes.depth) for base in bases)
    rows = [MEASURES[name] for name in dict.fromkeys(owners()[variable] for variable in (*wanted, *bases))]
    works = [row.takes(sizes, options) for row in {row.source: row for row in rows}.values()]
    most = max(works, key=lambda work: work.held + min(work.wanted, (options.get("memory") or MEMORY)))
    return Needs(kept, most.held, most.wanted, most.least)


def _bytes(variable: Variable, sizes: Sizes, layers: int) -> int:
    lengths = {"layer": layers, "head": sizes.heads, "method": len(METHODS), "neighbour": len(NEIGHBOURS)}
    lengths |= {"target": sizes.tokens, "source": sizes.tokens, "distance": 2 * sizes.tokens - 1}
    return sizes.number * math.prod(lengths[dim] for dim in variable.dims)


def _claimed(needed: Needs, model: Model, tokens: int, limit: int | None, settled: Mapping[str, Any]) -> dict[str, int]:
    """Says what will be taken or refuses it; gives what is left for derivatives where they did not get a budget."""
    device = model.model.device
    memory = settled.get("memory")
    memory = budget(needed, device, limit, MEMORY) if memory is None else memory
    taken = needed.on(device) + min(needed.wanted, memory)
    if taken > LARGE:
        log.warning("%s tokens will take about %s of memory", f"{tokens:,}", gigabytes(taken))
    remedy = "ask for fewer measures or layers (layers=), shorten the text, or allow more (memory_limit=)"
    claim(taken, tokens, device, limit, remedy)
    if device.type != HOST.type:
        claim(needed.results, tokens, HOST, limit, remedy)
    return {"memory": memory} if "memory" in settled else {}
