"""XLNet stands outside transformers' attention interface: its attention is read from its own outputs instead.

The relative attention hands out its probabilities when asked (`output_attentions`); values and projection are one
matrix product each from its parameters. Everything inside XLNet is laid out time first.
"""

from collections.abc import Callable
from typing import Any

from einops import einsum, rearrange
from torch import Tensor, nn

from whence.models.weights import Projection

ARGUMENTS = {"output_attentions": True, "use_mems": False}
Attended = Callable[[nn.Module, Tensor, Tensor, Tensor | None, Tensor], Tensor | None]
Projected = Callable[[nn.Module, tuple, Tensor], None]


def listener(block: Any, attended: Attended, projected: Projected) -> Callable[..., tuple | None]:
    """A hook that reports every attention of the block: weights, values, what may be attended to, head outputs; then
    their sum.

    When `attended` gives other weights, the block goes on with those.
    """

    def hook(attention: Any, args: tuple, kwargs: dict[str, Any], output: tuple) -> tuple | None:
        states, forbidden = args[0], args[2]
        weights = rearrange(output[2], "t s b h -> b h t s")
        values = einsum(states, attention.v, "s b m, m h d -> b h s d")
        allowed = None if forbidden is None else rearrange(forbidden == 0, "t s b h -> b h t s")
        heads = einsum(weights, values, "b h t s, b h s d -> b t h d")
        replaced = attended(attention, weights, values, allowed, heads)
        if replaced is not None:
            heads = einsum(replaced, values, "b h t s, b h s d -> b t h d")
        projected(attention, args, einsum(heads, projection(block).weight, "b t h d, h d m -> b t m"))
        if replaced is None:
            return None
        state = attention.post_attention(states, rearrange(heads, "b t h d -> t b h d"))
        return state, output[1], rearrange(replaced, "b h t s -> t s b h")

    return hook


def projection(block: Any) -> Projection:
    return Projection(rearrange(block.rel_attn.o.detach(), "m h d -> h d m"), None)
