"""How much memory each measure takes while it is computed, in bytes, from sizes alone and before it is allocated.

Results are counted separately (`Variable`). A square is one number for every head and pair of tokens, as attention is,
or of the rows that a measure is given at a time.
The figures are what the code holds at once, as `python -m benchmarks.memory` measures it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from whence.measures.norms import block as whole_block
from whence.measures.norms import grams, vectors
from whence.models.anatomy import Anatomy
from whence.models.memory import EAGER_COPIES
from whence.models.pieces import in_pieces
from whence.models.queries import rows_at_once
from whence.models.weights import FeedForward


@dataclass(frozen=True)
class Sizes:
    """What memory depends on: the text, the model and the request."""

    tokens: int
    layers: int
    depth: int
    blocks: int  # of the whole model
    width: int
    heads: int
    groups: int
    head_width: int
    neurons: int
    gated: bool
    causal: bool
    known: bool  # whether derivatives go by the block's parts
    alike: bool  # whether all tokens are read by the same map: no norm comes before the attention
    normed: bool  # whether lengths are taken twice, also past a norm
    half: bool  # whether weights are copied: widened from half precision, or fetched from elsewhere
    number: int  # bytes of one number
    block: int  # bytes of a block's weights
    sources: int
    targets: int
    numbers: tuple[int, ...]  # of the layers
    queries: int  # that go through the attention at a time
    rows: int  # of attention that the measure is given at a time

    @classmethod
    def of(
        cls,
        anatomy: Anatomy,
        tokens: int,
        layers: tuple[int, ...],
        options: Mapping[str, Any],
        targets: tuple[int, ...] | None = None,
        reads: str = "whole",
        of_all: bool = False,
    ) -> "Sizes":
        """`reads` is what a measure reads of the attention, of all targets if `of_all` is set."""
        attending = anatomy.attending or (1,)
        block = anatomy.blocks[attending[0] - 1]
        parts, heads, dtype = anatomy.parts(block), max(1, anatomy.heads), anatomy.model.dtype
        number = torch.promote_types(dtype, torch.float32).itemsize
        forward = None if parts is None else parts.feed_forward
        known = forward if isinstance(forward, FeedForward) else None
        norms = None if parts is None else parts.attention_norms
        queries = anatomy.queries(1, tokens)
        some = None if of_all or targets is None else len(targets)
        return cls(
            tokens=tokens,
            layers=len(layers),
            depth=max(layers),
            blocks=anatomy.chained,
            width=anatomy.width,
            heads=heads,
            groups=_groups(anatomy.config, heads),
            head_width=anatomy.width // heads if parts is None else parts.projection.weight.shape[1],
            neurons=4 * anatomy.width if known is None else len(known.down.weight),
            gated=known is not None and known.linear is not None,
            causal=anatomy.causal,
            known=known is not None,
            alike=norms is not None and norms.before is None,
            normed=norms is not None and (norms.inside is not None or norms.after is not None),
            half=dtype.itemsize < number or in_pieces(anatomy.stack),
            number=number,
            block=sum(parameter.numel() for parameter in block.parameters()) * number,
            sources=tokens if options.get("sources") is None else len(options["sources"]),
            targets=tokens if targets is None else len(targets),
            numbers=tuple(layers),
            queries=queries or tokens,
            rows=rows_of(reads, heads, tokens, some, queries is None),
        )

    @property
    def pairs(self) -> int:
        """One number for every head and pair of tokens."""
        return self.number * self.heads * self.tokens**2

    @property
    def square(self) -> int:
        """The same of the rows that a measure is given."""
        return self.map * self.heads

    @property
    def map(self) -> int:
        return self.number * self.tokens * self.rows

    @property
    def passing(self) -> int:
        """What the model's own attention has alive; queries, keys, values and heads stay, where it goes by chunks."""
        row = self.number * self.tokens * self.queries
        return (EAGER_COPIES * self.heads + 1) * row + (0 if self.queries == self.tokens else 6 * self.wide)

    @property
    def wide(self) -> int:
        """One vector for every head and token."""
        return self.number * self.heads * self.head_width * self.tokens

    @property
    def beside(self) -> int:
        """What is kept of a block's attention while a measure works on some of its rows."""
        if self.rows == self.tokens:
            return 0
        return self.pairs if self.queries == self.tokens else 6 * self.wide

    @property
    def states(self) -> int:
        """All tokens of one layer."""
        return self.number * self.tokens * self.width

    @property
    def hidden(self) -> int:
        """The neurons of all tokens of one layer."""
        return self.number * self.tokens * self.neurons

    @property
    def widened(self) -> int:
        """A second copy of a block and its attention in float32, for a model in half precision."""
        return self.block + self.square // 2 if self.half else 0


def rows_of(reads: str, heads: int, tokens: int, targets: int | None, whole: bool) -> int:
    """How many rows a measure is given at a time, of a text whose attention is `whole` in memory or not."""
    if reads == "whole" or (whole and targets is None):
        return tokens
    if reads == "margins":
        return tokens if whole else 0
    return min(tokens if targets is None else targets, tokens if whole else rows_at_once(heads, tokens))


def _none(memory: int) -> int:
    return 0


def _groups(config: Any, heads: int) -> int:
    """Heads with keys and values of their own; all where the layers differ, as in EmbeddingGemma 2."""
    try:
        return getattr(config, "num_key_value_heads", None) or heads
    except RuntimeError:
        return heads


@dataclass(frozen=True)
class Work:
    """Bytes held whatever the budget; bytes used of a budget; the smallest budget it works with."""

    held: int
    uses: Callable[[int], int] = _none
    least: int = 0


Takes = Callable[[Sizes, Mapping[str, Any]], Work]


def one_pass(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """The model's own attention in one block, or its feed-forward, and nothing else."""
    return Work(max(sizes.passing, (2 + sizes.gated) * sizes.hidden) + 6 * sizes.states)


def by_head(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Three squares: the attention, the result, and the result with padding set to zero."""
    return _beside_pass(sizes, options, 3 * sizes.square + 2 * sizes.map)


def effective(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """All rows projected at once where all targets see the same sources; else row by row, in float64."""
    return _beside_pass(sizes, options, 3 * sizes.square if not sizes.causal else _by_row(sizes))


def correlation(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Attention, both sides in float64, and each centred: five times two squares and one; effective beside."""
    return _beside_pass(sizes, options, (15 if sizes.causal else 11) * sizes.square)


def minimum(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Effective attention, and the same of ones, in float64."""
    return _beside_pass(sizes, options, 8 * sizes.square if not sizes.causal else _by_row(sizes))


def simplex(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """All solved rows twice in float64; for one head also the tensors and matrices of Newton's method."""
    columns = sizes.head_width + 1
    newton = 8 * sizes.tokens * (8 * sizes.tokens + 4 * columns**2)
    return _beside_pass(sizes, options, 7 * sizes.square + newton)


def _by_row(sizes: Sizes) -> int:
    """Weights, rows averaged over equal values, and projected rows, in float64; for every group, how many are equal."""
    return 10 * sizes.square + 2 * sizes.groups * sizes.map


def lengths(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Maps, and for a chunk of pairs their weights times the Gram matrices; before those, the vectors of a chunk."""
    kinds = 1 + sizes.normed
    pairs = kinds * min(sizes.square, sizes.number * grams.PAIRS)
    vectors = kinds * min(sizes.heads * sizes.states, sizes.number * grams.VECTORS)
    return _beside_pass(sizes, options, sizes.square + 6 * sizes.map + max(pairs, vectors))


def by_pair(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """The vectors of a chunk of pairs, and by head those of its sources."""
    return _beside_pass(sizes, options, sizes.square + 3 * sizes.map + _vectors(sizes, sizes.width) + _sources(sizes))


def through_block(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """The same, and products of the weights, a tile of neurons at a time, and the slopes of every neuron."""
    inputs = 1 + sizes.gated
    rows = min(whole_block.PAIRS, sizes.tokens * sizes.rows) * (sizes.width + 2 * min(whole_block.TILE, sizes.neurons))
    weights = inputs * sizes.width * sizes.neurons + 2 * sizes.width**2 + sizes.width * sizes.neurons
    beside = sizes.number * (rows + weights) + (inputs + 1) * _sources(sizes) + (3 + 2 * inputs) * sizes.hidden
    return _beside_pass(sizes, options, sizes.square + 3 * sizes.map + beside)


def zeroing(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """For a chunk of pairs: neurons before and after their activation, and states inside the block."""
    neurons = _vectors(sizes, sizes.neurons)
    chunk = 3 * neurons + 4 * neurons * sizes.width // sizes.neurons
    return _beside_pass(sizes, options, sizes.square + 3 * sizes.map + chunk + _sources(sizes))


def _vectors(sizes: Sizes, width: int) -> int:
    return sizes.number * min(vectors.BUDGET, sizes.tokens * sizes.rows * width)


def _sources(sizes: Sizes) -> int:
    return min(sizes.number * vectors.BUDGET, sizes.heads * sizes.states)


def _beside_pass(sizes: Sizes, options: Mapping[str, Any], work: int) -> Work:
    """A measure works on the output of a block while the forward pass waits."""
    beside = sizes.beside + sizes.widened + 6 * sizes.states
    return Work(max(one_pass(sizes, options).held, work + beside))


def rolled(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """Rows as shares, their products, and the products stacked, of all layers up to the last."""
    return Work(3 * sizes.depth * sizes.number * sizes.tokens**2)


def of_weights(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """A pass of one token per dimension, from which the values of all layers are kept."""
    values = sizes.blocks * sizes.width * sizes.groups * sizes.head_width
    return Work(sizes.number * (values + sizes.width * (8 * sizes.width + 3 * sizes.neurons)))
