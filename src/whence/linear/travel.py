"""Tangents on their way through all blocks, in portions that keep to a memory budget, seen at every layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.linear.direct import Direct, direct
from whence.linear.fold import Folded, bytes_of, fold, pays
from whence.models.memory import gigabytes
from whence.models.stack import Stack
from whence.models.tangent import Chain, Step

# rows of the matrix products: enough of them to run at full speed, few enough for the cache; with a matrix for every
# token at least so many tangents
ROWS, TANGENTS = 2048, 32
# what is alive inside a block: so many tensors as wide as the stream, so many as large as the attention
WIDE, SQUARE = 24, 6
ALIVE = 8  # of the largest tensor, in blocks that are not known to attend
Sizes = dict[int, int]  # of bundles that go together: their number, and how many tangents they have
Visit = Callable[[int, Sizes, Float[Tensor, "u k m"]], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Tangents that start at one token, as changes of layer 0."""

    source: int
    vectors: Float[Tensor, "k m"]


@dataclass(frozen=True, eq=False)
class _Own:
    """The block's own code."""

    step: Step

    def push(self, tangents: Float[Tensor, "t k m"]) -> Float[Tensor, "t k m"]:
        return rearrange(self.step.push(rearrange(tangents, "t k m -> k t m")), "k t m -> t k m")


@dataclass(frozen=True, eq=False)
class _Whole:
    """A way that takes all tokens."""

    tokens: int
    through: Direct | _Own

    def push(self, tangents: Float[Tensor, "u k m"]) -> Float[Tensor, "t k m"]:
        missing = tangents.new_zeros(self.tokens - len(tangents), *tangents.shape[1:])
        return self.through.push(torch.cat([missing, tangents]) if len(missing) else tangents.contiguous())


Way = Folded | _Whole  # both take tangents tokens first, of which the first, that do not move, may be missing


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
        steps = chain.steps[:depth]
        ways = tuple(direct(step) for step in steps) if chain.stack is None else (None,) * len(steps)
        return cls(chain, ways, memory, progress)

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

    def folds(self, tangents: int) -> bool:
        """Whether it pays to multiply the blocks out for so many tangents, or those of them that there is room for."""
        step = self.chain.steps[0]
        return step.attended is not None and pays(min(tangents, self.waiting(bytes_of(step))), step)

    def waiting(self, maps: int) -> int:
        """How many tangents can wait between two blocks beside so many bytes of maps."""
        states = self.chain.states
        left = self.room - maps - portion(self.chain, self.room, TANGENTS if maps else 1) * _inside(self.chain)
        return max(0, left // (states.element_size() * states.numel()))

    def way(self, layer: int, folding: bool, chunk: int) -> Way:
        """The quickest through a block."""
        kept = self.first if layer == 0 else None
        folded = self.fold(layer, chunk) if kept is None and folding else kept
        return folded or _Whole(len(self.chain.states), self.ways[layer] or _Own(self.chain.steps[layer]))

    def fold(self, layer: int, chunk: int) -> Folded | None:
        return fold(self.chain.steps[layer], self.ways[layer], chunk)


def travel(road: Road, bundles: Sequence[Bundle], visit: Visit) -> None:
    """Calls visit(layer, sizes of some bundles, their tangents side by side, tokens first) after each block.

    In a decoder the tokens may start at the first source: those before it do not move. Blocks are multiplied out
    beforehand (`fold`) when the tangents that fit into the memory are many enough to pay for it.
    """
    total = sum(len(bundle.vectors) for bundle in bundles)
    report = _Report(road.progress, road.depth * total)
    if road.chain.stack is not None:
        _through_stack(road.chain.stack, road, bundles, visit, report)
        return
    folding = road.folds(total)
    chunk = portion(road.chain, road.room, TANGENTS if folding else 1)
    room = road.waiting(bytes_of(road.chain.steps[0]) if folding else 0)
    for load in _loads(list(_groups(dict(enumerate(bundles)), chunk)), room):
        packs = [_Pack.of(road, group) for group in load]
        for layer in range(road.depth):
            way = road.way(layer, folding, chunk)
            for pack in packs:
                pack.advance(way, chunk)
                visit(layer, pack.sizes, pack.tangents)
                report(pack.tangents.shape[1])
            del way  # its maps make room before the next are made


def _through_stack(stack: Stack, road: Road, bundles: Sequence[Bundle], visit: Visit, report: "_Report") -> None:
    """All layers at a time, by the model's own code."""
    chunk = portion(road.chain, road.memory)
    for group in _groups(dict(enumerate(bundles)), chunk):
        pack = _Pack.of(road, group)
        started = rearrange(pack.tangents, "t k m -> k t m")
        parts = [stack.push(part, road.depth) for part in started.split(chunk)]
        for layer, tangents in enumerate(rearrange(torch.cat(parts), "k l t m -> l t k m")):
            visit(layer, pack.sizes, tangents)
            report(tangents.shape[1])


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
    if chain.stack is not None:
        return ALIVE * chain.stack.largest + 2 * len(chain.steps) * chain.states.numel() * chain.states.element_size()
    attended = chain.steps[0].attended
    heads = 1 if attended is None else attended.weights[:, :, 0, 0].numel()
    known = chain.states.element_size() * tokens * (WIDE * width + SQUARE * heads * tokens)
    return max([known, *(ALIVE * step.largest for step in chain.steps if step.attended is None)])


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


def _loads(groups: list[dict[int, Bundle]], room: int) -> Iterator[list[dict[int, Bundle]]]:
    """What goes through the blocks together, all loads about as large, none larger than the room unless it is one."""
    largest = max(sum(len(bundle.vectors) for bundle in group.values()) for group in groups)
    count = math.ceil(len(groups) / max(1, room // largest))
    ends = [len(groups) * part // count for part in range(count + 1)]
    return (groups[begin:end] for begin, end in pairwise(ends))


@dataclass(eq=False)
class _Pack:
    """Bundles on their way together; in a decoder from the first of their sources on."""

    sizes: Sizes
    tangents: Float[Tensor, "u k m"]

    @classmethod
    def of(cls, road: Road, bundles: dict[int, Bundle]) -> "_Pack":
        states = road.chain.states
        leaves_out = road.chain.causal and road.chain.stack is None
        first = min(bundle.source for bundle in bundles.values()) if leaves_out else 0
        sizes = {which: len(bundle.vectors) for which, bundle in bundles.items()}
        tangents = states.new_zeros(len(states) - first, sum(sizes.values()), states.shape[-1])
        for bundle, own in zip(bundles.values(), tangents.split(list(sizes.values()), dim=1), strict=True):
            own[bundle.source - first] = bundle.vectors
        return cls(sizes, tangents)

    def advance(self, way: Way, chunk: int) -> None:
        """Through a block, a portion of the tangents at a time."""
        parts = [way.push(part) for part in self.tangents.split(chunk, dim=1)]
        self.tangents = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
