"""The blocks of two stacks as affine maps over the tokens of both texts, the encoder's first.

While the encoder works the decoder's tokens wait. While the decoder works the encoder's do, and what they carry is read
by every one of its blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.linear.chain import LinearisedModel
from whence.linear.secant import Backwards, Progress, Visited, quiet, secant
from whence.linear.steps import Attention, Branches, Chain, Sums, Vectors, normed
from whence.models.anatomy import Anatomy
from whence.models.block import Batch, Block
from whence.models.precision import single
from whence.models.values import ValueMaps, cross_value_maps, value_maps
from whence.models.weights import Affine, Norm


@dataclass(frozen=True, eq=False)
class Waiting:
    """A block of the encoder, which has so many tokens; the decoder's wait."""

    block: Branches
    count: int

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        return torch.cat([self.block.push(vectors[:, : self.count], constants), vectors[:, self.count :]], dim=1)

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        return torch.cat([self.block.pull(covectors[:, : self.count], sums), covectors[:, self.count :]], dim=1)


@dataclass(frozen=True, eq=False)
class Crossing:
    """A block of the decoder: attention to its own tokens and to the encoder's, feed-forward, and norms behind each."""

    own: Branches
    cross: Chain
    past_cross: Chain
    count: int

    def push(self, vectors: Vectors, constants: bool = False) -> Vectors:
        source, prefix, own = vectors[:, : self.count], vectors[:, self.count :], self.own
        attended = own.past_attention.push(prefix + own.attention.push(prefix, constants), constants)
        middle = self.past_cross.push(attended + self.cross.push(source, constants), constants)
        fed = own.feed_forward.push(middle, constants)
        return torch.cat([source, own.past_feed_forward.push(middle + fed, constants)], dim=1)

    def pull(self, covectors: Vectors, sums: Sums | None = None) -> Vectors:
        own = self.own
        joined = own.past_feed_forward.pull(covectors[:, self.count :], sums)
        middle = self.past_cross.pull(joined + own.feed_forward.pull(joined, sums), sums)
        source = covectors[:, : self.count] + self.cross.pull(middle, sums)
        attended = own.past_attention.pull(middle, sums)
        return torch.cat([source, attended + own.attention.pull(attended, sums)], dim=1)


@dataclass(frozen=True)
class Crossings:
    """Makes the secant of a decoder's block, from the value maps of both of its attentions."""

    own: ValueMaps
    cross: ValueMaps

    @classmethod
    def of(cls, anatomy: Anatomy) -> "Crossings":
        return cls(value_maps(anatomy), cross_value_maps(anatomy))

    def __call__(self, block: Block) -> Crossing:
        place = block.layer - 1
        return crossing(block, single(self.own[place]), single(self.cross[place]))


def crossing(block: Block, values: Affine, cross_values: Affine) -> Crossing:
    """A decoder's block as it computed; the maps are those to the values of both attentions."""
    across, parts = block.cross, block.parts
    assert across is not None and parts is not None and parts.cross is not None
    weights = rearrange(across.attention[0], "(g r) t s -> g r t s", g=across.grouped_values.shape[1])
    attends = Attention(cross_values, weights, parts.cross.projection)
    behind = normed(parts.cross.attention_norms.after, block.joined[0])
    return Crossing(secant(block, values), Chain((attends,)), Chain(behind), weights.shape[-1])


def finished(block: Branches, norm: Norm | None, states: Float[Tensor, "t m"]) -> Branches:
    """The encoder's last block and the norm behind it, at what the block gave."""
    steps = (*block.past_feed_forward.steps, *normed(norm, states))
    return replace(block, past_feed_forward=replace(block.past_feed_forward, steps=steps))


def given(anatomy: Anatomy, states: Float[Tensor, "t m"]) -> Float[Tensor, "t m"]:
    """What the encoder gives the decoder, from its last block's states."""
    norm = single(anatomy.final_norm)
    return states if norm is None else norm(states)


Made = Branches | Waiting | Crossing
Secants = LinearisedModel[Waiting | Crossing]


def secants(anatomy: Anatomy, batch: Batch, depth: int | None = None) -> Secants:
    """One pass through both stacks as it was made, up to a depth counted through both."""
    passed = BackwardsOfBoth.of(anatomy, batch, anatomy.chained)
    pairs = list(passed)[::-1][:depth]
    return LinearisedModel(passed.states[: len(pairs) + 1], tuple(block for block, _ in pairs))


@dataclass(eq=False)
class BackwardsOfBoth:
    """One pass through both stacks, to be gone back through from the decoder's last block."""

    encoder: Backwards[Branches]
    decoder: Backwards[Crossing]

    @classmethod
    def of(cls, anatomy: Anatomy, batch: Batch, kept: int, progress: Progress = quiet) -> "BackwardsOfBoth":
        assert anatomy.encoder is not None
        encoder = Backwards.of(anatomy.encoder, batch.source, min(kept, anatomy.encoder.layers), progress)
        made, keep = Crossings.of(anatomy), min(kept, anatomy.layers)
        visited = Visited(made, anatomy.layers, anatomy.layers - keep, progress)
        return cls(encoder, Backwards.seen(anatomy, batch, keep, visited))

    @property
    def anatomy(self) -> Anatomy:
        return self.decoder.anatomy

    @property
    def states(self) -> tuple[Float[Tensor, "t m"], ...]:
        """Of both texts: the encoder's layers, of which the last is past its final norm, then the decoder's."""
        source, prefix = list(self.encoder.states), self.decoder.states
        source[-1] = given(self.encoder.anatomy, source[-1])
        before = [torch.cat([states, prefix[0]]) for states in source]
        return (*before, *(torch.cat([source[-1], states]) for states in prefix[1:]))

    def __iter__(self) -> Iterator[tuple[Waiting | Crossing, Float[Tensor, "t m"]]]:
        """Every block from the last to the first, with the states it read."""
        last, start = self.encoder.states[-1], self.decoder.states[0]
        source = given(self.encoder.anatomy, last)
        for across, states in self.decoder:
            yield across, torch.cat([source, states])
        norm: Norm | None = single(self.encoder.anatomy.final_norm)
        for block, states in self.encoder:
            yield Waiting(finished(block, norm, last), len(source)), torch.cat([states, start])
            norm = None


Passed = Backwards[Branches] | BackwardsOfBoth


def passed_backwards(anatomy: Anatomy, batch: Batch, kept: int, progress: Progress = quiet) -> Passed:
    """One pass, to be gone back through, of one stack or two."""
    return (Backwards if anatomy.encoder is None else BackwardsOfBoth).of(anatomy, batch, kept, progress)
