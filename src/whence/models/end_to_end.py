"""Whether the blocks' derivatives multiply to the derivative of the model's own code from layer 0 to the last.

Some models have paths beside the residual stream: Gemma 4 projects an input for every layer from the embeddings, and
its late layers read keys and values of earlier ones; Zamba reads the embeddings again. A product of blocks, each a
function of its states alone, misses them. So the model's own code is differentiated end to end, over a few tokens, and
compared with the product.
"""

import copy
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whence.models import capture
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.functions import written_out
from whence.models.hooks import here
from whence.models.locate import probe
from whence.models.weights import first

# relative difference that rounding explains: both ways run the same operations on the same numbers
CLOSE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 3e-3, torch.bfloat16: 1e-2}


def missed(anatomy: Anatomy) -> float:
    """How far u^T J_L ... J_1 is from u^T dh^L / dh^0 at any token, for a random u; infinitely where there is none."""
    watch = _Watch(anatomy)
    with capture.borrowed(anatomy.model, anatomy.seam), written_out(anatomy.model), torch.enable_grad():
        anatomy.config._experts_implementation = "eager"  # as in the pass whose derivatives are taken
        try:
            with watch.listening():
                capture.run(anatomy.stack, probe(anatomy.model), **capture.arguments_of(anatomy))
            return _compared(watch)
        except (RuntimeError, NotImplementedError):  # how torch says that code cannot be differentiated
            return float("inf")


@dataclass(frozen=True, eq=False)
class _Call:
    """A block with what it read: its states and all that was given beside them."""

    block: nn.Module
    states: Tensor
    args: tuple
    kwargs: dict[str, Any]

    def pull(self, cotangent: Tensor) -> Tensor:
        """u^T J of the block alone."""
        states = self.states.detach().requires_grad_()
        kwargs = {name: _own(value) for name, value in self.kwargs.items()}
        output = first(self.block(states, *map(_own, self.args), **kwargs))
        return torch.autograd.grad(output, states, cotangent)[0]


def _own(value: Any) -> Any:
    """Blocks hand things on to later ones in mappings, which must stay as this block found them."""
    return copy.copy(value) if isinstance(value, MutableMapping) else value


@dataclass
class _Watch:
    """One pass with its graph: what the embedding gave, how each block was called, what the last one gave."""

    anatomy: Anatomy
    calls: list[_Call] = field(default_factory=list)
    embedding: Tensor | None = None
    output: Tensor | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        blocks = set(self.anatomy.blocks)
        with ExitStack() as hooks:
            for block in blocks:
                hooks.callback(block.register_forward_pre_hook(here(self._begin), with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(here(self._end)).remove)
            for module in set(self.anatomy.stack.modules()) - blocks:
                hooks.callback(module.register_forward_hook(here(self._gave)).remove)
            yield

    def _gave(self, module: nn.Module, args: tuple, output: Any) -> Tensor | None:
        """Before the first block everything gets a graph: weights may be frozen."""
        if self.calls or not isinstance(output, Tensor) or not output.is_floating_point():
            return None
        tensor = output if output.requires_grad else output.detach().requires_grad_().clone()
        if module is _table(self.anatomy):
            self.embedding = tensor
        return tensor

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        rest = {name: _own(value) for name, value in kwargs.items() if name != "hidden_states"}
        self.calls.append(_Call(block, states, tuple(map(_own, args[1:])), rest))

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        self.output = first(output)


def _table(anatomy: Anatomy) -> nn.Module | None:
    with suppress(NotImplementedError):  # CANINE embeds characters by several hashes
        return anatomy.stack.get_input_embeddings()
    return None


def _compared(watch: _Watch) -> float:
    """By how much the product misses the derivative by layer 0, or layer 0 that by the embedding it was made of."""
    start, embedding, output = watch.calls[0].states, watch.embedding, watch.output
    assert output is not None
    generator = torch.Generator().manual_seed(0)
    cotangent = product = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output)
    by_start = torch.autograd.grad(output, start, cotangent, retain_graph=True)[0]
    for call in reversed(watch.calls):
        product = call.pull(product)
    error = apart(product, by_start)
    if embedding is None or embedding is start:
        return error
    whole = torch.autograd.grad(output, embedding, cotangent, retain_graph=True)[0]
    return max(error, apart(torch.autograd.grad(start, embedding, by_start)[0], whole))
