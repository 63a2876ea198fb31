"""How much memory derivatives take: the chain of blocks they are taken through, and tangents within a budget.

The same arithmetic as in `linear`, from sizes alone. Tangents take what the budget allows and no more than is of use;
what they have alive inside a block is less than what is reserved for them there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from whence.linear import cost
from whence.measures.flow import decomposition as decomposed
from whence.measures.flow import sketch
from whence.measures.takes import Sizes, Work, one_pass

# squares alive inside a block per vector: through its matrices, by its parts, back and forwards through its own code
MATRICES, PARTS, BACK, OWN = 1, 1, 3, 4
PROBES, USUAL_ERROR = 14, 0.02  # so many give so small an error as a rule
PAST = 0.6  # of its tokens that a vector of a decoder reaches, over all starts
PIECES = {True: 2.5, False: 3.25}  # of what two heads have for a pair: where all tokens are read alike, and where not


def flow(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Contributions and Jacobians: chain, blocks by their parts, and tangents or cotangents."""
    start, norm = 0, options["norm"]
    if options["start"] == "sum":  # a matrix for every token, so they are not read alike any more
        start, sizes = sizes.states * sizes.width, replace(sizes, alike=False)
    chain = Chain(sizes, norm == "ones" or cost.pulls(sizes.sources, sizes.targets, sizes.numbers))
    sketches = norm == "frobenius" and _sketches(sizes, options["mode"])
    size = 1 if norm == "ones" else _probes(sizes, options) if sketches else sizes.width
    uses = partial(chain.sketched, size) if sketches else partial(chain.sent, size * chain.starts)
    return Work(chain.held + chain.ways(size * chain.starts) + start, uses, chain.reserved)


def origin(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """The same of all targets, whichever are asked for: its numbers are about all of them."""
    return flow(replace(sizes, targets=sizes.tokens), options)


def local_norms(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """One block at a time, its maps multiplied out where there is room."""
    norm = options["norm"]
    starts = sizes.targets if norm == "ones" else min(sizes.targets, sizes.sources)
    chain = Chain(sizes)
    vectors = starts * (1 if norm == "ones" else sizes.width)
    uses = chain.alone if norm == "frobenius" else partial(chain.sent, vectors)
    return Work(chain.held + chain.way, uses, chain.reserved)


def gradient(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    return flow(sizes, {**options, "norm": "ones"})


def gradient_local(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    return local_norms(sizes, {**options, "norm": "ones"})


def decomposition(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Attention, states and slopes of every block, the value maps, the sums, and the vectors of some sources."""
    size = sizes.pairs + 3 * sizes.states + (1 + sizes.gated) * sizes.hidden + (sizes.block if sizes.half else 0)
    values = 2 * sizes.blocks * sizes.number * sizes.width * sizes.groups * sizes.head_width

    def uses(memory: int) -> int:
        return decomposed.together(sizes.tokens, sizes.width, sizes.neurons, sizes.number, memory) * inside

    inside = decomposed.inside(sizes.tokens, sizes.width, sizes.neurons, sizes.number)
    return Work(sizes.depth * size + values + one_pass(sizes, {}).held, uses, inside)


def _sketches(sizes: Sizes, mode: str) -> bool:
    quick = cost.exact_is_quick(sizes.tokens, sizes.width, sizes.sources, sizes.targets, sizes.numbers)
    return mode == "sketch" or (mode == "auto" and not quick)


def _probes(sizes: Sizes, options: Mapping[str, Any]) -> int:
    """The variance of k probes out of w dimensions is (1 - k / w) / k of that of one."""
    needed = 1 / ((options["error"] / USUAL_ERROR) ** 2 / PROBES + 1 / sizes.width)
    return min(sizes.width, max(sketch.PILOT, math.ceil(needed)))


@dataclass(frozen=True)
class Chain:
    """The blocks up to the last layer asked for, as `linearised` keeps them, pushed through or pulled."""

    sizes: Sizes
    back: bool = False

    @property
    def starts(self) -> int:
        """Where vectors start: the targets of every layer, or the sources."""
        return self.sizes.targets * self.sizes.layers if self.back else self.sizes.sources

    @property
    def held(self) -> int:
        """Of each block attention and gain, queries, keys, values, heads, states; of one its weights if widened."""
        sizes = self.sizes
        size, widened = 2 * sizes.pairs + 6 * sizes.states, sizes.block if sizes.half else 0
        return sizes.depth * size + widened + one_pass(sizes, {}).held

    def ways(self, vectors: int) -> int:
        """Of blocks by their parts, where vectors enough take them: all, or one where they hold copies."""
        count = 1 if self.sizes.half else self.sizes.depth
        return count * self.way if vectors >= cost.PARTS else 0

    @property
    def way(self) -> int:
        """Of a block's derivative from its parts: scores by queries, slopes of neurons, norms, maps, weights."""
        sizes = self.sizes
        if not sizes.known:
            return 0
        spread = sizes.number * sizes.heads * sizes.tokens * sizes.head_width**2
        maps = 3 * sizes.number * sizes.width**2 if sizes.alike else 0
        return spread + (1 + sizes.gated) * sizes.hidden + 6 * sizes.states + maps + (sizes.block if sizes.half else 0)

    @property
    def maps(self) -> int:
        """As `matrices.bytes_of`."""
        sizes = self.sizes
        columns = 2 * sizes.groups * sizes.head_width + sizes.width + 3 * sizes.heads * sizes.head_width
        return self._columns(columns)

    @property
    def making(self) -> int:
        """What is alive of them while they are made."""
        sizes = self.sizes
        beside = 3 * sizes.heads * sizes.head_width + (0 if sizes.alike else sizes.width)
        return self.kept + self._columns(beside)

    @property
    def kept(self) -> int:
        """What is left of them then; keys and values that all tokens share are next to nothing."""
        sizes = self.sizes
        own = sizes.width + sizes.heads * sizes.head_width
        return self._columns(own + (0 if sizes.alike else 2 * sizes.groups * sizes.head_width))

    @property
    def reserved(self) -> int:
        """For one vector inside a block, as `propagate` does."""
        return cost.inside(self.sizes.tokens, self.sizes.width, self.sizes.heads, self.sizes.number)

    def sent(self, vectors: int, memory: int) -> int:
        """Vectors on their way, as `propagate` does."""
        multiplied = self._pays(min(vectors, self._waiting(memory, self.maps)))
        maps = self.maps if multiplied else 0
        chunk = min(vectors, self._portion(memory, cost.VECTORS if multiplied else 1))
        everywhere = (self.sizes.targets if self.back else self.sizes.sources) == self.sizes.tokens
        moving = PAST if self.sizes.causal and everywhere else 1
        waiting = int(moving * max(chunk, min(vectors, self._waiting(memory, maps))) * self.sizes.states)
        if multiplied:
            return waiting + max(self.making, self.kept + chunk * self._inside(MATRICES))
        by_parts = self.sizes.known and vectors >= cost.PARTS
        return waiting + chunk * self._inside(PARTS if by_parts else BACK if self.back else OWN)

    def sketched(self, probes: int, memory: int) -> int:
        """What the probes found, and vectors beside it."""
        sizes = self.sizes
        cells = sizes.layers * (sizes.targets if self.back else sizes.sources) * sizes.tokens
        squares = probes * sizes.number * cells
        return max(squares + self.sent(probes * self.starts, memory - squares), sketch.COPIES * squares)

    def alone(self, memory: int) -> int:
        """The norms of one block: its maps and pieces of what they give together, or else all its tangents."""
        sizes = self.sizes
        if not self._multiplies_out(memory):
            return self.sent(min(sizes.targets, sizes.sources) * sizes.width, memory)
        pair = sizes.number * sizes.tokens * sizes.heads**2 * sizes.head_width
        pieces = (
            PIECES[sizes.alike] * min(sizes.tokens, max(1, min(cost.PAIRS, memory // cost.PAIRS_SHARE) // pair)) * pair
        )
        heads = sizes.heads * sizes.head_width
        beside = self.kept + self._columns(heads if sizes.alike else 3 * heads)
        return int(max(self.making, beside + max(pieces, self._columns(3 * sizes.width))))

    def _columns(self, count: int) -> int:
        """So many numbers for every token and dimension."""
        return self.sizes.states * count

    def _inside(self, squares: int) -> int:
        """What one vector has alive: in the attention or in the feed-forward."""
        sizes = self.sizes
        return max(squares * sizes.pairs, (2 + sizes.gated) * sizes.hidden) + 3 * sizes.states

    def _portion(self, memory: int, least: int = 1) -> int:
        return max(1, cost.together(self.sizes.tokens, memory // self.reserved, least))

    def _waiting(self, room: int, maps: int) -> int:
        left = room - maps - self._portion(room, cost.VECTORS if maps else 1) * self.reserved
        return max(0, left // self.sizes.states)

    def _multiplies_out(self, memory: int) -> bool:
        return 3 * self.maps <= memory

    def _pays(self, vectors: int) -> bool:
        return cost.multiplying_pays(vectors, self.sizes.width, cost.making(self.sizes.known, self.sizes.alike))
