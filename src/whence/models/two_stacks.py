"""Both stacks of an encoder-decoder as one chain of functions, over the states of both texts side by side.

While the encoder works the decoder's tokens wait; while the decoder works the encoder's do, past the encoder's final
norm, and every one of its blocks reads them. So the chain has the encoder's blocks and then the decoder's, and whatever
is pushed or pulled through it goes from either text.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map

from whence.models import capture
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.block_weights import BlockWeights, widened
from whence.models.frozen import FrozenBlock
from whence.models.hooks import Reached, here
from whence.models.pieces import device_of, held
from whence.models.stack import kept
from whence.models.weights import first

Joint = Float[Tensor, "t m"]  # the encoder's tokens, then the decoder's
OfBoth = Callable[[Tensor, Tensor], Tensor]  # of a block's own states, and of what the encoder gave, with a batch axis


@dataclass
class Recorder:
    """Keeps how every block of both stacks was called, up to a depth counted through both."""

    anatomy: Anatomy
    depth: int
    weights: tuple[BlockWeights, BlockWeights]
    source: Tensor | None = None
    _called: list[tuple[nn.Module, OfBoth, Joint, Joint]] = field(default_factory=list)
    _open: tuple[OfBoth, Tensor] | None = None

    @classmethod
    @contextmanager
    def of(cls, anatomy: Anatomy, depth: int, precision: Callable[[Any], Any]) -> Iterator["Recorder"]:
        assert anatomy.encoder is not None
        weights = BlockWeights(anatomy.encoder, precision), BlockWeights(anatomy, precision)
        with closing(weights[0]), closing(weights[1]), held(*anatomy.encoder.finishing):
            yield cls(anatomy, depth, weights)

    def record(self, batch: Batch) -> tuple[FrozenBlock, ...]:
        """The chain's steps of one pass."""
        with ExitStack() as hooks, suppress(Reached):
            assert self.anatomy.encoder is not None
            for block in {*self.anatomy.encoder.blocks, *self.anatomy.blocks}:
                hooks.callback(block.register_forward_pre_hook(here(self._begin), with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(here(self._end)).remove)
            encoder = self.anatomy.encoder.stack
            hooks.callback(encoder.register_forward_hook(here(self._encoded)).remove)
            capture.run(capture.reader(self.anatomy, batch), batch, **capture.arguments_of(self.anatomy))
        return self._steps()[: self.depth]

    def at_once(self, states: Joint) -> Joint:
        """All blocks as one function."""
        assert self.source is not None
        source, prefix = states[: self.source.shape[1]], states[self.source.shape[1] :]
        for _, function, *_ in self._called[: self._border]:
            source = function(source, source)
        finished = self._finish(source)[None]
        for _, function, *_ in self._called[self._border :]:
            prefix = function(prefix, finished)
        return torch.cat([finished[0], prefix])

    @property
    def _border(self) -> int:
        """How many blocks the encoder has."""
        assert self.anatomy.encoder is not None
        return self.anatomy.encoder.layers

    def _encoded(self, module: nn.Module, args: tuple, output: Any) -> None:
        self.source = output[0]

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = (args[0] if args else kwargs["hidden_states"]).to(device_of(block))
        self._open = self._function(block, args[1:], kwargs), self._alone(states)

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        assert self._open is not None
        self._called.append((block, *self._open, self._alone(first(output))))
        if len(self._called) >= max(self.depth, self._border + 1):
            raise Reached

    def _function(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> OfBoth:
        """The block as a function of its own states and of what the encoder gave, its other inputs as in the pass."""
        weights, source = self._weights(len(self._called)), self.source
        rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
        held = tree_map(
            lambda value: _SOURCE if value is source and value is not None else kept(value, weights.precision),
            (args, rest),
        )

        def function(states: Tensor, source: Tensor) -> Tensor:
            others, keywords = tree_map(lambda value: source if value is _SOURCE else kept(value), held)
            inputs, own = (states[None], *others), weights.of(block)
            output = functional_call(block, own, inputs, keywords) if own else block(*inputs, **keywords)
            return first(output)[0]

        return function

    def _weights(self, place: int) -> BlockWeights:
        return self.weights[int(place >= self._border)]

    def _alone(self, states: Tensor) -> Joint:
        return self.weights[0].precision(states[0])

    def _steps(self) -> tuple[FrozenBlock, ...]:
        """Every block as a function of all states, its own moved and the others as they are."""
        assert self.source is not None
        source, prefix = self._alone(self.source), self._called[self._border][2]
        steps = []
        for place, (block, function, states, output) in enumerate(self._called):
            if place < self._border:
                last = place == self._border - 1
                joint = _in_encoder(function, self._finish if last else _as_it_is, len(states))
                before, after = (states, prefix), (source if last else output, prefix)
            else:
                joint, before, after = _in_decoder(function, len(source)), (source, states), (source, output)
            steps.append(FrozenBlock(block, joint, self._weights(place), torch.cat(before), torch.cat(after), None))
        return tuple(steps)

    def _finish(self, states: Tensor) -> Tensor:
        """The encoder's final norm, in the precision of the chain."""
        assert self.anatomy.encoder is not None
        for module in self.anatomy.encoder.finishing:
            states = functional_call(module, widened(module, self.weights[0].precision), (states,))
        return states


_SOURCE = object()  # stands for what the encoder gave among the arguments of a block


def _as_it_is(states: Tensor) -> Tensor:
    return states


def _in_encoder(function: OfBoth, finish: Callable[[Tensor], Tensor], count: int) -> Callable[[Joint], Joint]:
    return lambda states: torch.cat([finish(function(states[:count], states[:count])), states[count:]])


def _in_decoder(function: OfBoth, count: int) -> Callable[[Joint], Joint]:
    return lambda states: torch.cat([states[:count], function(states[count:], states[None, :count])])
