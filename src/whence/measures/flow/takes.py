"""How much memory derivatives take: the chain of blocks they are taken through, and tangents within a budget.

The same arithmetic as in `linear`, from sizes alone. Tangents take what the budget allows and no more than is of use;
what they have alive inside a block is less than what is reserved for them there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from whence.linear import fold, local, sketch, travel
from whence.measures.flow import contribution
from whence.measures.flow import decomposition as decomposed
from whence.measures.takes import Sizes, Work, one_pass

# squares alive inside a block per tangent: through its maps, by its parts, back and forwards through its own code
MAPS, PARTS, BACK, OWN = 1, 1, 3, 4
PROBES, USUAL_ERROR = 14, 0.02  # so many give so small an error as a rule
PAST = 0.6  # of its tokens that a tangent of a decoder moves, over all sources
PIECES = {True: 2.5, False: 3.25}  # of what two heads have for a pair: where all tokens are read alike, and where not


def flow(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Contributions and Jacobians: chain, ways through its blocks, and tangents or cotangents."""
    start, norm = 0, options["norm"]
    if options["start"] == "sum":  # a matrix for every token, so they are not read alike any more
        start, sizes = sizes.states * sizes.width, replace(sizes, alike=False)
    chain = Chain(sizes)
    if norm == "ones":
        return Work(chain.held + start, chain.pulled, chain.reserved)
    exact = norm != "frobenius" or not contribution.sketches(options["mode"], sizes.sources)
    uses = chain.pushed_all if exact else partial(chain.sketched, _probes(sizes, options))
    return Work(chain.held + chain.ways + start, uses, chain.reserved)


def local_norms(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """One block at a time, its maps multiplied out where there is room."""
    chain = Chain(sizes)
    if options["norm"] == "ones":
        return gradient_local(sizes, options)
    uses = chain.alone if options["norm"] == "frobenius" else chain.pushed_all
    return Work(chain.held + chain.way, uses, chain.reserved)


def gradient(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    return flow(sizes, {**options, "norm": "ones"})


def gradient_local(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    chain = Chain(sizes)
    return Work(chain.held, partial(chain.pulled, depth=1), chain.reserved)


def decomposition(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Attention, states and slopes of every block, the value maps, the sums, and the vectors of some sources."""
    each = sizes.square + 3 * sizes.states + (1 + sizes.gated) * sizes.hidden + (sizes.block if sizes.half else 0)
    values = 2 * sizes.blocks * sizes.number * sizes.width * sizes.groups * sizes.head_width

    def uses(memory: int) -> int:
        return decomposed.together(sizes.tokens, sizes.width, sizes.neurons, sizes.number, memory) * inside

    inside = decomposed.inside(sizes.tokens, sizes.width, sizes.neurons, sizes.number)
    return Work(sizes.depth * each + values + one_pass(sizes, {}).held, uses, inside)


def _probes(sizes: Sizes, options: Mapping[str, Any]) -> int:
    """The variance of k probes out of w dimensions is (1 - k / w) / k of that of one."""
    needed = 1 / ((options["error"] / USUAL_ERROR) ** 2 / PROBES + 1 / sizes.width)
    return min(sizes.width, max(sketch.PILOT, math.ceil(needed)))


@dataclass(frozen=True)
class Chain:
    """The blocks up to the last layer asked for, as `linearised` keeps them."""

    sizes: Sizes

    @property
    def held(self) -> int:
        """Of each block attention and gain, queries, keys, values and states; its weights where they are widened."""
        sizes = self.sizes
        each = 2 * sizes.square + 5 * sizes.states + (sizes.block if sizes.half else 0)
        return sizes.depth * each + one_pass(sizes, {}).held

    @property
    def ways(self) -> int:
        return self.sizes.depth * self.way

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
        """As `fold.bytes_of`."""
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
        """For one tangent inside a block, as `travel` does."""
        return travel.SQUARE * self.sizes.square + travel.WIDE * self.sizes.states

    def pushed_all(self, memory: int) -> int:
        """Every dimension of every source."""
        return self.pushed(self.sizes.sources * self.sizes.width, memory)

    def pushed(self, tangents: int, memory: int, apart: int = 0) -> int:
        """Tangents on their way, as `travel`, with so much of the memory kept apart."""
        room = memory - apart
        folding = self._pays(min(tangents, self._waiting(room, self.maps)))
        maps = self.maps if folding else 0
        chunk = min(tangents, self._portion(room, travel.TANGENTS if folding else 1))
        moving = PAST if self.sizes.causal and self.sizes.sources == self.sizes.tokens else 1
        waiting = int(moving * max(chunk, min(tangents, self._waiting(room, maps))) * self.sizes.states)
        if folding:
            return waiting + max(self.making, self.kept + chunk * self._inside(MAPS))
        return waiting + chunk * self._inside(PARTS if self.sizes.known else OWN)

    def sketched(self, probes: int, memory: int) -> int:
        """What the probes found, and tangents beside it; before that, where it pays, the exact norms of layer 1."""
        sizes, tangents = self.sizes, probes * self.sizes.sources
        squares = probes * sizes.depth * sizes.map * sizes.sources // sizes.tokens
        first = probes > sketch.PILOT and self._steadies(tangents)
        first = first and self._multiplies_out(min(memory, contribution.MEMORY))
        if first and sizes.depth == 1:
            return self.alone(memory)
        travelling = squares + self.pushed(tangents, memory - squares, self.maps if first else 0)
        travelling += self.kept if first else 0
        return max(travelling, sketch.COPIES * squares, self.alone(memory) if first else 0)

    def alone(self, memory: int) -> int:
        """The norms of one block: its maps and pieces of what they give together, or else all its tangents."""
        sizes = self.sizes
        if not self._multiplies_out(memory):
            return self.pushed(sizes.tokens * sizes.width, memory)
        pair = sizes.number * sizes.tokens * sizes.heads**2 * sizes.head_width
        pieces = PIECES[sizes.alike] * min(sizes.tokens, max(1, min(local.WORK, memory // local.SHARE) // pair)) * pair
        heads = sizes.heads * sizes.head_width
        beside = self.kept + self._columns(heads if sizes.alike else 3 * heads)
        return int(max(self.making, beside + max(pieces, self._columns(3 * sizes.width))))

    def pulled(self, memory: int, depth: int | None = None) -> int:
        """Cotangents of all layers at once, of as many targets as there is room for."""
        sizes = self.sizes
        layers = sizes.depth if depth is None else depth
        each = 3 * layers * sizes.states
        targets = min(sizes.tokens, max(1, memory // 2 // each))
        return targets * each + min(layers * targets, self._portion(memory)) * self._inside(BACK)

    def _columns(self, count: int) -> int:
        """So many numbers for every token and dimension."""
        return self.sizes.states * count

    def _inside(self, squares: int) -> int:
        """What one tangent has alive: in the attention or in the feed-forward."""
        sizes = self.sizes
        return max(squares * sizes.square, (2 + sizes.gated) * sizes.hidden) + 3 * sizes.states

    def _portion(self, memory: int, least: int = 1) -> int:
        return max(1, min(max(travel.ROWS // self.sizes.tokens, least), memory // self.reserved))

    def _waiting(self, room: int, maps: int) -> int:
        left = room - maps - self._portion(room, travel.TANGENTS if maps else 1) * self.reserved
        return max(0, left // self.sizes.states)

    def _multiplies_out(self, memory: int) -> bool:
        return 3 * self.maps <= memory

    def _making(self) -> int:
        if not self.sizes.known:
            return fold.UNKNOWN
        return fold.ALIKE if self.sizes.alike else fold.NORMED

    def _pays(self, tangents: int) -> bool:
        return self._making() * self.sizes.width + fold.FOLDED * tangents < fold.PLAIN * tangents

    def _steadies(self, tangents: int) -> bool:
        saved = sketch.SAVED * self.sizes.depth * fold.PLAIN + (1 - sketch.SAVED) * (fold.PLAIN - fold.FOLDED)
        measuring = local.SHARED if self.sizes.alike else local.BY_TOKEN
        return saved * tangents > (self._making() + measuring) * self.sizes.width
