"""Tangents on their way through all blocks, in portions that keep to a memory budget, seen at every layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.measures.fold import bytes_of, fold, pays
from whence.models.memory import gigabytes
from whence.models.tangent import Chain, Step

# rows of the matrix products: enough of them to run at full speed, few enough for the cache
ROWS = 2048
# what is alive inside a block: so many tensors as wide as the stream, so many as large as the attention
WIDE, SQUARE = 24, 6
Visit = Callable[[int, int, Float[Tensor, "u k m"]], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Tangents that start at one token, as changes of layer 0."""

    source: int
    vectors: Float[Tensor, "k m"]


def travel(
    chain: Chain, bundles: Sequence[Bundle], depth: int, memory: int, visit: Visit, progress: Progress | None = None
) -> None:
    """Calls visit(layer, which bundle, its tangents with tokens first) for every bundle after each of `depth` blocks.

    In a decoder the tokens may start at the bundle's source: those before it do not move. Blocks are multiplied out
    beforehand (`fold`) when the tangents that fit into the memory are many enough to pay for it.
    """
    steps, total = chain.steps[:depth], sum(len(bundle.vectors) for bundle in bundles)
    report = _Report(progress, depth * total)
    chunk = portion(chain, memory)
    together = min(_room(chain, memory), total)
    folding = pays(together, chain.states.shape[-1])
    for group in _groups(bundles, together if folding else chunk):
        chosen = {which: bundles[which] for which in group}
        (_folded if folding else _plain)(chain, steps, chosen, chunk, visit, report)


def portion(chain: Chain, memory: int) -> int:
    """How many tangents go through a block at a time; refuses when the memory is not enough for one."""
    tokens = len(chain.states)
    each = _inside(chain)
    if memory < each:
        raise BadInput(
            f"One tangent of {tokens:,} tokens takes {gigabytes(each)} and {gigabytes(memory)} may be used; raise the"
            " memory limit or shorten the text."
        )
    return max(1, min(ROWS // tokens, memory // each))


@dataclass
class _Report:
    progress: Progress | None
    total: int
    done: int = 0

    def __call__(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)


def _inside(chain: Chain) -> int:
    """Bytes one tangent takes while it goes through a block."""
    tokens, width = chain.states.shape
    attended = chain.steps[0].attended
    heads = 1 if attended is None else attended.weights[:, :, 0, 0].numel()
    return chain.states.element_size() * tokens * (WIDE * width + SQUARE * heads * tokens)


def _room(chain: Chain, memory: int) -> int:
    """How many tangents can wait between two blocks beside the maps of one; none where the blocks cannot be folded."""
    if chain.steps[0].attended is None:
        return 0
    left = memory - bytes_of(chain.steps[0]) - portion(chain, memory) * _inside(chain)
    return max(0, left // (chain.states.element_size() * chain.states.numel()))


def _groups(bundles: Sequence[Bundle], room: int) -> Iterator[list[int]]:
    """Runs of neighbouring bundles, all about as large, none larger than the room unless it is one bundle."""
    total = sum(len(bundle.vectors) for bundle in bundles)
    share = total / math.ceil(total / room)
    group: list[int] = []
    held = 0
    for which, bundle in enumerate(bundles):
        if group and held + len(bundle.vectors) > share:
            yield group
            group, held = [], 0
        group.append(which)
        held += len(bundle.vectors)
    yield group


def _folded(
    chain: Chain, steps: Sequence[Step], group: dict[int, Bundle], chunk: int, visit: Visit, report: _Report
) -> None:
    states = {which: _started(chain, bundle) for which, bundle in group.items()}
    for layer, step in enumerate(steps):
        folded = fold(step, chunk)
        for which, tangents in states.items():
            moved = _own_code(step, tangents, chunk) if folded is None else folded.push(tangents)
            states[which] = moved
            visit(layer, which, moved)
            report(tangents.shape[1])


def _plain(
    chain: Chain, steps: Sequence[Step], group: dict[int, Bundle], chunk: int, visit: Visit, report: _Report
) -> None:
    sizes = [len(bundle.vectors) for bundle in group.values()]
    tokens = len(chain.states)
    tangents = torch.cat([_padded(_started(chain, bundle), tokens) for bundle in group.values()], dim=1)
    for layer, step in enumerate(steps):
        tangents = _own_code(step, tangents, chunk)
        for which, own in zip(group, tangents.split(sizes, dim=1), strict=True):
            visit(layer, which, own)
        report(sum(sizes))


def _own_code(step: Step, tangents: Float[Tensor, "u k m"], chunk: int) -> Float[Tensor, "u k m"]:
    """Through the block's own code, a portion at a time."""
    count = len(tangents)
    given = rearrange(_padded(tangents, len(step.states)), "t k m -> k t m")
    moved = torch.cat([step.push(part) for part in given.split(chunk)])
    return rearrange(moved, "k t m -> t k m")[-count:]


def _started(chain: Chain, bundle: Bundle) -> Float[Tensor, "u k m"]:
    """The bundle at layer 0; in a decoder from its source on."""
    first = bundle.source if chain.causal else 0
    tangents = bundle.vectors.new_zeros(len(chain.states) - first, *bundle.vectors.shape)
    tangents[bundle.source - first] = bundle.vectors
    return tangents


def _padded(tangents: Float[Tensor, "u k m"], tokens: int) -> Float[Tensor, "t k m"]:
    missing = tokens - len(tangents)
    return tangents if missing == 0 else torch.cat([tangents.new_zeros(missing, *tangents.shape[1:]), tangents])
