"""Tangents on their way through all blocks, in portions that keep to a memory budget, seen at every layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.measures.direct import Direct, direct
from whence.measures.fold import Folded, bytes_of, fold, pays
from whence.models.memory import gigabytes
from whence.models.tangent import Chain

# rows of the matrix products: enough of them to run at full speed, few enough for the cache; with a matrix for every
# token at least so many tangents
ROWS, TANGENTS = 2048, 32
# what is alive inside a block: so many tensors as wide as the stream, so many as large as the attention
WIDE, SQUARE = 24, 6
ALIVE = 8  # of the largest tensor, in blocks that are not known to attend
Visit = Callable[[int, int, Float[Tensor, "u k m"]], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Tangents that start at one token, as changes of layer 0."""

    source: int
    vectors: Float[Tensor, "k m"]


@dataclass(frozen=True, eq=False)
class Road:
    """The blocks up to a depth with their derivatives from their parts; the maps of the first where they are kept."""

    chain: Chain
    ways: tuple[Direct | None, ...]
    memory: int
    progress: Progress | None = None
    first: Folded | None = None

    @classmethod
    def of(cls, chain: Chain, depth: int, memory: int, progress: Progress | None = None) -> "Road":
        return cls(chain, tuple(direct(step) for step in chain.steps[:depth]), memory, progress)

    @property
    def depth(self) -> int:
        return len(self.ways)

    def keeping(self, first: Folded | None) -> "Road":
        """With the maps of the first block, where a tangent has room beside them."""
        kept = replace(self, first=first)
        return kept if kept.room >= _inside(self.chain) else self

    @property
    def room(self) -> int:
        """Bytes beside the maps that are kept."""
        return self.memory - (0 if self.first is None else bytes_of(self.chain.steps[0]))

    def push(self, layer: int, tangents: Float[Tensor, "t k m"]) -> Float[Tensor, "t k m"]:
        """Through a block, the quickest way that needs no preparation."""
        way = self.ways[layer]
        if way is not None:
            return way.push(tangents)
        moved = self.chain.steps[layer].push(rearrange(tangents, "t k m -> k t m"))
        return rearrange(moved, "k t m -> t k m").contiguous()

    def fold(self, layer: int, chunk: int) -> Folded | None:
        kept = self.first if layer == 0 else None
        return fold(self.chain.steps[layer], self.ways[layer], chunk) if kept is None else kept


def travel(road: Road, bundles: Sequence[Bundle], visit: Visit) -> None:
    """Calls visit(layer, which bundle, its tangents with tokens first) for every bundle after each block.

    In a decoder the tokens may start at the bundle's source: those before it do not move. Blocks are multiplied out
    beforehand (`fold`) when the tangents that fit into the memory are many enough to pay for it.
    """
    total = sum(len(bundle.vectors) for bundle in bundles)
    report = _Report(road.progress, road.depth * total)
    together = min(_room(road.chain, road.room), total)
    folding = pays(together, road.chain.steps[0])
    chunk = portion(road.chain, road.room, TANGENTS if folding else 1)
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
    known = chain.states.element_size() * tokens * (WIDE * width + SQUARE * heads * tokens)
    return max([known, *(ALIVE * step.largest for step in chain.steps if step.attended is None)])


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
    for layer in range(road.depth):
        folded = road.fold(layer, chunk)
        for pack in packs:
            pack.advance(road, layer, folded, chunk)
            pack.show(layer, visit, report)


def _plain(road: Road, group: dict[int, Bundle], chunk: int, visit: Visit, report: _Report) -> None:
    pack = _Pack.of(road.chain, group)
    for layer in range(road.depth):
        pack.advance(road, layer, road.first if layer == 0 else None, chunk)
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

    def advance(self, road: Road, layer: int, folded: Folded | None, chunk: int) -> None:
        """Through a block, a portion of the tangents at a time."""
        if folded is None:
            given = _padded(self.tangents, len(road.chain.states))
            self.tangents = torch.cat(
                [road.push(layer, part.contiguous()) for part in given.split(chunk, dim=1)], dim=1
            )
        else:
            self.tangents = torch.cat([folded.push(part) for part in self.tangents.split(chunk, dim=1)], dim=1)

    def show(self, layer: int, visit: Visit, report: _Report) -> None:
        for which, own in zip(self.sizes, self.tangents.split(list(self.sizes.values()), dim=1), strict=True):
            visit(layer, which, own)
        report(self.tangents.shape[1])


def _padded(tangents: Float[Tensor, "u k m"], tokens: int) -> Float[Tensor, "t k m"]:
    missing = tokens - len(tangents)
    return tangents if missing == 0 else torch.cat([tangents.new_zeros(missing, *tangents.shape[1:]), tangents])
