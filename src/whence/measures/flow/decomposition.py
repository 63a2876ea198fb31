"""What every state is made of: each input token's vector in it, and the vector that belongs to no token.

h^l_i = sum_j z_ij + b_i, where z_ij is what the blocks, as the affine maps they were at this sentence, make of the
embedding of token j, and b_i what they make of their constants. Vectors are added, not lengths: what cancels is gone,
which a rollout does not see. DecompX (Modarressi et al. 2023) is the same with biases shared out among tokens.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import VerificationFailed
from whence.linear import two_stacks
from whence.linear.secant import Secants, secants
from whence.linear.steps import Branches
from whence.measures.takes import Sizes
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.block import Batch

ROWS = 2048  # of the matrix products: enough for full speed, few enough for the cache
WIDE, HIDDEN = 5, 3  # what one source has alive inside a block: so many tensors as wide as the stream, as the neurons
# how far the vectors' sum may be from the state, at any token, by the rounding of as many layers
CLOSE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Lengths of z_ij and of b_i, and both along the state: z_ij h_i / |h_i|^2, which add up to one with b_i's."""

    length: Float[Tensor, "layer target source"]
    signed: Float[Tensor, "layer target source"]
    bias: Float[Tensor, "layer target"]
    bias_signed: Float[Tensor, "layer target"]

    @property
    def share(self) -> Float[Tensor, "layer target source"]:
        """|z_ij| / sum_k |z_ik|."""
        return self.length / self.length.sum(dim=-1, keepdim=True)


def decomposition(
    anatomy: Anatomy,
    batch: Batch,
    layers: Iterable[int] | None = None,
    memory: int = 2**31,
    progress: Callable[[int, int], None] | None = None,
) -> Decomposition:
    """Every state of these layers as the sum of its sources' vectors, exact; checked against the state itself."""
    kept = tuple(layers or range(1, anatomy.chained + 1))
    with torch.no_grad():
        chain = _chain(anatomy, batch, max(kept))
        return _Sum.of(chain, kept).pushed(anatomy, _together(anatomy, chain, memory), progress)


def _chain(anatomy: Anatomy, batch: Batch, depth: int) -> Secants | two_stacks.Secants:
    return (secants if anatomy.encoder is None else two_stacks.secants)(anatomy, batch, depth)


@dataclass(frozen=True, eq=False)
class _Sum:
    """The answer while sources are added to it."""

    chain: Secants | two_stacks.Secants
    layers: tuple[int, ...]
    total: Float[Tensor, "layer target m"]
    length: Float[Tensor, "layer target source"]
    signed: Float[Tensor, "layer target source"]

    @classmethod
    def of(cls, chain: Secants | two_stacks.Secants, layers: tuple[int, ...]) -> "_Sum":
        tokens, width = chain.last.shape
        zeros = chain.last.new_zeros
        pair = (len(layers), tokens, tokens)
        return cls(chain, layers, zeros(len(layers), tokens, width), zeros(pair), zeros(pair))

    def pushed(self, anatomy: Anatomy, together: int, progress: Callable[[int, int], None] | None) -> Decomposition:
        tokens = len(self.chain.last)
        for sources in torch.arange(tokens).split(together):
            self._push(int(sources[0]), int(sources[-1]) + 1, anatomy.causal and anatomy.encoder is None)
            if progress is not None:
                progress(int(sources[-1]) + 1, tokens)
        bias = self._biases()
        self._check(anatomy, bias)
        return Decomposition(self.length, self.signed, bias.norm(dim=-1), self._along(bias))

    def _push(self, begin: int, end: int, causal: bool) -> None:
        """Some sources through all blocks; in a decoder without the tokens before them, where they are nothing."""
        first = begin if causal else 0
        start = self.chain.states[0][begin:end]
        vectors = start.new_zeros(end - begin, len(self.chain.last) - first, start.shape[-1])
        vectors[torch.arange(end - begin), torch.arange(begin - first, end - first)] = start
        for layer, block in enumerate(self.chain.blocks, start=1):
            vectors = vectors.to(self.chain.states[layer - 1].device)
            if first:
                assert isinstance(block, Branches), "in two stacks every token may reach every other"
                block = block.among(slice(first, None))
            vectors = block.push(vectors)
            if layer in self.layers:
                self._add(self.layers.index(layer), layer, vectors, slice(first, None), slice(begin, end))

    def _add(self, place: int, layer: int, vectors: Tensor, targets: slice, sources: slice) -> None:
        state, vectors = self.chain.states[layer][targets].to(self.total.device), vectors.to(self.total.device)
        self.total[place, targets] += vectors.sum(dim=0)
        self.length[place, targets, sources] = vectors.norm(dim=-1).T
        self.signed[place, targets, sources] = (vectors * state).sum(dim=-1).T / state.square().sum(-1, keepdim=True)

    def _biases(self) -> Float[Tensor, "layer target m"]:
        """What the constants of all blocks so far have become."""
        bias, kept = torch.zeros_like(self.chain.last)[None], []
        for layer, block in enumerate(self.chain.blocks, start=1):
            bias = block.push(bias.to(self.chain.states[layer - 1].device), constants=True)
            kept += [bias[0].to(self.total.device)] * (layer in self.layers)
        return torch.stack([kept[sorted(self.layers).index(layer)] for layer in self.layers])

    def _states(self) -> Float[Tensor, "layer target m"]:
        return torch.stack([self.chain.states[layer].to(self.total.device) for layer in self.layers])

    def _along(self, vectors: Float[Tensor, "layer target m"]) -> Float[Tensor, "layer target"]:
        states = self._states()
        return (vectors * states).sum(dim=-1) / states.square().sum(dim=-1)

    def _check(self, anatomy: Anatomy, bias: Float[Tensor, "layer target m"]) -> None:
        error = max(map(apart, self.total + bias, self._states()))
        if not error <= CLOSE[anatomy.model.dtype]:
            raise VerificationFailed(
                f"The vectors of all tokens do not add up to the states of {type(anatomy.model).__name__} (error"
                f" {error:.2g}), so they are not given; load the model in float32, and report it if it is."
            )


def together(tokens: int, width: int, neurons: int, number: int, memory: int) -> int:
    """How many sources go through the blocks at a time."""
    return max(1, min(tokens, ROWS // tokens, memory // inside(tokens, width, neurons, number)))


def inside(tokens: int, width: int, neurons: int, number: int) -> int:
    """Bytes that one source's vectors take inside a block."""
    return number * tokens * (WIDE * width + HIDDEN * neurons)


def _together(anatomy: Anatomy, chain: Secants | two_stacks.Secants, memory: int) -> int:
    tokens, width = chain.last.shape
    neurons = Sizes.of(anatomy, tokens, (1,), {}).neurons
    return together(tokens, width, neurons, chain.last.element_size(), memory)
