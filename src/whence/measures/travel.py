"""Tangents on their way through all blocks, in portions that keep to a memory budget, seen at every layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.measures.direct import direct
from whence.measures.fold import bytes_of, fold, pays
from whence.models.memory import gigabytes
from whence.models.tangent import Chain

# rows of the matrix products: enough of them to run at full speed, few enough for the cache; with a matrix for every
# token at least so many tangents
ROWS, TANGENTS = 2048, 32
# what is alive inside a block: so many tensors as wide as the stream, so many as large as the attention
WIDE, SQUARE = 24, 6
Visit = Callable[[int, int, Float[Tensor, "u k m"]], None]
Progress = Callable[[int, int], None]
Push = Callable[[Float[Tensor, "k t m"]], Float[Tensor, "k t m"]]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Tangents that start at one token, as changes of layer 0."""

    source: int
    vectors: Float[Tensor, "k m"]


@dataclass(frozen=True, eq=False)
class Road:
    """The blocks up to a depth, each with the quickest way through it that needs no preparation."""

    chain: Chain
    pushes: tuple[Push, ...]
    memory: int
    progress: Progress | None = None

    @classmethod
    def of(cls, chain: Chain, depth: int, memory: int, progress: Progress | None = None) -> "Road":
        ways = [(step, direct(step)) for step in chain.steps[:depth]]
        return cls(chain, tuple(step.push if way is None else way.push for step, way in ways), memory, progress)

    @property
    def depth(self) -> int:
        return len(self.pushes)


def travel(road: Road, bundles: Sequence[Bundle], visit: Visit) -> None:
    """Calls visit(layer, which bundle, its tangents with tokens first) for every bundle after each block.

    In a decoder the tokens may start at the bundle's source: those before it do not move. Blocks are multiplied out
    beforehand (`fold`) when the tangents that fit into the memory are many enough to pay for it.
    """
    total = sum(len(bundle.vectors) for bundle in bundles)
    report = _Report(road.progress, road.depth * total)
    together = min(_room(road.chain, road.memory), total)
    folding = pays(together, road.chain.steps[0])
    chunk = portion(road.chain, road.memory, TANGENTS if folding else 1)
    for group in _groups(dict(enumerate(bundles)), together if folding else chunk):
        (_folded if folding else _plain)(road, group, chunk, visit, report)


def portion(chain: Chain, memory: int, least: int = 1) -> int:
    """How many tangents go through a block at a time; refuses when the memory is not enough for one."""
    tokens = len(chain.states)
    each = _inside(chain)
    if memory < each:
        raise BadInput(
            f"One tangent of {tokens:,} tokens takes {gigabytes(each)} and {gigabytes(memory)} may be used; raise the"
            " memory limit or shorten the text."
        )
    return min(max(ROWS // tokens, least), memory // each)


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
    left = memory - bytes_of(chain.steps[0]) - portion(chain, memory, TANGENTS) * _inside(chain)
    return max(0, left // (chain.states.element_size() * chain.states.numel()))


def _groups(bundles: dict[int, Bundle], room: int) -> Iterator[dict[int, Bundle]]:
    """Runs of neighbouring bundles, all about as large, none larger than the room unless it is one bundle."""
    total = sum(len(bundle.vectors) for bundle in bundles.values())
    share = total / math.ceil(total / room)
    group: dict[int, Bundle] = {}
    held = 0
    for which, bundle in bundles.items():
        if group and held + len(bundle.vectors) > share:
            yield group
            group, held = {}, 0
        group[which] = bundle
        held += len(bundle.vectors)
    yield group


def _folded(road: Road, group: dict[int, Bundle], chunk: int, visit: Visit, report: _Report) -> None:
    packs = [_Pack.of(road.chain, part) for part in _groups(group, chunk)]
    for layer, push in enumerate(road.pushes):
        folded = fold(road.chain.steps[layer], chunk)
        for pack in packs:
            if folded is None:
                pack.tangents = _portions(push, _padded(pack.tangents, len(road.chain.states)), chunk)
            else:
                pack.tangents = torch.cat([folded.push(part) for part in pack.tangents.split(chunk, dim=1)], dim=1)
            pack.show(layer, visit, report)


def _plain(road: Road, group: dict[int, Bundle], chunk: int, visit: Visit, report: _Report) -> None:
    pack = _Pack.of(road.chain, group)
    pack.tangents = _padded(pack.tangents, len(road.chain.states))
    for layer, push in enumerate(road.pushes):
        pack.tangents = _portions(push, pack.tangents, chunk)
        pack.show(layer, visit, report)


@dataclass(eq=False)
class _Pack:
    """Bundles on their way together; in a decoder from the first of their sources on."""

    sizes: dict[int, int]
    tangents: Float[Tensor, "u k m"]

    @classmethod
    def of(cls, chain: Chain, bundles: dict[int, Bundle]) -> "_Pack":
        first = min(bundle.source for bundle in bundles.values()) if chain.causal else 0
        sizes = {which: len(bundle.vectors) for which, bundle in bundles.items()}
        tangents = chain.states.new_zeros(len(chain.states) - first, sum(sizes.values()), chain.states.shape[-1])
        for bundle, own in zip(bundles.values(), tangents.split(list(sizes.values()), dim=1), strict=True):
            own[bundle.source - first] = bundle.vectors
        return cls(sizes, tangents)

    def show(self, layer: int, visit: Visit, report: _Report) -> None:
        for which, own in zip(self.sizes, self.tangents.split(list(self.sizes.values()), dim=1), strict=True):
            visit(layer, which, own)
        report(self.tangents.shape[1])


def _portions(push: Push, tangents: Float[Tensor, "u k m"], chunk: int) -> Float[Tensor, "u k m"]:
    """Through a block, a portion of the tangents at a time."""
    given = rearrange(tangents, "t k m -> k t m").contiguous()
    moved = torch.cat([push(part) for part in given.split(chunk)])
    return rearrange(moved, "k t m -> t k m")


def _padded(tangents: Float[Tensor, "u k m"], tokens: int) -> Float[Tensor, "t k m"]:
    missing = tokens - len(tangents)
    return tangents if missing == 0 else torch.cat([tangents.new_zeros(missing, *tangents.shape[1:]), tangents])
