"""One sentence, measured: a verified pass, every measure asked for, one labelled Dataset."""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence.errors import BadInput
from whence.measures.flow.summaries import NEIGHBOURS
from whence.measures.registry import (
    MEASURES,
    METHODS,
    Settings,
    Variable,
    chosen,
    owners,
    variables,
)
from whence.measures.request import computes, layers_of, settled_options, with_bases
from whence.measures.takes import Sizes
from whence.models.anatomy import Anatomy
from whence.models.block import Block
from whence.models.capture import walk
from whence.models.encode import Encoded, encode
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.models.memory import HOST, Needs, budget, claim, gigabytes
from whence.models.precision import reported
from whence.sentence.label import labelled
from whence.text.sentence import Sentence, sentence

LARGE = 1_000_000_000
MEMORY = 2**31  # for derivatives, unless there is less or an option says so
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
    given = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, given, truncate)
    needed = needs(model, wanted, len(encoded.tokens), kept, settled)
    used = settled | _claimed(needed, model, len(encoded.tokens), memory_limit, settled)
    with torch.autocast(model.model.device.type, enabled=False):
        arrays = _arrays(model, wanted, encoded, used, kept, progress)
    attributes = provenance(model, names, settled) | _texts(given)
    dataset = labelled(arrays, wanted, encoded, kept, attributes)
    return dataset.assign_attrs(_unproved(dataset, model.anatomy))


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
    needed = with_bases(wanted)
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
    dtype = reported(settings.anatomy.model.dtype)

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


def _given(values: Tensor, settings: Settings) -> np.ndarray:
    """On the host, in the precision it is given back in."""
    return values.to("cpu", reported(settings.anatomy.model.dtype)).numpy()


def _placed(values: Tensor, variable: Variable) -> np.ndarray:
    """Without the batch, the layer axis where the variable has it."""
    return values[:, 0].movedim(0, variable.dims.index("layer")).numpy()


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
