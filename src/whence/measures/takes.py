"""How much memory each measure takes while it is computed, in bytes, from sizes alone and before it is taken.

What a measure gives back is counted apart (`Variable`), and so is the pass of the model. A square is one number for
every head and pair of tokens: an attention.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from whence.models.anatomy import Anatomy
from whence.models.memory import EAGER_COPIES
from whence.models.weights import FeedForward


@dataclass(frozen=True)
class Sizes:
    """What memory depends on: text, model, what is asked."""

    tokens: int
    layers: int
    depth: int
    width: int
    heads: int
    groups: int
    head_width: int
    neurons: int
    gated: bool
    causal: bool
    alike: bool  # whether all tokens are read by the same map: no norm comes before the attention
    half: bool  # whether the model is in half precision, and what is measured is not
    number: int  # bytes of one
    block: int  # bytes of a block's weights
    sources: int

    @classmethod
    def of(cls, anatomy: Anatomy, tokens: int, layers: tuple[int, ...], options: Mapping[str, Any]) -> "Sizes":
        attending = anatomy.attending or (1,)
        block = anatomy.blocks[attending[0] - 1]
        parts, heads, dtype = anatomy.parts(block), max(1, anatomy.heads), anatomy.model.dtype
        number = torch.promote_types(dtype, torch.float32).itemsize
        forward = None if parts is None else parts.feed_forward
        known = forward if isinstance(forward, FeedForward) else None
        return cls(
            tokens=tokens,
            layers=len(layers),
            depth=max(layers),
            width=anatomy.width,
            heads=heads,
            groups=_groups(anatomy.config, heads),
            head_width=anatomy.width // heads if parts is None else parts.projection.weight.shape[1],
            neurons=4 * anatomy.width if known is None else len(known.down.weight),
            gated=known is not None and known.linear is not None,
            causal=anatomy.causal,
            alike=parts is not None and parts.attention_norms.before is None,
            half=dtype.itemsize < number,
            number=number,
            block=sum(parameter.numel() for parameter in block.parameters()) * number,
            sources=tokens if options.get("sources") is None else len(tuple(options["sources"])),
        )

    @property
    def square(self) -> int:
        return self.number * self.heads * self.tokens**2

    @property
    def map(self) -> int:
        return self.number * self.tokens**2

    @property
    def states(self) -> int:
        """All tokens of one layer."""
        return self.number * self.tokens * self.width


def _groups(config: Any, heads: int) -> int:
    """Heads with keys and values of their own; all where the layers differ, as in EmbeddingGemma 2."""
    try:
        return getattr(config, "num_key_value_heads", None) or heads
    except RuntimeError:
        return heads


@dataclass(frozen=True)
class Work:
    """Bytes held, and those that a budget bounds: as many as are of use, and the least it works with."""

    held: int
    wanted: int = 0
    least: int = 0


Takes = Callable[[Sizes, Mapping[str, Any]], Work]


def one_pass(sizes: Sizes, options: Mapping[str, Any]) -> Work:
    """The model's own attention in one block, and nothing beside it."""
    return Work(EAGER_COPIES * sizes.square)
