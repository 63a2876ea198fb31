"""How small changes of a sentence's states go through a model's blocks: tangents forward, cotangents backward.

Every block is frozen at the states of one pass and becomes a function of its input alone. Its derivative is taken by
`torch.func` through the model's own code, so every family has it. Blocks that attend through transformers' attention
interface can also be cut there: what happens outside the cut happens to each token alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import jvp, vjp, vmap
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from whence.models import capture
from whence.models.agreement import apart
from whence.models.block_weights import BlockWeights
from whence.models.hooks import Reached
from whence.models.precision import unpacked
from whence.models.sizes import Sizes
from whence.models.stack import Stack
from whence.models.weights import Parts

SEAM = "whence-tangent"
# states and weights in half precision are taken to float32: a derivative of rounded numbers is noise
PRECISE = {torch.float64: torch.float64} | dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float32)
# relative difference from the block's own derivative that rounding explains
AGREE = 1e-4
Function = Callable[[Tensor], Tensor]
_answer: ContextVar[Callable[..., tuple[Tensor, Tensor | None]]] = ContextVar("answer")


@dataclass(frozen=True, eq=False)
class Attended:
    """The inputs and weights of one attention, heads in groups `g` of `r` that share keys and values.

    `gain` is the weight times the slope of the scores, so that dA_ij = gain_ij (d(q_i k_j) - sum_l A_il d(q_i k_l)).
    `mixed` is what the heads output, sum_j A_ij v_j.
    """

    query: Float[Tensor, "g r t d"]
    key: Float[Tensor, "g t d"]
    value: Float[Tensor, "g t e"]
    weights: Float[Tensor, "g r t t"]
    gain: Float[Tensor, "g r t t"]
    mixed: Float[Tensor, "g r t e"]

    def among(self, tokens: slice) -> "Attended":
        """Only these tokens, as sources and as targets; what the heads output is still all of it."""
        query, mixed = (part[:, :, tokens] for part in (self.query, self.mixed))
        weights, gain = (part[:, :, tokens, tokens] for part in (self.weights, self.gain))
        return Attended(query, self.key[:, tokens], self.value[:, tokens], weights, gain, mixed)


@dataclass(frozen=True, eq=False)
class FrozenBlock:
    """One block at one sentence's states; `attended` and `parts` are None where they are not known."""

    module: nn.Module
    function: Function
    weights: BlockWeights
    states: Float[Tensor, "t m"]
    output: Float[Tensor, "t m"]
    attended: Attended | None

    @property
    def block(self) -> Function:
        """The block as a function of its states, its weights at hand."""
        self.weights.of(self.module)
        return self.function

    @property
    def parts(self) -> Parts | None:
        return self.weights.parts(self.module)

    def push(self, tangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        """J v (JVP) for every tangent: how the block's output moves with its input."""
        block = self.block
        return vmap(lambda tangent: jvp(block, (self.states,), (tangent,))[1])(tangents)

    def pull(self, cotangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        """u^T J (VJP) for every cotangent: how the output's weighted sum moves with each input."""
        back = vjp(self.block, self.states)[1]
        return vmap(lambda cotangent: back(cotangent)[0])(cotangents)

    def reads(self, directions: Float[Tensor, "k t m"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tangents of queries, keys, values [k g t d] and of the output [k t m], the heads' outputs held fixed."""
        block, heads = self.block, self._heads

        def cut(states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            return _cut(block, states, heads)

        return vmap(lambda direction: jvp(cut, (self.states,), (direction,))[1])(directions)

    def attends(self, directions: Float[Tensor, "k t m"]) -> tuple[Tensor, Tensor, Tensor]:
        """Tangents of queries, keys and values alone [k h t d]; the block stops at its attention."""
        reads = until_attention(self.block)
        return vmap(lambda direction: jvp(reads, (self.states,), (direction,))[1])(directions)

    def attends_back(self, queries: Tensor, keys: Tensor, values: Tensor) -> Float[Tensor, "k t m"]:
        """The transpose: from cotangents of queries, keys and values to those of the input."""
        back = vjp(until_attention(self.block), self.states)[1]
        return vmap(lambda *cotangents: back(cotangents)[0])(queries, keys, values)

    def writes(self, directions: Float[Tensor, "k t n"]) -> Float[Tensor, "k t m"]:
        """Tangents of the output by the heads' outputs, concatenated, the input held fixed."""

        block = self.block

        def cut(heads: Tensor) -> Tensor:
            return _cut(block, self.states, heads)[3]

        return vmap(lambda direction: jvp(cut, (self._heads,), (direction,))[1])(directions)

    @property
    def may_read_alike(self) -> bool:
        """Whether queries, keys and values are likely to be the same map of every token: no norm comes before them."""
        return self.parts is not None and self.parts.attention_norms.before is None

    def agrees(self, push: Function) -> bool:
        """Whether a JVP is that of the block's own code, at every token relative to its size."""
        tangents, expected = self.reference
        return apart(push(tangents), expected) <= AGREE

    def agrees_back(self, pull: Function, tokens: slice = slice(None)) -> bool:
        """The same of a VJP; among some tokens, of cotangents that are zero at all others."""
        cotangents = torch.zeros_like(self._drawn)
        cotangents[:, tokens] = self._drawn[:, tokens]
        with torch.enable_grad():
            inputs = self.states.detach().requires_grad_()
            output = self.block(inputs)
            rows = [torch.autograd.grad(output, inputs, cotangent, retain_graph=True)[0] for cotangent in cotangents]
        expected = torch.stack(rows)
        return apart(pull(cotangents[:, tokens]), expected[:, tokens]) <= AGREE

    @cached_property
    def reference(self) -> tuple[Float[Tensor, "k t m"], Float[Tensor, "k t m"]]:
        """Two random tangents, and their JVPs by the block's own code."""
        block = self.block
        return self._drawn, torch.stack([pushed(block, self.states, tangent) for tangent in self._drawn])

    @property
    def _drawn(self) -> Float[Tensor, "k t m"]:
        """Two random vectors. Each is zero at every other token: what arrives there came through attention, which would
        be small beside the residual.
        """
        generator = torch.Generator().manual_seed(0)
        vector = torch.randn(self.states.shape, generator=generator, dtype=torch.float64).to(self.states)
        even = (torch.arange(len(vector), device=vector.device) % 2 == 0)[:, None]
        return torch.stack([vector * even, vector * ~even])

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest tensor made for one tangent in the block's own code."""
        with Sizes() as sizes:
            self.push(self.reference[0][:1])
        return sizes.largest

    @property
    def _heads(self) -> Float[Tensor, "t n"]:
        assert self.attended is not None
        return rearrange(self.attended.mixed, "g r t e -> t (g r e)")


@dataclass(frozen=True, eq=False)
class FrozenBlocks:
    """All blocks of one pass; `start` leads from the sum of the embeddings to layer 0, None where they are the same.

    `stack` is set where blocks read more of layer 0 than their states; derivatives by layer 0 then go through it. With
    `at_once`, all blocks as one function, a cotangent is pulled in one pass backwards: what several of them read, an
    encoder's states, is then summed as autograd sums it, which shows in half precision.
    """

    steps: tuple[FrozenBlock, ...]
    causal: bool
    start: Float[Tensor, "s w m"] | None
    stack: Stack | None = None
    at_once: Function | None = None

    @property
    def states(self) -> Float[Tensor, "s m"]:
        return self.steps[0].states

    @property
    def width(self) -> int:
        """Dimensions of a source token."""
        return self.states.shape[-1] if self.start is None else self.start.shape[1]

    def directions(self, source: int) -> Float[Tensor, "w m"]:
        """Every unit change of a source token, as a change of layer 0."""
        if self.start is not None:
            return self.start[source]
        return torch.eye(self.width, dtype=self.states.dtype, device=self.states.device)

    def push_one(self, tangent: Float[Tensor, "t m"]) -> Float[Tensor, "t m"]:
        """J v of the last layer by layer 0, by forward derivatives of the plain code."""
        if self.stack is not None:
            return pushed(self.stack.last, self.stack.states, tangent)
        for step in self.steps:
            tangent = pushed(step.block, step.states, tangent.to(step.states.device))
        return tangent

    def pull_one(self, cotangent: Float[Tensor, "t m"]) -> Float[Tensor, "t m"]:
        """u^T J of the last layer by layer 0, by autograd of the plain code."""
        if self.stack is not None:
            return pulled(self.stack.last, self.stack.states, cotangent)
        if self.at_once is not None:
            return pulled(self.at_once, self.states, cotangent)
        for step in reversed(self.steps):
            cotangent = pulled(step.block, step.states, cotangent.to(step.output.device))
        return cotangent


@contextmanager
def answering(answer: Callable[..., tuple[Tensor, Tensor | None]]) -> Iterator[None]:
    token = _answer.set(answer)
    try:
        yield
    finally:
        _answer.reset(token)


def own_attention(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """The model file's own attention."""
    return ALL_ATTENTION_FUNCTIONS[capture.SEAM](*args, **kwargs)


AttentionInterface.register(SEAM, lambda *args, **kwargs: _answer.get(own_attention)(*args, **kwargs))
AttentionMaskInterface.register(SEAM, ALL_MASK_ATTENTION_FUNCTIONS[capture.SEAM])


def _cut(block: Function, states: Tensor, heads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and output of a block whose heads output `heads`, whatever they read."""
    inputs: list[Tensor] = []

    def answer(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
        inputs.extend((query[0], key[0], value[0]))
        return rearrange(heads, "t (h e) -> 1 t h e", h=query.shape[1]), None

    with answering(answer):
        output = block(states)
    return inputs[0], inputs[1], inputs[2], output


def until_attention(block: Function) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Queries, keys and values as a function of the block's input."""

    def function(states: Tensor) -> tuple[Tensor, ...]:
        inputs: list[Tensor] = []

        def answer(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
            inputs.extend((query[0], key[0], value[0]))
            raise Reached

        with answering(answer), suppress(Reached):
            block(states)
        return tuple(inputs)

    return function


def pushed(function: Function, states: Tensor, tangent: Tensor) -> Tensor:
    """J v of one tangent: faster than `torch.func`, and by the same operations as a plain pass."""
    with forward_ad.dual_level():
        output_tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(states, tangent))).tangent
    if output_tangent is None:
        raise NotImplementedError("its output does not depend on its input")
    return output_tangent


def pulled(function: Function, states: Tensor, cotangent: Tensor) -> Tensor:
    """u^T J of one cotangent, likewise."""
    with torch.enable_grad():
        inputs = states.detach().requires_grad_()
        return torch.autograd.grad(function(inputs), inputs, cotangent)[0]


def precise(value: Any) -> Any:
    """Tensors that are quantised or in half precision in float32, all else as it is."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return unpacked(value).to(PRECISE[value.dtype])
