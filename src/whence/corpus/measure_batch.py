"""Measures one batch of sentences: every variable of the plan, the summaries of its maps by token, and the maps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from whence.corpus.annotate import Coded
from whence.corpus.plan import Plan, columns, row_axes
from whence.corpus.summaries import POSITIVE, TO, summaries
from whence.measures.norms.rollout import shares
from whence.measures.registry import BY_HEAD, BY_TOKEN, HEAD_TOKEN, HEADS, MAP, Settings, Variable, axes, variables
from whence.measures.request import computes, with_bases
from whence.models.batching import padded, padding_id
from whence.models.block import Batch, Block
from whence.models.capture import walk
from whence.models.load import Model
from whence.sentence.two_stacks import CROSS, DECODER, halves_of

Arrays = dict[str, np.ndarray]
FROM_SOURCE = "_from_source"  # of a row of an encoder-decoder's answer, what came from the source text


@dataclass(frozen=True, eq=False)
class Measured:
    """Name -> array of one batch, padded to its longest sentence; `l` are the plan's layers.

    tokens         b l t      columns of the table of tokens
    heads          b l h t    the same by head
    classes        b l t c    sums over sources by class
    classes_heads  b l h t c  the same by head
    sentences      b l h      one number per head and sentence
    maps           b l t s    maps, those of heads averaged
    head_maps      b l h t s  only when maps are kept
    """

    tokens: Arrays = field(default_factory=dict)
    heads: Arrays = field(default_factory=dict)
    classes: Arrays = field(default_factory=dict)
    classes_heads: Arrays = field(default_factory=dict)
    sentences: Arrays = field(default_factory=dict)
    maps: Arrays = field(default_factory=dict)
    head_maps: Arrays = field(default_factory=dict)


def measured(model: Model, plan: Plan, sentences: list[Coded], classes: list[str]) -> Measured:
    """The sentences measured in one padded batch; derivatives are taken sentence by sentence."""
    if model.encoder is not None:
        return _of_both(model, plan, sentences[0], classes)
    batch = _batch(model, sentences)
    indicator = _indicator(sentences, classes, batch.ids.shape[1])
    kept = Measured()
    places = torch.tensor(plan.layers) - 1
    tensors = _over_blocks(model, plan, batch, indicator, kept)
    tensors = {name: values[places] for name, values in tensors.items()}
    tensors |= _over_model(model, plan, sentences, batch.ids.shape[1])
    known = variables()
    for name in plan.variables:
        if name in tensors:
            keep = _KEEP[row_axes(known[name])]
            for column, values in _columns(name, known[name], tensors[name].movedim(0, 1)):
                keep(kept, column, values, known[name], indicator)
    return kept


def _batch(model: Model, sentences: list[Coded]) -> Batch:
    if len(sentences) == 1:
        return sentences[0].encoded.batch
    return padded([coded.encoded.batch for coded in sentences], padding_id(model.anatomy, model.tokenizer))


def _of_both(model: Model, plan: Plan, pair: Coded, classes: list[str]) -> Measured:
    """Of a pair of an encoder-decoder: the rows of its answer, over the sources of both texts."""
    kept, known, indicator = Measured(), variables(), _indicator([pair], classes, len(pair))
    settings = _settings(model, plan, pair.encoded.batch)
    halves = halves_of(settings, plan.settings, {name: known[name] for name in plan.variables})
    for name in plan.variables:
        sides = (_batched(halves[side, name], known[name]) for side in (DECODER, CROSS) if (side, name) in halves)
        for (column, own), *others in zip(*(_columns(name, known[name], side) for side in sides), strict=True):
            if row_axes(known[name]) == MAP:
                whole = torch.cat([*(across for _, across in others), own], dim=-1)
                _keep_map(kept, column, whole, known[name], indicator, pair.first)
                rows = shares(whole) if known[name].unit in POSITIVE else whole
                kept.tokens[column + FROM_SOURCE] = rows[..., : pair.first].sum(dim=-1).numpy()
            else:
                kept.tokens[column] = own.numpy()
                for _, across in others:
                    kept.tokens[column + FROM_SOURCE] = across.numpy()
    return kept


def _batched(values: Tensor, variable: Variable) -> Tensor:
    """Batch first, layer second; what goes through both stacks has no batch."""
    values = values.float().cpu()
    return values.movedim(0, 1) if values.ndim > len(variable.dims) else values[None]


def _columns(name: str, variable: Variable, values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Column -> values, batch and layer first, without the axes that are kept as columns."""
    dims, known = ["batch", "layer", *(dim for dim in variable.dims if dim != "layer")], axes()
    apart = [place for place, dim in enumerate(dims) if place > 1 and known[dim].kept == "columns"]
    if row_axes(variable) == HEADS:  # already averaged
        apart = []
    flat = values.movedim(apart, list(range(len(apart)))).flatten(0, len(apart) - 1) if apart else values[None]
    yield from zip(columns(name, variable), flat, strict=True)


def _indicator(sentences: list[Coded], classes: list[str], longest: int) -> Float[Tensor, "b s c"]:
    codes = {name: code for code, name in enumerate(classes)}
    indicator = torch.zeros(len(sentences), longest, len(classes))
    for row, coded in enumerate(sentences):
        indicator[row, torch.arange(len(coded)), torch.tensor([codes[name] for name in coded.classes])] = 1
    return indicator


def _settings(model: Model, plan: Plan, batch: Batch) -> Settings:
    return Settings(model.anatomy, batch, with_bases(plan.variables), layers=plan.layers)


def _over_blocks(model: Model, plan: Plan, batch: Batch, indicator: Tensor, kept: Measured) -> dict[str, Tensor]:
    """Variable -> tensor, layer first. Of attention by head only the summaries and the mean are kept."""
    settings = _settings(model, plan, batch)
    functions = computes("block", settings, plan.settings)
    if not functions:
        return {}
    by_head = frozenset(plan.of_dims(HEADS))

    def visit(block: Block) -> dict[str, Tensor]:
        if not block.attends:
            return {}
        outputs = {name: values for function, own in functions for name, values in function(block, own).items()}
        outputs = {name: values.float().cpu() for name, values in outputs.items() if name in settings.wanted}
        return outputs | _of_heads({name: outputs[name] for name in by_head & outputs.keys()}, indicator, plan)

    tensors = _stacked(walk(model.anatomy, batch, visit).blocks)
    places = torch.tensor(plan.layers) - 1
    _sort_heads(kept, {name: tensors.pop(name)[places].movedim(0, 1) for name in list(tensors) if ":" in name})
    for function, own in computes("layers", settings, plan.settings):
        tensors |= function(tensors, own)
    return tensors


def _stacked(blocks: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Variable -> tensor, layer first; NaN in layers that do not attend."""
    known = next(kept for kept in blocks if kept)
    empty = {name: torch.full_like(values, torch.nan) for name, values in known.items()}
    return {name: torch.stack([kept.get(name, empty[name]) for kept in blocks]) for name in known}


def _of_heads(maps: Mapping[str, Float[Tensor, "b h t s"]], indicator: Tensor, plan: Plan) -> dict[str, Tensor]:
    """In place of the heads' maps: their mean, and under NAME:QUANTITY the summaries of each."""
    reduced: dict[str, Tensor] = {}
    for name, values in maps.items():
        by_head = summaries(values, variables()[name].unit, indicator)
        reduced |= {f"{name}:{quantity}": tensor for quantity, tensor in by_head.items()}
        reduced[name] = values.mean(dim=1)
        if plan.maps:
            reduced[f"{name}:maps"] = values
    return reduced


def _sort_heads(kept: Measured, tensors: Mapping[str, Tensor]) -> None:
    for key, values in tensors.items():
        name, quantity = key.split(":")
        place = {"maps": kept.head_maps, TO: kept.classes_heads}.get(quantity, kept.heads)
        place[name if quantity == "maps" else f"{name}_{quantity}"] = values.numpy()


def _over_model(model: Model, plan: Plan, sentences: list[Coded], longest: int) -> dict[str, Tensor]:
    """Layer first; NaN past a sentence's end."""
    tensors: dict[str, Tensor] = {}
    for row, coded in enumerate(sentences):
        settings = _settings(model, plan, coded.encoded.batch)
        for function, own in computes("model", settings, plan.settings):
            for name, values in function(own).items():
                if name not in plan.variables:
                    continue
                if name not in tensors:
                    tensors[name] = torch.full((len(values), len(sentences), longest, longest), torch.nan)
                tensors[name][:, row, : len(coded), : len(coded)] = values.float().cpu()
    return tensors


def _keep_map(
    kept: Measured,
    name: str,
    values: Float[Tensor, "b l t s"],
    variable: Variable,
    indicator: Tensor,
    first: int = 0,
) -> None:
    kept.maps[name] = values.numpy()
    if name.endswith("_se"):
        return
    for quantity, tensor in summaries(values.nan_to_num(), variable.unit, indicator, first).items():
        (kept.classes if quantity == TO else kept.tokens)[f"{name}_{quantity}"] = tensor.numpy()


def _keep_tokens(kept: Measured, name: str, values: Float[Tensor, "b l t"], *_: object) -> None:
    kept.tokens[name] = values.numpy()


def _keep_tokens_of_heads(kept: Measured, name: str, values: Float[Tensor, "b l h t"], *_: object) -> None:
    kept.heads[name], kept.tokens[name] = values.numpy(), values.mean(dim=2).numpy()


def _keep_heads(kept: Measured, name: str, values: Float[Tensor, "b l h"], *_: object) -> None:
    kept.sentences[name] = values.numpy()


_KEEP: dict[tuple[str, ...] | None, Callable[..., None]] = {
    MAP: _keep_map,
    HEADS: _keep_map,
    BY_TOKEN: _keep_tokens,
    HEAD_TOKEN: _keep_tokens_of_heads,
    BY_HEAD: _keep_heads,
}
