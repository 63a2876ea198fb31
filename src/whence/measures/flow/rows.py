"""The rows of a Jacobian that were asked for, and how they are had: pushed from sources, or pulled from targets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from einops import einsum
from jaxtyping import Float
from torch import Tensor

from whence._arguments import numbers
from whence.errors import BadInput
from whence.linear import cost
from whence.linear.propagate import Bundle, Pack, Propagator
from whence.models.anatomy import Anatomy
from whence.models.block import Batch

Cells = tuple[int, int | slice, int | slice]  # of layer x target x source
Take = Callable[[int, Cells, Tensor], None]
Started = tuple[int, Float[Tensor, "_ _"]]  # the place of a start, and vectors that start there


@dataclass(frozen=True)
class Selection:
    """The layers (from 1), targets and sources (from 0) of the answer, checked."""

    layers: tuple[int, ...]
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    tokens: int

    @classmethod
    def of(
        cls,
        anatomy: Anatomy,
        batch: Batch,
        layers: Iterable[int] | None,
        targets: Iterable[int] | None,
        sources: Iterable[int] | None,
    ) -> "Selection":
        tokens = batch.ids.shape[1]
        return cls(
            _within("layer", layers, 1, anatomy.chained),
            _within("target", targets, 0, tokens - 1),
            _within("source", sources, 0, tokens - 1),
            tokens,
        )

    @property
    def depth(self) -> int:
        return max(self.layers)

    @property
    def pulls(self) -> bool:
        """Whether it takes less to pull from the targets than to push from the sources."""
        return cost.pulls(len(self.sources), len(self.targets), self.layers)

    def quick(self, width: int) -> bool:
        """Whether all of it is had exactly in a time that a person waits for."""
        return cost.exact_is_quick(self.tokens, width, len(self.sources), len(self.targets), self.layers)


def _within(name: str, wanted: Iterable[int] | None, lowest: int, highest: int) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(lowest, highest + 1))
    chosen = tuple(dict.fromkeys(numbers(name, wanted)))
    wrong = [number for number in chosen if not lowest <= number <= highest]
    if wrong or not chosen:
        raise BadInput(f"There are {name}s {lowest} to {highest}, and {wrong[0] if wrong else 'none'} was asked for.")
    return chosen


@dataclass(frozen=True, eq=False)
class Rows:
    """Where vectors start, and which cells of layer x target x source they tell of where they arrive.

    Pushed vectors start at the sources and tell of all targets at every layer; pulled ones start at the targets of each
    layer and tell of all sources.
    """

    selection: Selection
    propagator: Propagator

    @property
    def states(self) -> Float[Tensor, "t m"]:
        return self.propagator.chain.states

    @property
    def pulled(self) -> bool:
        return self.propagator.back

    @cached_property
    def starts(self) -> list[tuple[int, int]]:
        """Layer and token."""
        if self.pulled:
            return [(layer, target) for layer in self.selection.layers for target in self.selection.targets]
        return [(0, source) for source in self.selection.sources]

    @property
    def shape(self) -> tuple[int, int, int]:
        selection = self.selection
        if self.pulled:
            return len(selection.layers), len(selection.targets), selection.tokens
        return len(selection.layers), selection.tokens, len(selection.sources)

    @property
    def width(self) -> int:
        """Dimensions of a start."""
        return self.states.shape[-1] if self.pulled else self.propagator.chain.width

    @property
    def whole(self) -> bool:
        """Whether rows have all their sources."""
        return self.pulled or len(self.selection.sources) == self.selection.tokens

    def selected(self, values: Float[Tensor, "layer _ _"]) -> Float[Tensor, "layer target source"]:
        """What was asked for, of what was measured."""
        return values[..., list(self.selection.sources)] if self.pulled else values[:, list(self.selection.targets)]

    def among(self, squares: Tensor, places: list[int]) -> tuple[Tensor, Tensor | float]:
        """The rows that a few starts tell of, and how many sources each cell stands for.

        Where starts are sources, those are the rows of the same tokens: each of the others stands for several.
        """
        if self.pulled:
            return squares.flatten(1, 2)[:, None, places], 1.0
        tokens = [self.starts[place][1] for place in places]
        others = (len(self.starts) - 1) / max(1, len(places) - 1)
        counts = squares.new_full((len(places), len(places)), others).fill_diagonal_(1)
        return squares[:, :, tokens][..., places], counts

    def send(self, vectors: Sequence[Started], take: Take, spent: int = 0, expected: int = 0, held: int = 0) -> None:
        """Calls take(place of a start, cells, what arrived there of its vectors).

        `spent` vectors went before and `expected` will in all, for those who watch; so many bytes are `held` meanwhile.
        """
        bundles = [self._bundle(*started) for started in vectors]
        places = [place for place, _ in vectors]
        count = sum(len(bundle.vectors) for bundle in bundles)
        self._propagator(count, spent, expected, held).send(
            bundles, lambda layer, pack: self._taken(layer, pack, places, take)
        )

    def _bundle(self, place: int, vectors: Float[Tensor, "k w"]) -> Bundle:
        layer, token = self.starts[place]
        start = self.propagator.chain.start
        return Bundle(token, vectors if self.pulled or start is None else vectors @ start[token], layer)

    def _taken(self, layer: int, pack: Pack, places: list[int], take: Take) -> None:
        if layer != 0 if self.pulled else layer not in self.selection.layers:
            return
        for which, arrived in pack.split():
            place = places[which]
            if self.pulled:
                row = divmod(place, len(self.selection.targets))
                take(place, (*row, pack.tokens), self._by_source(arrived, pack.tokens))
            else:
                take(place, (self.selection.layers.index(layer), pack.tokens, place), arrived)

    def _by_source(self, cotangents: Float[Tensor, "k u m"], tokens: slice) -> Float[Tensor, "k u w"]:
        start = self.propagator.chain.start
        return cotangents if start is None else einsum(cotangents, start[tokens], "k u m, u w m -> k u w")

    def _propagator(self, count: int, spent: int, expected: int, held: int) -> Propagator:
        """With progress that goes on where the last vectors left it."""
        progress = self.propagator.progress
        left = replace(self.propagator, memory=self.propagator.memory - held)
        if progress is None:
            return left
        whole = max(spent + count, expected)
        return replace(left, progress=lambda done, of: progress(of * spent // count + done, of * whole // count))
