"""How much of a block a measure is given: all of it, the rows of some targets, or of its attention only margins."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from whence.measures.registry import Settings, Variable
from whence.measures.takes import rows_of
from whence.models.block import Block

READS = ("margins", "rows", "whole")  # each has what the ones before it have


def reads_of(wanted: Iterable[Variable]) -> str:
    """The most that any of these variables reads; rows are of use only where there is one result for each."""
    most = max((READS.index(variable.reads) for variable in wanted), default=0)
    one_each = all("target" in variable.dims for variable in wanted)
    return READS[most] if most != 1 or one_each else "whole"


def portions(
    block: Block,
    compute: Callable[..., Mapping[str, Tensor]],
    settings: Settings,
    targets: tuple[int, ...] | None,
    known: Mapping[str, Variable],
) -> Iterator[tuple[slice, Mapping[str, Tensor]]]:
    """What a measure makes of the block, for some of its targets after the other: which of them, and their tensors."""
    reads, whole = reads_of([known[name] for name in settings.wanted]), block.rows is None
    _, heads, tokens, _ = block.attention.shape
    places = torch.arange(tokens) if targets is None else torch.tensor(targets)
    count = rows_of(reads, heads, tokens, None if targets is None else len(targets), whole)
    if reads == "whole" or (whole and targets is None):
        yield slice(0, len(places)), _chosen(compute(block.whole, settings), targets, known)
    elif reads == "margins":
        yield slice(0, len(places)), compute(block.at(places, weights=whole), settings)
    else:
        for part in torch.arange(len(places)).split(count):
            yield slice(int(part[0]), int(part[-1]) + 1), compute(block.at(places[part]), settings)


def _chosen(
    tensors: Mapping[str, Tensor], targets: tuple[int, ...] | None, known: Mapping[str, Variable]
) -> Mapping[str, Tensor]:
    """The rows of the selected targets."""
    if targets is None:
        return tensors
    axes = {name: target_axis(known[name]) for name in tensors if name in known}
    return {
        name: tensors[name] if axis is None else tensors[name].index_select(axis, _places(targets, tensors[name]))
        for name, axis in axes.items()
    }


def _places(targets: tuple[int, ...], values: Tensor) -> Tensor:
    return torch.tensor(targets, device=values.device)


def target_axis(variable: Variable) -> int | None:
    """Where the targets are, in a tensor with a batch axis in place of the layer axis."""
    if "target" not in variable.dims:
        return None
    return 1 + [dim for dim in variable.dims if dim != "layer"].index("target")
