"""Attention outside transformers' attention interface: read from the module's own outputs and parameters instead.

XLNet's relative attention returns its probabilities with `output_attentions`; values and projection are one
matrix product each. Everything inside is laid out time first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from einops import einsum, rearrange
from torch import Tensor, nn

from whence.models.pieces import held_whole
from whence.models.weights import Affine, Projection

Attended = Callable[[nn.Module, Tensor, Tensor, Tensor | None, Tensor], Tensor | None]
Projected = Callable[[nn.Module, tuple, Tensor], None]


@dataclass(frozen=True)
class Outside:
    """Where a family has it: the list of blocks from the base model; the module and both weights from a block.

    `arguments` go to every pass; `batch_axis` is that of the states inside the blocks.
    """

    blocks: str
    attention: str
    value_weight: str
    projection_weight: str
    arguments: Mapping[str, Any]
    batch_axis: int

    def attentions(self, base: nn.Module) -> list[nn.Module]:
        return [block.get_submodule(self.attention) for block in base.get_submodule(self.blocks).children()]

    def values(self, block: nn.Module) -> Affine:
        return Affine(rearrange(self._value_weight(block), "m h d -> m (h d)"), None)

    def projection(self, block: nn.Module) -> Projection:
        return Projection(rearrange(_weight(block, self.projection_weight), "m h d -> h d m"), None)

    def listener(self, block: nn.Module, attended: Attended, projected: Projected) -> Callable[..., tuple | None]:
        """A hook that reports every attention of the block: weights, values, what may be attended to, head outputs;
        then their sum.

        If `attended` returns other weights, the block continues with those.
        """

        def hook(attention: Any, args: tuple, kwargs: dict[str, Any], output: tuple) -> tuple | None:
            states, forbidden = args[0], args[2]
            weights = rearrange(output[2], "t s b h -> b h t s")
            values = einsum(states, self._value_weight(block), "s b m, m h d -> b h s d")
            allowed = None if forbidden is None else rearrange(forbidden == 0, "t s b h -> b h t s")
            heads = einsum(weights, values, "b h t s, b h s d -> b t h d")
            replaced = attended(attention, weights, values, allowed, heads)
            if replaced is not None:
                heads = einsum(replaced, values, "b h t s, b h s d -> b t h d")
            projected(attention, args, einsum(heads, self.projection(block).weight, "b t h d, h d m -> b t m"))
            if replaced is None:
                return None
            state = attention.post_attention(states, rearrange(heads, "b t h d -> t b h d"))
            return state, output[1], rearrange(replaced, "b h t s -> t s b h")

        return hook

    def _value_weight(self, block: nn.Module) -> Tensor:
        return _weight(block, self.value_weight)


def _weight(block: nn.Module, path: str) -> Tensor:
    with held_whole(block):
        return attrgetter(path)(block).detach()
