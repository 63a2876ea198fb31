"""A source and the beginning of its answer, measured in both stacks: one DataTree with three Datasets.

/encoder has what one stack has. /decoder has what prefix tokens give to prefix tokens, /cross what source tokens give
to them. Attention and its parts are measured in each attention by itself; rows of all else go over both texts, and
stand half in /cross, half in /decoder.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence import _arguments
from whence.errors import BadInput
from whence.measures.attention.sink import sinks
from whence.measures.norms import crossed
from whence.measures.options import Options
from whence.measures.registry import LABELS, Settings, Variable, chosen, owners
from whence.measures.request import Function, computes, parameters_of, targets_of
from whence.measures.seen import target_axis
from whence.models.block import Block
from whence.models.capture import visit_blocks
from whence.models.fingerprint import provenance
from whence.models.given_pair import Pair, both_of
from whence.models.load import Model, loaded
from whence.models.pieces import device_of
from whence.models.precision import reported
from whence.sentence import measure as one
from whence.sentence.label import labelled

DECODER, CROSS = "decoder", "cross"
SIDES = (DECODER, CROSS)
# measured in either attention by itself
APART = frozenset(
    [
        "attention",
        "effective",
        "effective_correlation",
        "null",
        "value_rank",
        "minimum",
        "minimum_simplex",
        "norms_heads",
    ]
)
TOGETHER = frozenset({"norms", "mixing", "block", "alti"})  # of one block, with the sources of both texts
CHAINED = frozenset(["contribution", "jacobian", "decomposition", "jacobian_local", "gradient", "gradient_local"])
MEASURED = APART | TOGETHER | CHAINED
Halves = dict[tuple[str, str], Tensor]  # by side and variable
Side = Callable[[Block, Settings], Mapping[tuple[str, str], Tensor]]


def measure_both(
    model: Model,
    text: object,
    measures: str | Options | Iterable[str | Options],
    layers: int | Iterable[int] | None,
    targets: int | Iterable[int] | None,
    top: int | None,
    truncate: bool,
    memory_limit: int | None,
    progress: Callable[[int, int], None] | None,
) -> xarray.DataTree:
    """As `whence.measure`, of an encoder-decoder."""
    if top is not None:
        raise BadInput("Rows over two texts are not cut to their largest sources; leave top= out, or name targets=.")
    requested = _arguments.listed("measure", measures, str, Options)
    selected, options = chosen(requested, loaded(model, two_stacks=True).gives, model.anatomy.family, model.reasons)
    assert model.encoder is not None
    depths = model.encoder.anatomy.layers, model.anatomy.layers
    numbers = [None, None] if layers is None else _of_each(_arguments.layers(layers, 1, max(depths)), depths)
    pair = both_of(model, text, truncate)
    rows = targets_of(targets, len(pair.prefix.tokens))
    stage = partial(_staged, progress)
    encoded: list[Tensor] = []
    encoder = one.of_text(
        model.encoder,
        text[0],  # type: ignore[index]  # a pair, as was just checked
        requested,
        layers=numbers[0],
        truncate=truncate,
        memory_limit=memory_limit,
        progress=stage(0, 2),
        finished=encoded.append,
    )
    own = {name: variable for name, variable in selected.items() if owners()[name] in MEASURED}
    settings = Settings(
        model.anatomy,
        pair.batch,
        frozenset(own),
        layers=tuple(numbers[1] or range(1, depths[1] + 1)),
        targets=rows,
        progress=stage(1, 2),
    )
    needed = one.needs(model, own, len(pair.together.tokens), list(settings.layers or ()), options) if own else None
    if needed is not None:
        memory = one.claimed(needed, model, len(pair.together.tokens), memory_limit, lambda: one.REMEDY)
        settings = replace(settings, memory=memory)
    halves = halves_of(settings, options, own, encoded[-1] if encoded else None)
    about = provenance(model, options, parameters_of(options))
    about |= {"text": pair.source.sentence.text, "prefix": pair.prefix.sentence.text}
    sides = {side: _labelled(side, halves, own, pair, settings).assign_attrs(about) for side in SIDES}
    return xarray.DataTree.from_dict(
        {"/": xarray.Dataset(attrs=about), "encoder": encoder, **dict(reversed(sides.items()))}
    )


def halves_of(
    settings: Settings, options: Mapping[str, Options], own: Mapping[str, Variable], encoded: Tensor | None = None
) -> Halves:
    """What the answer's tokens have from the source and from each other: layer first, then any batch.

    Where it is known what the encoder gave, the decoder's blocks are walked through alone.
    """
    alone = replace(settings, batch=replace(settings.batch, encoded=encoded))
    with torch.autocast(device_of(settings.anatomy.model).type, enabled=False):
        return _by_blocks(alone, options, own) | _by_chain(settings, options, own)


def _of_each(layers: Sequence[int], depths: tuple[int, int]) -> list[list[int] | None]:
    """The layers of either stack, which may have different numbers of them."""
    by_stack = [sorted({layer for layer in layers if layer <= depth}) for depth in depths]
    if not all(by_stack):
        raise BadInput(
            f"The encoder has the layers 1 to {depths[0]} and the decoder 1 to {depths[1]}, and of one of them none was"
            " asked for; ask for some that both have."
        )
    return [*by_stack]


def _staged(progress: Callable[[int, int], None] | None, place: int, count: int) -> Callable[[int, int], None] | None:
    """Progress that goes on where the stage before ended."""
    if progress is None:
        return None
    return lambda done, total: progress(place * total + done, count * total)


def _by_blocks(settings: Settings, options: Mapping[str, Options], own: Mapping[str, Variable]) -> Halves:
    """What is measured in one block at a time, layer first, batch second."""
    wanted = frozenset(name for name in own if owners()[name] in APART | TOGETHER)
    if not wanted:
        return {}
    sides = _sides(replace(settings, wanted=wanted), options)
    layers, rows = settings.layers or (), list(settings.targets or range(settings.batch.prefix.ids.shape[1]))
    kept: dict[tuple[str, str], list[Tensor]] = {}
    known = {**own, **LABELS}

    def visit(block: Block) -> None:
        if block.layer not in layers:
            return
        for side in sides:
            for name, values in side(block, settings).items():
                axis = target_axis(known[name[1]])
                kept.setdefault(name, []).append(values if axis is None else values[(slice(None),) * axis + (rows,)])

    visit_blocks(settings.anatomy, settings.batch, visit, max(layers))
    return {name: torch.stack(values) for name, values in kept.items()}


def _sides(settings: Settings, options: Mapping[str, Options]) -> list[Side]:
    """What is asked of every block: of each attention by itself, and of both together."""
    apart = replace(settings, wanted=frozenset(name for name in settings.wanted if owners()[name] in APART))
    functions = computes("block", apart, options)
    sides: list[Side] = [_labels, *(partial(_apart, compute, own) for compute, own in functions)]
    together = settings.wanted - apart.wanted
    return [*sides, partial(_together, together)] if together else sides


def _labels(block: Block, settings: Settings) -> dict[tuple[str, str], Tensor]:
    return {(DECODER, name): values for name, values in sinks(block, settings).items()}


def _apart(compute: Function, own: Settings, block: Block, settings: Settings) -> dict[tuple[str, str], Tensor]:
    parts = {
        DECODER: (replace(block, cross=None), settings.batch.prefix),
        CROSS: (block.crossing, settings.batch.source),
    }
    return {
        (side, name): values
        for side, (seen, read) in parts.items()
        for name, values in compute(seen, replace(own, batch=read)).items()
        if name in own.wanted
    }


def _together(wanted: frozenset[str], block: Block, settings: Settings) -> dict[tuple[str, str], Tensor]:
    border = settings.batch.split
    whole = crossed.maps(block, [name for name in crossed.NAMES if name in wanted])
    whole |= {name: make(block) for name, make in MAPS.items() if name in wanted}
    halves = {(CROSS, name): values[..., :border] for name, values in whole.items()}
    halves |= {(DECODER, name): values[..., border:] for name, values in whole.items()}
    for name, ratio in {"mixing": crossed.mixing, "mixing_block_n": crossed.block_mixing}.items():
        if name in wanted:
            halves |= {(DECODER, name): ratio(block), (CROSS, name): ratio(block, "from_source")}
    return halves


MAPS: dict[str, Callable[[Block], Tensor]] = {"block_n": crossed.block_norms, "alti": crossed.alti}


def _by_chain(settings: Settings, options: Mapping[str, Options], own: Mapping[str, Variable]) -> Halves:
    """What goes through both stacks: rows of prefix tokens, with the sources of both texts; layer first, no batch."""
    wanted = frozenset(name for name in own if owners()[name] in CHAINED)
    border, anatomy = settings.batch.split, settings.anatomy
    assert border is not None and anatomy.encoder is not None
    rows = settings.targets or range(settings.batch.prefix.ids.shape[1])
    joint = replace(
        settings,
        wanted=wanted,
        layers=tuple(anatomy.encoder.layers + layer for layer in settings.layers or ()),
        targets=tuple(border + row for row in rows),
    )
    halves: Halves = {}
    for compute, chained in computes("model", joint, options):
        for name, values in compute(chained).items():
            if name not in wanted:  # a number about one, which stands behind its name
                halves[CROSS, name] = halves[DECODER, name] = values
            elif own[name].dims[-1] == "source":
                halves[CROSS, name] = values[:, list(chained.targets or ()), :border]
                halves[DECODER, name] = values[:, list(chained.targets or ()), border:]
            else:
                halves[DECODER, name] = values[:, list(chained.targets or ())]
    return halves


def _labelled(side: str, halves: Halves, own: Mapping[str, Variable], pair: Pair, settings: Settings) -> xarray.Dataset:
    known, dtype = {**own, **LABELS}, reported(settings.anatomy.model.dtype)
    arrays: dict[str, np.ndarray] = {}
    about: dict[str, dict[str, Any]] = {}
    for (where, name), values in halves.items():
        variable, _, attribute = name.partition(".")
        if where != side or variable not in known:
            continue
        if attribute:
            about.setdefault(variable, {})[attribute] = values.item()
            continue
        values = values.to("cpu", dtype)
        chained = name in own and owners()[name] in CHAINED
        arrays[name] = values.numpy() if chained else values[:, 0].movedim(0, known[name].dims.index("layer")).numpy()
    selected = {name: _told(side, name, variable) for name, variable in own.items() if name in arrays}
    return labelled(arrays, about, selected, pair.prefix, settings, pair.source if side == CROSS else None)


def _told(side: str, name: str, variable: Variable) -> Variable:
    """The ratios of /cross are others."""
    if side == CROSS and name.startswith("mixing"):
        return replace(variable, about="share that came from the source text")
    return variable
