"""What a block's weights are, family aside: norms, affine maps, the output projection by head, the feed-forward."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, float32, nn, promote_types
from torch.func import functional_call

from whence.errors import Unsupported
from whence.models.affine import MERGE, Affine, read_affine
from whence.models.pieces import held, held_whole

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Norm:
    """LayerNorm (centred) or RMSNorm: a fixed linear map, a scale that depends on the token, a shift."""

    weight: Float[Tensor, " m"]
    bias: Float[Tensor, " m"] | None
    centred: bool
    eps: float

    def linear(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ m"]:
        """The part that is the same linear map for every token: weight * (z - mean z)."""
        if self.centred:
            states = states - states.mean(dim=-1, keepdim=True)
        return states * self.weight

    def scale(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ 1"]:
        """The part that is one number per token: 1 / std, or 1 / root mean square."""
        if self.centred:
            states = states - states.mean(dim=-1, keepdim=True)
        return (states.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()

    def __call__(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ m"]:
        """In float32 at least, as the models do: the square of a massive activation is more than float16 holds."""
        wide = states.to(promote_types(states.dtype, float32))
        normed = self.linear(wide) * self.scale(wide)
        return (normed if self.bias is None else normed + self.bias).to(states.dtype)


@dataclass(frozen=True)
class Projection:
    """The attention's output projection, one slice per head."""

    weight: Float[Tensor, "h d m"]
    bias: Float[Tensor, " m"] | None


@dataclass(frozen=True)
class FeedForward:
    """down(activation(activated(x))), times linear(x) before `down` in gated forms (SwiGLU, GeGLU)."""

    activated: Affine
    linear: Affine | None
    activation: Activation
    down: Affine

    def __call__(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ m"]:
        hidden = self.activation(self.activated(states))
        return self.down(hidden if self.linear is None else hidden * self.linear(states))


@dataclass(frozen=True)
class Fed:
    """x + feed-forward(norm(x))."""

    norm: Norm
    forward: FeedForward

    def __call__(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ m"]:
        return states + self.forward(self.norm(states))


@dataclass(frozen=True)
class Opaque:
    """A feed-forward known only by its output, such as a mixture of experts."""

    module: nn.Module

    def __call__(self, states: Float[Tensor, "*_ m"]) -> Float[Tensor, "*_ m"]:
        """In the precision of the states: a change too small for half precision may be what is measured."""
        with held_whole(self.module):
            weights = dict(itertools.chain(self.module.named_parameters(), self.module.named_buffers()))
            widened = {name: _like(states, weight) for name, weight in weights.items()}
            output = functional_call(self.module, widened, (states.reshape(1, -1, states.shape[-1]),))
        return first(output).reshape(states.shape)


@dataclass(frozen=True)
class Norms:
    """The norms around one residual branch: y = after(x + inside(branch(before(x))))."""

    before: Norm | None = None
    inside: Norm | None = None
    after: Norm | None = None


@dataclass(frozen=True)
class CrossParts:
    """The attention to an encoder's states taken apart."""

    projection: Projection
    attention_norms: Norms


@dataclass(frozen=True)
class Parts:
    """A block taken apart. `feed_forward` reads the block's input when `parallel`, else what attention left."""

    projection: Projection
    attention_norms: Norms
    feed_forward: FeedForward | Opaque
    feed_forward_norms: Norms
    parallel: bool
    residual_scale: float
    cross: CrossParts | None = None

    @property
    def neurons(self) -> FeedForward:
        """The feed-forward by its weights."""
        assert isinstance(self.feed_forward, FeedForward), "the feed-forward is known as a whole only"
        return self.feed_forward

    @property
    def joins_first(self) -> bool:
        """Whether the heads' output is added to the residual stream unchanged, where all else reads it."""
        return not self.parallel and self.attention_norms.inside is None


def first(output: Any) -> Tensor:
    """A module's main output, without the others."""
    return output[0] if isinstance(output, tuple | list) else output


def split_affine(affine: Affine) -> tuple[Affine, Affine]:
    """The two halves of a fused gate-and-up map; the first is the activated one in every family so far."""
    weights = affine.weight.chunk(2, dim=1)
    biases = (None, None) if affine.bias is None else affine.bias.chunk(2)
    first, second = (Affine(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    return first, second


def averaged(affines: Sequence[Affine]) -> Affine:
    """The mean of maps with biases, each of its own part of what is read."""
    biases = [affine.bias for affine in affines if affine.bias is not None]
    weight = torch.cat([affine.weight for affine in affines]) / len(affines)
    return Affine(weight, torch.stack(biases).sum(dim=0) / len(affines) if biases else None)


def read_projection(module: nn.Module, heads: int) -> Projection:
    affine = read_affine(module)
    return Projection(rearrange(affine.weight, "(h d) m -> h d m", h=heads), affine.bias)


Scaled = TypeVar("Scaled", Affine, Projection)


def scaled(affine: Scaled, factors: Float[Tensor, " m"] | float | None) -> Scaled:
    """The same map with every channel of its output multiplied by a factor (LayerScale)."""
    if factors is None:
        return affine
    factors = factors.detach() if isinstance(factors, Tensor) else factors
    bias = None if affine.bias is None else affine.bias * factors
    return replace(affine, weight=affine.weight * factors, bias=bias)


def read_norm(module: nn.Module | None, offset: float, ones: Callable[[], Float[Tensor, " m"]]) -> Norm | None:
    """A norm as numbers; Gemma stores weight - 1 (offset 1), OLMo stores none at all (then `ones`)."""
    if module is None or isinstance(module, nn.Identity):
        return None
    if any(module.children()):
        raise Unsupported(f"{type(module).__name__} is wrapped around a norm, which is not taken apart; {MERGE}.")
    with held(module):
        weight, bias = (module._parameters.get(name) for name in ("weight", "bias"))
    return Norm(
        weight=ones() if weight is None else weight.detach() + offset if offset else weight.detach(),
        bias=None if bias is None else bias.detach(),
        centred=_is_centred(type(module).__name__),
        eps=_epsilon(module),
    )


def _is_centred(name: str) -> bool:
    """T5 calls its RMSNorm a LayerNorm."""
    return "LayerNorm" in name and "T5" not in name


def _epsilon(module: nn.Module) -> float:
    """RMSNorm classes differ in the name; OLMo's LayerNorm has it in its code (modeling_olmo.py, 1e-5)."""
    attributes = vars(module)
    return next((attributes[name] for name in ("eps", "variance_epsilon") if name in attributes), 1e-5)


def _like(states: Tensor, weight: Tensor) -> Tensor:
    return weight.to(states.dtype) if weight.is_floating_point() else weight
