"""How a sentence's states were made: every block as the affine map h -> M h + c that it was, and so from any layer to
any later one.

Attention weights, the scales of norms and the slopes of activations are those of the pass; what is left is linear.
Vectors are pushed to later layers, covectors (rows that are multiplied with M from the left) pulled to earlier ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import Unsupported
from whence.linear.chain import LinearBlock, LinearisedModel
from whence.linear.steps import Attention, Branches, Chain, Mixture, Step, feed_forward, normed
from whence.models.anatomy import Anatomy
from whence.models.block import Batch, Block
from whence.models.capture import Call, visit_again, walk
from whence.models.experts import routes
from whence.models.precision import single
from whence.models.values import ValueMaps, value_maps
from whence.models.weights import Affine, FeedForward, Opaque, Parts

SAME = 1e-3  # of the largest state: what a block that is run again may give another time, on a GPU
Progress = Callable[[], None]
Secants = LinearisedModel[Branches]  # all blocks of one pass up to some depth


def quiet() -> None:
    """Nobody watches."""


def secant(block: Block, values: Affine) -> Branches:
    """One block of one sentence as it computed; `values` is its map from what the attention reads to all values."""
    assert block.parts is not None and block.projected is not None
    parts: Parts = block.parts
    inner, states = parts.attention_norms, block.input[0]
    weights = rearrange(block.attention[0], "(g r) t s -> g r t s", g=block.grouped_values.shape[1])
    attends = Attention(values, weights, parts.projection)
    return Branches(
        Chain(
            (*normed(inner.before, states), attends, *normed(inner.inside, block.projected[0])), parts.residual_scale
        ),
        Chain(normed(inner.after, block.before_norm[0])),
        *fed_and_finished(parts, states, block.middle[0]),
        parts.parallel,
    )


def fed_and_finished(
    parts: Parts, states: Float[Tensor, "*b t m"], middle: Float[Tensor, "*b t m"]
) -> tuple[Chain, Chain]:
    """The feed-forward as it joins the residual stream, and the norm behind it, at a block's input and middle."""
    norms, scale = parts.feed_forward_norms, parts.residual_scale
    joins = states if parts.parallel else middle
    read = joins if norms.before is None else norms.before(joins)
    branch = parts.feed_forward(read) if norms.inside is not None or norms.after is not None else read  # for its norms
    joined = middle + (branch if norms.inside is None else norms.inside(branch)) * scale
    steps = (*normed(norms.before, joins), *_fed(parts.feed_forward, read), *normed(norms.inside, branch))
    return Chain(steps, scale), Chain(normed(norms.after, joined))


def _fed(forward: FeedForward | Opaque, read: Float[Tensor, "*b t m"]) -> tuple[Step, ...]:
    """The feed-forward at what it read; of a mixture, the experts that each token had."""
    if isinstance(forward, FeedForward):
        return feed_forward(forward, read)
    chosen = routes(forward, read)
    if chosen is None:
        raise Unsupported(
            f"{type(forward.module).__name__} does not give what its experts give at this text, so how it made its"
            " output is not known; ask for derivatives (contribution, dependence)."
        )
    return (Mixture.of(chosen, read),)


Made = TypeVar("Made", bound=LinearBlock)


@dataclass(eq=False)
class Backwards(Generic[Made]):
    """One pass, to be gone back through from its last block, with no more blocks in memory than `kept` at a time.

    The last ones are kept as they are made; each earlier one is made again, from the states that it read, when its turn
    comes. So memory costs one more pass at most.
    """

    anatomy: Anatomy
    batch: Batch
    kept: int
    make: Callable[[Block], Made]
    states: tuple[Float[Tensor, "t m"], ...]
    blocks: tuple[Made, ...]
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, anatomy: Anatomy, batch: Batch, kept: int, progress: Progress = quiet) -> "Backwards[Branches]":
        visited = Visited.of(anatomy, anatomy.layers, anatomy.layers - kept, progress)
        return Backwards.seen(anatomy, batch, kept, visited)

    @classmethod
    def seen(cls, anatomy: Anatomy, batch: Batch, kept: int, visited: "Visited[Made]") -> "Backwards[Made]":
        """After a pass that keeps the last blocks."""
        calls: list[Call] = []
        passed = walk(anatomy, batch, visited, calls=calls)
        states = (single(passed.embedding)[0], *visited.states)
        return Backwards(anatomy, batch, kept, visited.make, states, tuple(visited.blocks), tuple(calls))

    def __iter__(self) -> Iterator[tuple[Made, Float[Tensor, "t m"]]]:
        """Every block from the last to the first, with the states it read."""
        blocks, self.blocks = self.blocks, ()  # so that they are freed before the next are made
        begin = self.anatomy.layers - len(blocks)
        yield from zip(reversed(blocks), reversed(self.states[begin:-1]), strict=True)
        del blocks
        for layer in range(begin, 0, -1):
            yield self._again(layer), self.states[layer - 1]

    def _again(self, layer: int) -> Made:
        again, read = Visited(self.make, layer, layer - 1), self.states[layer - 1]
        visit_again(self.anatomy, self.batch, again, layer, self.calls[layer - 1], read)
        gave, gives = self.states[layer], again.states[0].to(self.states[layer].device)
        if float((gives - gave).abs().amax()) > SAME * float(gave.abs().amax()):
            raise Unsupported(
                f"Block {layer} of {type(self.anatomy.model).__name__} gives other states when it is run again; allow"
                " more memory (memory_limit=), so that it need not be."
            )
        return again.blocks[0]


@dataclass(frozen=True)
class BlockSecants:
    """Makes the secant of any block, from the maps to values."""

    values: ValueMaps

    def __call__(self, block: Block) -> Branches:
        return secant(block, single(self.values[block.layer - 1]))


@dataclass(eq=False)
class Visited(Generic[Made]):
    """Keeps the states of every block, and the map of those behind layer `first` up to `last`."""

    make: Callable[[Block], Made]
    last: int
    first: int = 0
    progress: Progress = quiet
    states: list[Tensor] = field(default_factory=list)
    blocks: list[Made] = field(default_factory=list)

    @classmethod
    def of(cls, anatomy: Anatomy, last: int, first: int = 0, progress: Progress = quiet) -> "Visited[Branches]":
        _check(anatomy)
        return Visited(BlockSecants(value_maps(anatomy)), last, first, progress)

    def __call__(self, block: Block) -> None:
        if block.layer > self.last:
            return
        if self.states:  # of a model over several devices, where it is read
            self.states[-1] = self.states[-1].to(block.input.device)
        if block.layer > self.first:
            block = single(block)
            self.blocks.append(self.make(block))
        self.states.append(single(block.output)[0])
        self.progress()


def secants(anatomy: Anatomy, batch: Batch, depth: int | None = None) -> Secants:
    """The pass of one sentence as it was made, up to a depth; refused where a part of a block is not known."""
    visited = Visited.of(anatomy, anatomy.layers if depth is None else depth)
    seen = walk(anatomy, batch, visited)
    return LinearisedModel((single(seen.embedding)[0], *visited.states), tuple(visited.blocks))


def _check(anatomy: Anatomy) -> None:
    if anatomy.unattending:
        raise Unsupported(
            f"In {type(anatomy.model).__name__} only the layers {anatomy.listed_attending} attend, and how the others"
            " made their states is not known to whence; ask for derivatives (contribution, dependence)."
        )
