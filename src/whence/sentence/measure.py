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
from whence.measures.attention.sink import sinks
from whence.measures.largest import PLACE, POSITIONS, declared, is_map, shortened
from whence.measures.options import Options
from whence.measures.registry import LABELS, Settings, Variable, axes, chosen, owners, variables
from whence.measures.registry import measures as registered
from whence.measures.request import Function, computes, layers_of, parameters_of, targets_of, with_bases
from whence.measures.seen import portions, reads_of, target_axis
from whence.measures.takes import Sizes
from whence.models.anatomy import Anatomy
from whence.models.block import Block
from whence.models.capture import visit_blocks
from whence.models.fingerprint import provenance
from whence.models.given import encoded_of, facing
from whence.models.load import Model, loaded
from whence.models.memory import HOST, SHARE, Needs, budget, claim, free_bytes, gigabytes, resident
from whence.models.precision import reported
from whence.sentence.label import labelled, said

LARGE = 1_000_000_000
FEW = 8  # sources of each row that are offered where all do not fit
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
    top: int | None = None,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset | xarray.DataTree:
    """The measures of one text, or of a pair of texts, as a Dataset with tokens, words and provenance.

    Args:
        model: a loaded model
        text: a text, a pair of texts as a tuple, a chat as a list of messages, or token ids; of a model that reads
            pictures or sounds, a picture (a file, a PIL image, an array), samples, or what the model's processor gave;
            of an encoder-decoder, a source and the beginning of its answer as a tuple
        measures: names (`whence.list_measures` has them with their axes and papers), or options of a measure, as in
            whence.Contribution(error=0.01); a name alone means its defaults
        layers: only these blocks; 1 is the first
        targets: only the rows of these tokens, counted from 0, or from the end with -1
        top: of every row of a map only so many sources, those of the largest size, on the axis `largest` in place of
            `source`; `<map>_source` says which they are, and `<map>_rest` what all others have together
        truncate: cut a text that is longer than the model takes, which is an error otherwise
        memory_limit: in bytes; a request that needs more is refused before the work. By default the free memory
        progress: progress(done, total) is called during the computation, and may end it by raising

    Returns:
        A Dataset with the variables of every measure, on the axes that `whence.list_measures` names. In hybrid models,
        layers without attention are NaN in every variable that needs it. An analysis that one variable has and another
        does not is NaN in the other. In a decoder, the coordinate `sink` labels the rows in which the first token holds
        more than half of the attention (mean of heads), and `head_sink` those of every head.

    Examples:
        >>> ds = whence.measure(whence.load(), "The keys to the cabinet [MASK] on the table.", ["mixing"], targets=[6])
        >>> dict(ds.mixing.sizes)
        {'analysis': 5, 'layer': 6, 'target': 1}
    """
    if isinstance(model, Model) and model.encoder is not None:
        from whence.sentence.two_stacks import measure_both

        return measure_both(model, text, measures, layers, targets, top, truncate, memory_limit, progress)
    return of_text(
        model,
        text,
        measures,
        layers=layers,
        targets=targets,
        top=top,
        truncate=truncate,
        memory_limit=memory_limit,
        progress=progress,
    )


def of_text(
    model: Model,
    text: object,
    measures: str | Options | Iterable[str | Options] = ("attention",),
    *,
    layers: int | Iterable[int] | None = None,
    targets: int | Iterable[int] | None = None,
    top: int | None = None,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    finished: Callable[[Tensor], None] | None = None,
) -> xarray.Dataset:
    """The same of a model of one stack."""
    model = facing(loaded(model), text)
    selected, options = chosen(measures, model.gives, model.anatomy.family, model.reasons)
    numbers = layers_of(layers, model.anatomy.layers)
    _check_attending(numbers, selected.values(), model.anatomy)
    memory_limit = None if memory_limit is None else whole("memory_limit", memory_limit, 1)
    encoded = encoded_of(model, text, truncate)
    rows = targets_of(targets, len(encoded.tokens))
    top = None if top is None else min(whole("top", top, 1), len(encoded.tokens))
    needed = needs(model, selected, len(encoded.tokens), numbers, options, rows, top)

    def remedy() -> str:
        return REMEDY if rows else _remedy(model, selected, len(encoded.tokens), numbers, options, memory_limit, top)

    memory = claimed(needed, model, len(encoded.tokens), memory_limit, remedy)
    settings = Settings(
        model.anatomy,
        encoded.batch,
        layers=tuple(numbers),
        targets=rows,
        memory=memory,
        progress=progress,
        top=top,
        finished=finished,
    )
    with torch.autocast(model.device.type, enabled=False):
        arrays, about = _arrays(settings, selected, options)
    dataset = labelled(arrays, about, declared(selected, top), encoded, settings)
    attributes = provenance(model, options, parameters_of(options)) | said(encoded)
    return dataset.assign_attrs(attributes | _unproved(dataset, model.anatomy))


def _check_attending(layers: Iterable[int], selected: Iterable[Variable], anatomy: Anatomy) -> None:
    """Refuses a request that would give nothing but NaN."""
    if all(variable.of_attention for variable in selected) and not set(layers) & set(anatomy.attending):
        raise BadInput(f"None of the layers asked for attends; {anatomy.listed_attending} do.")


def _arrays(
    settings: Settings, selected: Mapping[str, Variable], options: Mapping[str, Options]
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    """Variable -> array with all its axes, labels of rows among them, and variable -> attributes."""
    layers = settings.layers or ()
    settings = replace(settings, wanted=with_bases(selected))
    known, across = declared(selected, settings.top), computes("layers", settings, options)
    visited = tuple(range(1, max(layers) + 1)) if across else layers
    tensors = _over_blocks(
        settings, _with_labels(computes("block", settings, options), settings), visited, bool(across)
    )
    for compute, own in across:
        tensors |= compute(tensors, own)
    places = slice(None) if visited == layers else [layer - 1 for layer in layers]
    named = {**known, **LABELS}
    tensors = shortened(tensors, selected, settings.top) if across else tensors
    arrays = {name: _placed(tensors.pop(name)[places], row) for name, row in named.items() if name in tensors}
    about: dict[str, dict[str, Any]] = {}
    for compute, own in computes("model", settings, options):
        for name, values in shortened(compute(own), selected, settings.top).items():
            variable, _, attribute = name.partition(".")
            if attribute and variable in selected:
                about.setdefault(variable, {})[attribute] = values.item()
            elif name in known:
                arrays[name] = _on_host(values, settings)
    return {name: _rows(values, named[name], settings.targets) for name, values in arrays.items()}, about


def _with_labels(computes: list[tuple[Function, Settings]], settings: Settings) -> list[tuple[Function, Settings]]:
    """The same, and what labels a decoder's rows; an encoder's sinks are elsewhere, and vary."""
    if not computes or not settings.anatomy.causal:
        return computes
    return [*computes, (sinks, replace(settings, wanted=frozenset(LABELS)))]


def _rows(values: np.ndarray, variable: Variable, targets: tuple[int, ...] | None) -> np.ndarray:
    """The rows of the selected targets; unchanged when there are no others."""
    if targets is None or "target" not in variable.dims:
        return values
    axis = variable.dims.index("target")
    return values if values.shape[axis] == len(targets) else values.take(targets, axis)


def _over_blocks(
    settings: Settings, computes: list[tuple[Function, Settings]], layers: tuple[int, ...], whole: bool
) -> dict[str, Tensor]:
    """Variable -> tensor, layer first, batch second, NaN in layers without attention; one block is alive at a time.

    Results are written in place: stacking them at the end would hold them in memory twice. Only the selected targets
    are kept, unless the `whole` maps are accumulated over layers.
    """
    results: dict[str, Tensor] = {}
    if not computes:
        return results
    places = {layer: place for place, layer in enumerate(layers)}
    attending = set(layers) & set(settings.anatomy.attending)
    steps, total = itertools.count(1), len(attending) * len(computes)
    dtype, measured = reported(settings.anatomy.model.dtype), {**variables(), **LABELS}
    top, tokens = None if whole else settings.top, settings.batch.ids.shape[1]
    known = declared(measured, top)
    targets = None if whole else settings.targets
    count = tokens if targets is None else len(targets)

    def put(name: str, values: Tensor, place: int, some: slice) -> None:
        axis, shape = target_axis(known[name]), list(values.shape)
        if axis is not None:
            shape[axis] = count
        if name not in results:
            results[name] = _unmeasured(name, (len(layers), *shape), values, dtype)
        result = results[name][place]
        result = result if axis is None else result.narrow(axis, some.start, some.stop - some.start)
        result.copy_(values)

    def visit(block: Block) -> None:
        if block.layer not in places or not block.attends:
            return
        for compute, own in computes:
            for some, tensors in portions(block, compute, own, targets, measured):
                wanted = {name: tensors[name] for name in own.wanted & tensors.keys()}
                for name, values in shortened(wanted, measured, top).items():
                    put(name, values, places[block.layer], some)
            if settings.progress is not None:
                settings.progress(next(steps), total)

    if attending:
        queries = settings.anatomy.queries(1, tokens)
        visit_blocks(settings.anatomy, settings.batch, visit, max(attending), queries, settings.finished)
    return results


def _unmeasured(name: str, shape: tuple[int, ...], values: Tensor, dtype: torch.dtype) -> Tensor:
    """NaN in the precision of results; of the largest sources' places, -1."""
    return values.new_full(shape, -1) if name.endswith(PLACE) else torch.full(shape, torch.nan, dtype=dtype)


def _on_host(values: Tensor, settings: Settings) -> np.ndarray:
    """As an array on the host, in the precision of results."""
    dtype = reported(settings.anatomy.model.dtype) if values.dtype != POSITIONS else values.dtype
    return values.to("cpu", dtype).numpy()


def _placed(values: Tensor, variable: Variable) -> np.ndarray:
    """As an array without the batch axis, the layer axis where the variable has it."""
    return values[:, 0].movedim(0, variable.dims.index("layer")).numpy()


def _unproved(dataset: xarray.Dataset, anatomy: Anatomy) -> dict[str, int]:
    """How many rows of the smallest distribution are NaN because their proof failed; logged as well."""
    if "minimum_simplex" not in dataset:
        return {}
    attending = dataset.minimum_simplex.sel(layer=dataset.layer.isin(anatomy.attending))
    count = int(attending.isnull().any(attending.dims[-1]).sum())
    if count:
        log.warning("%s rows of minimum_simplex were not proved to be the smallest and are NaN", f"{count:,}")
    return {"minimum_simplex_unproved": count}


def needs(
    model: Model,
    selected: Mapping[str, Variable],
    tokens: int,
    layers: list[int],
    options: Mapping[str, Options],
    targets: tuple[int, ...] | None = None,
    top: int | None = None,
) -> Needs:
    """The memory these variables take, computed from sizes alone; no text is run."""
    registered_variables, table = variables(), registered()
    bases = with_bases(selected) - selected.keys()
    names = dict.fromkeys(owners()[variable] for variable in (*selected, *bases))
    values = {name: options[name].values() if name in options else table[name].options().values() for name in names}
    wanted = {**registered_variables, **selected}
    reads = {name: reads_of(wanted[each] for each in (*selected, *bases) if owners()[each] == name) for name in names}
    rows = None if bases else targets
    sized = {
        name: Sizes.of(model.anatomy, tokens, tuple(layers), values[name], targets, reads[name], rows is None)
        for name in names
    }
    sizes = next(iter(sized.values()))
    results = sum(_bytes(variable, sizes, sizes.layers, targets, top) for variable in declared(selected, top).values())
    results += sum(_bytes(registered_variables[base], sizes, sizes.depth) for base in bases)
    whole = [] if top is None else [name for name in selected if is_map(selected[name])]
    over = [name for name in whole if bases or table[owners()[name]].over == "model"]
    results += sum(_bytes(selected[name], sizes, sizes.layers, targets) for name in over)  # whole before they are short
    works = [table[name].takes(sized[name], values[name]) for name in names]
    largest = max(works, key=lambda work: work.held + work.uses(MEMORY))
    copied = max(
        (_bytes(selected[name], sizes, sizes.layers if name in over else 1, targets) for name in whole), default=0
    )
    return Needs(results, largest.held + copied, largest.uses, largest.least)


def taken(
    model: Model,
    measures: Iterable[str | Options],
    tokens: int,
    layers: int | Iterable[int] | None = None,
    targets: int | Iterable[int] | None = None,
    top: int | None = None,
) -> tuple[int, int]:
    """The bytes that these measures of so many tokens would take, and those of their results among them."""
    selected, options = chosen(list(measures), model.gives, model.anatomy.family, model.reasons)
    rows = targets_of(targets, tokens)
    needed = needs(model, selected, tokens, layers_of(layers, model.anatomy.layers), options, rows, top)
    return _total(needed, model, None), needed.results


def _bytes(
    variable: Variable, sizes: Sizes, layers: int, targets: tuple[int, ...] | None = None, top: int | None = None
) -> int:
    registered_axes = axes()
    lengths = {"layer": layers, "target": None if targets is None else len(targets), "largest": top}
    return sizes.number * math.prod(lengths.get(dim) or registered_axes[dim].size(sizes) for dim in variable.dims)


def _remedy(
    model: Model,
    selected: Mapping[str, Variable],
    tokens: int,
    layers: list[int],
    options: Mapping[str, Options],
    limit: int | None,
    top: int | None,
) -> str:
    """What to do instead; fewer rows, and fewer sources of each, are named where they would fit."""
    fewer: dict[str, tuple[tuple[int, ...] | None, int | None]]
    fewer = {"the rows of one token (targets=[-1])": ((tokens - 1,), top)}
    if top is None and any(is_map(variable) for variable in selected.values()):
        fewer[f"the {FEW} largest sources of each (top={FEW})"] = None, min(FEW, tokens)
    allowed = SHARE * free_bytes(model.device) if limit is None else limit
    sizes = {
        what: _total(needs(model, selected, tokens, layers, options, *some), model, limit)
        for what, some in fewer.items()
    }
    fitting = [f"{what} need {gigabytes(size)}" for what, size in sizes.items() if size <= allowed]
    return ", ".join([*fitting, f"or {REMEDY}"]) if fitting else REMEDY


def _total(needed: Needs, model: Model, limit: int | None) -> int:
    """What a request takes, results and all."""
    return resident(needed.held + needed.uses(budget(needed, model.device, limit, MEMORY))) + needed.results


def claimed(needed: Needs, model: Model, tokens: int, limit: int | None, remedy: Callable[[], str]) -> int:
    """Refuses what does not fit in memory and warns of much; returns the budget for derivatives."""
    device = model.device
    memory = budget(needed, device, limit, MEMORY)
    total = resident(needed.held + needed.uses(memory)) + (needed.results if device.type == HOST.type else 0)
    if total > LARGE:
        log.warning("%s tokens will take about %s of memory", f"{tokens:,}", gigabytes(total))
    claim(total, tokens, device, limit, remedy)
    if device.type != HOST.type:
        claim(needed.results, tokens, HOST, limit, remedy)
    return memory
