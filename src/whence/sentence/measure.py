"""One sentence, measured: a verified pass, every measure asked for, one labelled Dataset."""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence._arguments import whole
from whence.errors import BadInput
from whence.measures.options import Options
from whence.measures.registry import Settings, Variable, axes, chosen, owners, variables
from whence.measures.registry import measures as registered
from whence.measures.request import Function, computes, layers_of, parameters_of, targets_of, with_bases
from whence.measures.takes import Sizes
from whence.models.anatomy import Anatomy
from whence.models.block import Block
from whence.models.capture import visit_blocks
from whence.models.encode import encode
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.models.memory import HOST, Needs, budget, claim, gigabytes, resident
from whence.models.precision import reported
from whence.sentence.label import labelled
from whence.text.sentence import Sentence, sentence

LARGE = 1_000_000_000
MEMORY = 2**31  # for derivatives, unless there is less or an option says so
REMEDY = "ask for fewer measures or layers (layers=), shorten the text, or allow more (memory_limit=)"
log = logging.getLogger("whence")


def measure(
    model: Model,
    text: object,
    measures: str | Options | Iterable[str | Options] = ("attention",),
    *,
    layers: int | Iterable[int] | None = None,
    targets: int | Iterable[int] | None = None,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """The measures of one text, or of a pair of texts, as a Dataset with tokens, words and provenance.

    measures      names (`whence.list_measures` has them with their axes and papers), or options of a measure, as in
                  whence.Contribution(error=0.01); a name alone means its defaults
    layers        only these blocks; 1 is the first
    targets       only the rows of these tokens, counted from 0, or from the end with -1
    truncate      cut a text that is longer than the model takes, which is an error otherwise
    memory_limit  bytes that may be taken; more is refused before the work. By default what the machine has free
    progress      progress(done, of) is called during the computation, and may end it by raising

    Blocks that do not attend, in hybrids, are NaN where attention is needed. An analysis that is there for one
    variable and was not asked for of another is NaN in the other.

    >>> ds = whence.measure(whence.load(), "Paris is the capital of [MASK].", ["attention", "mixing"], targets=[6])
    >>> dict(ds.mixing.sizes)
    {'analysis': 5, 'layer': 6, 'target': 1}
    """
    wanted, options = chosen(measures, loaded(model).gives, model.anatomy.family, model.reasons)
    kept = layers_of(layers, model.anatomy.layers)
    _check_attending(kept, wanted.values(), model.anatomy)
    memory_limit = None if memory_limit is None else whole("memory_limit", memory_limit, 1)
    given = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, given, truncate)
    rows = targets_of(targets, len(encoded.tokens))
    needed = needs(model, wanted, len(encoded.tokens), kept, options, rows)
    memory = _claimed(needed, model, len(encoded.tokens), memory_limit)
    settings = Settings(
        model.anatomy, encoded.batch, layers=tuple(kept), targets=rows, memory=memory, progress=progress
    )
    with torch.autocast(model.model.device.type, enabled=False):
        arrays, about = _arrays(settings, wanted, options)
    dataset = labelled(arrays, about, wanted, encoded, settings)
    attributes = provenance(model, options, parameters_of(options)) | _texts(given)
    return dataset.assign_attrs(attributes | _unproved(dataset, model.anatomy))


def _check_attending(layers: Iterable[int], wanted: Iterable[Variable], anatomy: Anatomy) -> None:
    """Not all that was asked for would be NaN."""
    if all(variable.of_attention for variable in wanted) and not set(layers) & set(anatomy.attending):
        raise BadInput(f"None of the layers asked for attends; {anatomy.listed_attending} do.")


def _arrays(
    asked: Settings, wanted: Mapping[str, Variable], options: Mapping[str, Options]
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    """Variable -> array with all its axes, and variable -> attributes."""
    layers = asked.layers or ()
    needed = with_bases(wanted)
    settings = replace(asked, wanted=needed)
    across = computes("layers", settings, options)
    visited = tuple(range(1, max(layers) + 1)) if across else layers
    found = _over_blocks(settings, computes("block", settings, options), visited, whole=bool(across))
    for compute, own in across:
        found |= compute(found, own)
    places = slice(None) if visited == layers else [layer - 1 for layer in layers]
    arrays = {name: _placed(found.pop(name)[places], wanted[name]) for name in wanted if name in found}
    about: dict[str, dict[str, Any]] = {}
    for compute, own in computes("model", settings, options):
        for name, values in compute(own).items():
            variable, _, attribute = name.partition(".")
            if attribute and variable in wanted:
                about.setdefault(variable, {})[attribute] = values.item()
            elif name in wanted:
                arrays[name] = _given(values, settings)
    return {name: _rows(values, wanted[name], asked.targets) for name, values in arrays.items()}, about


def _rows(values: np.ndarray, variable: Variable, targets: tuple[int, ...] | None) -> np.ndarray:
    """Those of the targets asked for, unless only they are there."""
    if targets is None or "target" not in variable.dims:
        return values
    axis = variable.dims.index("target")
    return values if values.shape[axis] == len(targets) else values.take(targets, axis)


def _over_blocks(
    settings: Settings, computes: list[tuple[Function, Settings]], layers: tuple[int, ...], whole: bool
) -> dict[str, Tensor]:
    """Variable -> tensor, layer first, batch second; one block's attention is alive at a time, NaN where there is none.

    What a block gives is put into its place at once: pieces that are stacked in the end would be there twice. Only the
    targets asked for are kept, unless the `whole` maps are to be accumulated.
    """
    rows: dict[str, Tensor] = {}
    if not computes:
        return rows
    places = {layer: place for place, layer in enumerate(layers)}
    attending = set(layers) & set(settings.anatomy.attending)
    steps, total = itertools.count(1), len(attending) * len(computes)
    dtype, known = reported(settings.anatomy.model.dtype), variables()

    def visit(block: Block) -> None:
        if block.layer not in places or not block.attends:
            return
        for compute, own in computes:
            for name, values in compute(block, own).items():
                if name in own.wanted:
                    values = values if whole else _of_targets(values, known[name].dims, settings.targets)
                    if name not in rows:
                        rows[name] = torch.full((len(layers), *values.shape), torch.nan, dtype=dtype)
                    rows[name][places[block.layer]] = values
            if settings.progress is not None:
                settings.progress(next(steps), total)

    if attending:
        visit_blocks(settings.anatomy, settings.batch, visit, last=max(attending))
    return rows


def _of_targets(values: Tensor, dims: tuple[str, ...], targets: tuple[int, ...] | None) -> Tensor:
    """The rows asked for, of a tensor that has the batch in the place of the layer."""
    if targets is None or "target" not in dims:
        return values
    axis = 1 + [dim for dim in dims if dim != "layer"].index("target")
    return values.index_select(axis, torch.tensor(targets, device=values.device))


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
    model: Model,
    wanted: Mapping[str, Variable],
    tokens: int,
    layers: list[int],
    options: Mapping[str, Options],
    targets: tuple[int, ...] | None = None,
) -> Needs:
    """What these variables take, said from sizes alone; no text is run."""
    known, table = variables(), registered()
    bases = with_bases(wanted) - wanted.keys()
    names = dict.fromkeys(owners()[variable] for variable in (*wanted, *bases))
    values = {name: options[name].values() if name in options else table[name].options().values() for name in names}
    sized = {name: Sizes.of(model.anatomy, tokens, tuple(layers), values[name]) for name in names}
    sizes = next(iter(sized.values()))
    kept = sum(_bytes(variable, sizes, sizes.layers, targets) for variable in wanted.values())
    kept += sum(_bytes(known[base], sizes, sizes.depth) for base in bases)
    works = [table[name].takes(sized[name], values[name]) for name in names]
    most = max(works, key=lambda work: work.held + work.uses(MEMORY))
    return Needs(kept, most.held, most.uses, most.least)


def _bytes(variable: Variable, sizes: Sizes, layers: int, targets: tuple[int, ...] | None = None) -> int:
    known = axes()
    lengths = {"layer": layers} | ({} if targets is None else {"target": len(targets)})
    return sizes.number * math.prod(lengths.get(dim) or known[dim].size(sizes) for dim in variable.dims)


def _claimed(needed: Needs, model: Model, tokens: int, limit: int | None) -> int:
    """Says what will be taken or refuses it; gives what is left for derivatives."""
    device = model.model.device
    memory = budget(needed, device, limit, MEMORY)
    taken = resident(needed.held + needed.uses(memory)) + (needed.results if device.type == HOST.type else 0)
    if taken > LARGE:
        log.warning("%s tokens will take about %s of memory", f"{tokens:,}", gigabytes(taken))
    claim(taken, tokens, device, limit, REMEDY)
    if device.type != HOST.type:
        claim(needed.results, tokens, HOST, limit, REMEDY)
    return memory
