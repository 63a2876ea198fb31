"""Many vectors on their way through many blocks, pushed or pulled, in portions that keep to a memory budget."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.linear import cost
from whence.linear.matrices import Matrices, bytes_of, matrices
from whence.linear.steps import Branches, Vectors
from whence.linear.tangent import by_parts, padded
from whence.models.frozen import FrozenBlock, FrozenBlocks
from whence.models.memory import gigabytes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Vectors that start at one token of one layer: tangents of a source, or cotangents of a target."""

    token: int
    vectors: Float[Tensor, "k m"]
    layer: int = 0


@dataclass(eq=False)
class Pack:
    """Bundles that start at one layer and go together; in a decoder only at the tokens that they can reach."""

    bundles: dict[int, Bundle]
    tokens: slice
    vectors: Vectors

    @property
    def layer(self) -> int:
        return next(iter(self.bundles.values())).layer

    def split(self) -> Iterator[tuple[int, Vectors]]:
        """The number of each bundle, and what has become of its vectors."""
        sizes = [len(bundle.vectors) for bundle in self.bundles.values()]
        return zip(self.bundles, self.vectors.split(sizes), strict=True)

    def advance(self, through: Callable[[Vectors], Vectors], chunk: int) -> None:
        """Through a block, a portion of the vectors at a time."""
        if len(self.vectors) <= chunk:
            self.vectors = through(self.vectors)
            return
        for part in self.vectors.split(chunk):  # in place: pieces that stay between others would tear the memory apart
            part.copy_(through(part))


Visit = Callable[[int, Pack], None]  # a layer, and what has arrived there


@dataclass(frozen=True, eq=False)
class OwnCode:
    """A block by autograd, among some of its tokens."""

    step: FrozenBlock
    tokens: slice = field(default_factory=lambda: slice(None))

    def push(self, vectors: Vectors) -> Vectors:
        return self.step.push(self._whole(vectors))[:, self.tokens]

    def pull(self, covectors: Vectors) -> Vectors:
        return self.step.pull(self._whole(covectors))[:, self.tokens]

    def among(self, tokens: slice) -> "OwnCode":
        return replace(self, tokens=tokens)

    def _whole(self, vectors: Float[Tensor, "k u m"]) -> Float[Tensor, "k t m"]:
        return padded(vectors, len(self.step.states), self.tokens)


@dataclass(frozen=True, eq=False)
class Propagator:
    """The blocks up to a depth, which way vectors go, and the memory they may take on their way."""

    chain: FrozenBlocks
    memory: int
    back: bool = False
    progress: Progress | None = None
    _parts: dict[int, Branches | None] = field(default_factory=dict)

    def send(self, bundles: Sequence[Bundle], visit: Visit) -> None:
        """Calls visit(layer, pack) whenever some of the vectors have passed a block.

        In a decoder tokens that vectors cannot reach are left out. Blocks are multiplied out beforehand (`matrices`)
        when the vectors that fit into the memory are many enough to pay for it.
        """
        total = sum(len(bundle.vectors) for bundle in bundles)
        report = _Report(self.progress, sum(self._passed(bundle) * len(bundle.vectors) for bundle in bundles))
        if self.chain.stack is not None:
            self._through_stack(bundles, visit, report)
            return
        multiplied = self.multiplies(total)
        chunk = self.portion(cost.VECTORS if multiplied else 1)
        room = self.waiting(bytes_of(self.chain.steps[0]) if multiplied else 0)
        for load in _loads(list(_groups(bundles, chunk)), room):
            self._through_blocks([self._pack(group) for group in load], multiplied, total, chunk, visit, report)

    def multiplies(self, vectors: int) -> bool:
        """Whether it pays to multiply the blocks out for so many vectors, or those of them that there is room for."""
        step = self.chain.steps[0]
        if step.attended is None:
            return False
        vectors = min(vectors, self.waiting(bytes_of(step)))
        return cost.multiplying_pays(vectors, step.states.shape[-1], making(step))

    def waiting(self, maps: int) -> int:
        """How many vectors can wait between two blocks beside so many bytes of matrices."""
        states = self.chain.states
        left = self.memory - maps - self.portion(cost.VECTORS if maps else 1) * _inside(self.chain)
        return max(0, left // (states.element_size() * states.numel()))

    def portion(self, least: int = 1) -> int:
        """How many vectors go through a block at a time; refuses when the memory is not enough for one."""
        tokens, tangent = len(self.chain.states), _inside(self.chain)
        if self.memory < tangent:
            raise BadInput(
                f"One tangent of {tokens:,} tokens takes {gigabytes(tangent)} and {gigabytes(self.memory)} may be used;"
                " raise the memory limit or shorten the text."
            )
        return cost.together(tokens, self.memory // tangent, least)

    def _through_blocks(
        self, packs: list[Pack], multiplied: bool, total: int, chunk: int, visit: Visit, report: "_Report"
    ) -> None:
        layers = range(len(self.chain.steps))
        for layer in reversed(layers) if self.back else layers:
            begun = [pack for pack in packs if (pack.layer > layer if self.back else pack.layer <= layer)]
            if not begun:
                continue
            block = self._block(layer, multiplied, total, chunk)
            for pack in begun:
                among = block.among(pack.tokens)
                pack.vectors = pack.vectors.to(self.chain.steps[layer].states.device)
                pack.advance(among.pull if self.back else among.push, chunk)
                visit(layer if self.back else layer + 1, pack)
                report(len(pack.vectors))
            del block, among  # its matrices make room before the next are made

    def _block(self, layer: int, multiplied: bool, vectors: int, chunk: int) -> Branches | Matrices | OwnCode:
        """The quickest way through a block."""
        step = self.chain.steps[layer]
        if layer not in self._parts and vectors >= cost.PARTS:
            if not step.weights.in_place:  # they hold copies of the weights
                self._parts.clear()
            self._parts[layer] = by_parts(step, self.back)
        parts = self._parts.get(layer)
        return (matrices(step, parts, chunk, self.back) if multiplied else None) or parts or OwnCode(step)

    def _through_stack(self, bundles: Sequence[Bundle], visit: Visit, report: "_Report") -> None:
        """All layers at a time, by the model's own code."""
        stack, depth, chunk = self.chain.stack, len(self.chain.steps), self.portion()
        assert stack is not None
        for pack in map(self._pack, _groups(bundles, chunk)):
            if self.back:
                pack.advance(partial(stack.pull_from, pack.layer), chunk)
                visit(0, pack)
                report(pack.layer * len(pack.vectors))
                continue
            parts = [stack.push(part, depth) for part in pack.vectors.split(chunk)]
            for layer, vectors in enumerate(torch.cat(parts).unbind(dim=1), start=1):
                visit(layer, replace(pack, vectors=vectors))
                report(len(vectors))

    def _passed(self, bundle: Bundle) -> int:
        return bundle.layer if self.back else len(self.chain.steps) - bundle.layer

    def _pack(self, bundles: dict[int, Bundle]) -> Pack:
        states, tokens = self.chain.states, [bundle.token for bundle in bundles.values()]
        reached = slice(0, len(states))
        if self.chain.causal and self.chain.stack is None:
            reached = slice(0, max(tokens) + 1) if self.back else slice(min(tokens), len(states))
        count = sum(len(bundle.vectors) for bundle in bundles.values())
        pack = Pack(bundles, reached, states.new_zeros(count, reached.stop - reached.start, states.shape[-1]))
        for which, own in pack.split():
            own[:, bundles[which].token - reached.start] = bundles[which].vectors
        return pack


def making(step: FrozenBlock) -> int:
    """What the matrices of this block cost."""
    return cost.making(step.parts is not None and step.parts.joins_first, step.may_read_alike)


@dataclass
class _Report:
    progress: Progress | None
    total: int
    done: int = 0

    def __call__(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)


def _inside(chain: FrozenBlocks) -> int:
    """Bytes one vector takes while it goes through a block."""
    tokens, width = chain.states.shape
    number = chain.states.element_size()
    if chain.stack is not None:
        return cost.ALIVE * chain.stack.largest + 2 * len(chain.steps) * chain.states.numel() * number
    attended = chain.steps[0].attended
    heads = 1 if attended is None else attended.weights[:, :, 0, 0].numel()
    unknown = (cost.ALIVE * step.largest for step in chain.steps if step.attended is None)
    return max([cost.inside(tokens, width, heads, number), *unknown])


def _groups(bundles: Sequence[Bundle], room: int) -> Iterator[dict[int, Bundle]]:
    """Runs of neighbouring bundles of one layer, all about as large, none larger than the room unless it is one."""
    numbered = sorted(enumerate(bundles), key=lambda pair: (pair[1].layer, pair[1].token))
    for _, run in groupby(numbered, key=lambda pair: pair[1].layer):
        pairs = list(run)
        total = sum(len(bundle.vectors) for _, bundle in pairs)
        share = total / math.ceil(total / room)
        group: dict[int, Bundle] = {}
        held = 0
        for which, bundle in pairs:
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
