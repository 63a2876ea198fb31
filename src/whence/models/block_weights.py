"""A block's weights as its derivative needs them: fetched if they are kept elsewhere, widened if in half precision.

Of one block at a time: a second copy of the whole model would be larger than the model.
"""

import itertools
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from whence.models.anatomy import Anatomy
from whence.models.pieces import held_whole, in_pieces
from whence.models.precision import is_packed
from whence.models.stack import Precision
from whence.models.weights import Parts

Tensors = dict[str, Tensor]


@dataclass(eq=False)
class BlockWeights:
    """Fetched and widened weights of the block that was asked for last."""

    anatomy: Anatomy
    precision: Precision
    _block: nn.Module | None = None
    _tensors: Tensors = field(default_factory=dict)
    _parts: dict[nn.Module, Parts | None] = field(default_factory=dict)
    _held: ExitStack = field(default_factory=ExitStack)
    _all: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def in_place(self) -> bool:
        """Whether the model's own weights serve as they are."""
        dtypes = {parameter.dtype for parameter in self.anatomy.stack.parameters()}
        wider = any(self.precision(torch.empty(0, dtype=dtype)).dtype != dtype for dtype in dtypes)
        wider = wider or any(map(is_packed, self.anatomy.stack.parameters()))
        return not wider and not in_pieces(self.anatomy.stack)

    def of(self, block: nn.Module) -> Tensors:
        """The tensors to run it with instead of its own; none where its own serve. Not to be called inside a transform
        of `torch.func`, which would wrap them.
        """
        if self._block is not block:
            self.let_go()
            self._held.enter_context(held_whole(block))
            self._block, self._tensors = block, widened(block, self.precision)
        return self._tensors

    def parts(self, block: nn.Module) -> Parts | None:
        """The block taken apart, in the model's own precision."""
        self.of(block)
        if block not in self._parts:
            self._parts[block] = self.anatomy.parts(block)
        return self._parts[block]

    def keep_all(self) -> None:
        """Fetches the weights of all blocks together, for a model that is differentiated as a whole."""
        self._all.enter_context(held_whole(self.anatomy.stack))

    def close(self) -> None:
        self.let_go()
        self._all.close()

    def let_go(self) -> None:
        self._held.close()
        self._block, self._tensors = None, {}
        if not self.in_place:
            self._parts.clear()


def widened(module: nn.Module, precision: Precision) -> Tensors:
    """The module's parameters and buffers in a precision; empty where that changes none of them."""
    tensors = dict(itertools.chain(module.named_parameters(), module.named_buffers()))
    with torch.no_grad():
        precise = {name: precision(tensor) for name, tensor in tensors.items()}
    return {} if all(precise[name] is tensors[name] for name in tensors) else precise
