"""A pass as a linear map: its blocks one after the other, pushed and pulled between any two layers.

The tangent says how the states would move, the secant (`secant.secants`) how they were made. Vectors are pushed to
later layers, covectors (rows that are multiplied with the map from the left) pulled to earlier ones.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from whence.errors import Unsupported
from whence.linear.steps import Vectors
from whence.linear.tangent import by_parts
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.linearise import linearised


@runtime_checkable
class LinearBlock(Protocol):
    """One block as a linear map of the vectors of all tokens, [k t m]."""

    def push(self, vectors: Vectors, /) -> Vectors: ...

    def pull(self, covectors: Vectors, /) -> Vectors: ...


Block = TypeVar("Block", bound=LinearBlock, covariant=True)


@dataclass(frozen=True, eq=False)
class LinearisedModel(Generic[Block]):
    """The blocks of one pass up to some depth, with the states before, between and behind them."""

    states: tuple[Float[Tensor, "t m"], ...]
    blocks: tuple[Block, ...]

    @property
    def last(self) -> Float[Tensor, "t m"]:
        return self.states[-1]

    def push(self, vectors: Vectors, start: int = 0, end: int | None = None) -> Vectors:
        """From layer `start` to layer `end`."""
        for block, states in zip(self.blocks[start:end], self.states[start:end], strict=False):
            vectors = block.push(vectors.to(states.device))
        return vectors

    def pull(self, covectors: Vectors, end: int | None = None, start: int = 0) -> Vectors:
        """From layer `end` back to layer `start`."""
        pairs = list(zip(self.blocks[start:end], self.states[start:end], strict=False))
        for block, states in reversed(pairs):
            covectors = block.pull(covectors.to(states.device))
        return covectors


@contextmanager
def tangents(anatomy: Anatomy, batch: Batch, depth: int | None = None) -> Iterator[LinearisedModel[LinearBlock]]:
    """The derivative of one sentence's pass, each block by its parts where they give it, else by autograd."""
    if anatomy.side_paths:
        raise Unsupported(
            f"Blocks of {type(anatomy.model).__name__} read more of the embeddings than their states, so its derivative"
            " is no product of its blocks'; ask for contributions, which go through the whole stack."
        )
    with linearised(anatomy, batch, depth=depth) as chain:
        blocks = [(by_parts(step), step) for step in chain.steps]
        states = (*(step.states for step in chain.steps), chain.steps[-1].output)
        yield LinearisedModel(states, tuple(parts or step for parts, step in blocks))
