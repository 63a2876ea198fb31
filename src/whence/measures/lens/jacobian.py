"""The Jacobian lens of one text: how the last layer's states move with those of every layer, averaged over tokens.

    J_l = (1 / |V|) sum_{t in V} sum_{t' in V} dh^L_t' / dh^l_t        (in a decoder only t' >= t is not zero)

V are the tokens after those that are skipped and, in a decoder, before the last (Gurnee et al. 2026). Row by row it is
one covector that starts at every token of V at once, pulled back through all layers and averaged at each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput, VerificationFailed
from whence.linear import cost
from whence.linear.dense import Covectors, dense
from whence.linear.propagate import OwnCode
from whence.linear.steps import Branches
from whence.linear.tangent import by_parts
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.frozen import FrozenBlock, FrozenBlocks, pulled
from whence.models.linearise import linearised
from whence.models.stack import Stack

Matrices = Float[Tensor, "layer m m"]
# how far one direction may be from a backward pass through the model's own code: rounding over all layers
CLOSE = {torch.float64: 1e-5, torch.float32: 1e-3}
ROOM = 2**30  # bytes of covectors at once, the same on every machine, because the last digits depend on it


@dataclass(frozen=True)
class Averaged:
    """Tokens whose effects are averaged, of a text; in a decoder those before them and behind do not matter."""

    span: slice
    causal: bool
    tokens: int

    @classmethod
    def of(cls, tokens: int, skip: int, causal: bool) -> "Averaged":
        """Without the skipped ones and, in a decoder, without the last, which has nothing to predict."""
        last = tokens - 1 if causal else tokens
        if last <= skip:
            without = f"{skip} skipped{' and the last left out' if causal else ''}"
            raise BadInput(
                f"The text is {tokens:,} tokens long, and with {without} none is left;"
                " give longer texts, or skip fewer (skip, --skip)."
            )
        return cls(slice(skip, last), causal, tokens)

    @property
    def reached(self) -> slice:
        """Tokens that covectors pass on their way."""
        return self.span if self.causal else slice(0, self.tokens)

    @property
    def count(self) -> int:
        return self.span.stop - self.span.start


def jacobians(
    anatomy: Anatomy, batch: Batch, skip: int, layers: Sequence[int], progress: Callable[[], None] = lambda: None
) -> Matrices:
    """J_l of one text at some layers, output x input; 0 is the output of the embeddings."""
    averaged = Averaged.of(batch.ids.shape[1], skip, anatomy.causal)
    with linearised(anatomy, batch) as chain:
        if chain.stack is not None:
            return _through_stack(chain.stack, averaged, layers)
        matrices = _through_blocks(chain, averaged, layers, progress)
        _check(anatomy, chain, averaged, min(layers), matrices[list(layers).index(min(layers))])
    return matrices


def _through_blocks(
    chain: FrozenBlocks, averaged: Averaged, layers: Sequence[int], progress: Callable[[], None]
) -> Matrices:
    states, last = chain.states, len(chain.steps)
    width, reached = states.shape[-1], averaged.reached
    tokens = reached.stop - reached.start
    room = max(1, ROOM // (tokens * width * states.element_size()))
    matrices = states.new_empty(len(layers), width, width)
    inside = slice(averaged.span.start - reached.start, averaged.span.stop - reached.start)
    for rows in torch.arange(width).split(room):
        covectors = states.new_zeros(tokens, len(rows), width)
        covectors[inside, torch.arange(len(rows)), rows] = 1
        for layer in range(last, min(layers) - 1, -1):
            if layer < last:
                covectors = _block(chain.steps[layer], reached, len(rows)).pull(covectors)
                progress()
            if layer in layers:
                matrices[list(layers).index(layer), rows] = covectors[inside].mean(dim=0)
    return matrices


@runtime_checkable
class _Pulls(Protocol):
    def pull(self, covectors: Covectors, /) -> Covectors: ...


@dataclass(frozen=True, eq=False)
class _Across:
    """A block that takes covectors first, tokens second."""

    block: Branches | OwnCode
    portion: int

    def pull(self, covectors: Covectors) -> Covectors:
        for part in covectors.split(self.portion, dim=1):
            part.copy_(self.block.pull(part.transpose(0, 1)).transpose(0, 1))
        return covectors


def _block(step: FrozenBlock, reached: slice, directions: int) -> _Pulls:
    """The quickest way back through a block."""
    parts = by_parts(step, back=True)
    tokens, width = step.states.shape
    if cost.multiplying_pays(directions, width, cost.DENSE):
        block = dense(step, parts, reached)
        if block is not None:
            return block
    return _Across((parts or OwnCode(step)).among(reached), cost.together(tokens, directions, cost.VECTORS))


def _through_stack(stack: Stack, averaged: Averaged, layers: Sequence[int]) -> Matrices:
    """By backward passes through the model's own code, one per direction: for models with paths beside the stream."""
    with torch.enable_grad():
        states = stack.states.detach().requires_grad_()
        outputs = stack.outputs(states, stack.anatomy.layers)
        nodes = [states, *outputs]
        rows = [_pulled_row(nodes, stack, averaged, row) for row in range(states.shape[-1])]
    return torch.stack([torch.stack([row[layer] for row in rows]) for layer in layers])


def _pulled_row(nodes: list[Tensor], stack: Stack, averaged: Averaged, row: int) -> list[Float[Tensor, " m"]]:
    axis = stack.anatomy.batch_axis
    cotangent = torch.zeros_like(nodes[-1])
    cotangent.squeeze(axis)[averaged.span, row] = 1
    gradients = torch.autograd.grad(nodes[-1], nodes, cotangent, retain_graph=True)
    gradients = (gradients[0], *(gradient.squeeze(axis) for gradient in gradients[1:]))
    return [gradient[averaged.span].mean(dim=0) for gradient in gradients]


def _check(
    anatomy: Anatomy, chain: FrozenBlocks, averaged: Averaged, layer: int, matrices: Float[Tensor, "m m"]
) -> None:
    """One random direction, against a backward pass through the blocks' own code."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(len(matrices), generator=generator, dtype=torch.float64).to(matrices)
    cotangent = torch.zeros_like(chain.states)
    cotangent[averaged.span] = direction
    for step in reversed(chain.steps[layer:]):
        cotangent = pulled(step.block, step.states, cotangent)
    expected = cotangent[averaged.span].mean(dim=0)
    error = float((direction @ matrices - expected).norm() / expected.norm())
    if not error <= CLOSE[matrices.dtype]:
        raise VerificationFailed(
            f"In {type(anatomy.model).__name__} the lens of layer {layer} is {error:.0e} away from a backward pass of"
            f" the model, and {CLOSE[matrices.dtype]:.0e} was expected, so it is not given; load the model in float64."
        )
