"""All blocks as one function of layer 0, by the model's own code, for models with paths beside the residual stream.

Gemma 4 projects an input for every layer from the embeddings, and its late layers read keys and values of earlier ones;
Zamba reads the embeddings again. A product of blocks, each a function of its states alone, would miss those paths. The
whole stack, differentiated as it is, misses none.
"""

import copy
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call, jvp, vjp, vmap
from torch.utils._pytree import tree_leaves, tree_map

from whence.models import capture
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.functions import written_out
from whence.models.hooks import Reached, here
from whence.models.sizes import Sizes
from whence.models.weights import first

Precision = Callable[[Any], Any]  # of tensors: that of the model, or a higher one


@dataclass(frozen=True, eq=False)
class Stack:
    """Every layer's states as a function of the output of `entry`; of the first block's input where that is None.

    `weights` are the model's in a higher precision; empty for its own.
    """

    anatomy: Anatomy
    batch: Batch
    entry: nn.Module | None
    states: Float[Tensor, "s m"]
    weights: dict[str, Tensor]

    def layers(self, states: Float[Tensor, "s m"], depth: int) -> Float[Tensor, "layer t m"]:
        """The states after each of the first `depth` blocks."""
        return torch.stack([output.squeeze(self.anatomy.batch_axis) for output in self.outputs(states, depth)])

    def outputs(self, states: Float[Tensor, "s m"], depth: int) -> list[Tensor]:
        """The same as the blocks gave them, so that derivatives by them can be taken."""
        outputs = list[Tensor]()

        def ended(block: nn.Module, args: tuple, output: Any) -> None:
            outputs.append(first(output))
            if len(outputs) == depth:
                raise Reached

        with ExitStack() as hooks:
            hooks.callback(self._enter(states.unsqueeze(self.anatomy.batch_axis)).remove)
            for block in set(self.anatomy.blocks):
                hooks.callback(block.register_forward_hook(here(ended)).remove)
            with suppress(Reached):
                self._run()
        return outputs

    def last(self, states: Float[Tensor, "s m"]) -> Float[Tensor, "t m"]:
        return self.layers(states, self.anatomy.layers)[-1]

    def push(self, tangents: Float[Tensor, "k t m"], depth: int) -> Float[Tensor, "k layer t m"]:
        """J v (JVP) of every layer up to a depth, for every tangent of layer 0."""
        return vmap(lambda tangent: jvp(self._until(depth), (self.states,), (tangent,))[1])(tangents)

    def pull_from(self, layer: int, cotangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        """u^T J (VJP) for every cotangent of a layer."""
        back = vjp(lambda states: self.layers(states, layer)[-1], self.states)[1]
        return vmap(lambda cotangent: back(cotangent)[0])(cotangents)

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest tensor made for one tangent."""
        with Sizes() as sizes:
            self.push(torch.ones_like(self.states)[None], self.anatomy.layers)
        return sizes.largest

    def _until(self, depth: int) -> Callable[[Tensor], Tensor]:
        return lambda states: self.layers(states, depth)

    def _enter(self, states: Tensor) -> Any:
        if self.entry is not None:
            return self.entry.register_forward_hook(here(lambda *_: states))
        calls: list[nn.Module] = []

        def begin(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
            calls.append(block)
            if len(calls) > 1:  # ALBERT runs the same block several times
                return None
            return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

        return self.anatomy.blocks[0].register_forward_pre_hook(here(begin), with_kwargs=True)

    def _run(self) -> None:
        stack = self.anatomy.stack
        inputs = capture.forward_inputs(stack, self.batch, **capture.arguments_of(self.anatomy))
        with capture.threads_for(self.batch.ids.numel()):
            functional_call(stack, self.weights, (), inputs) if self.weights else stack(**inputs)


def has_side_paths(anatomy: Anatomy, batch: Batch) -> bool:
    """Whether a block's output depends on the embeddings with its own states held fixed.

    A pass with autograd tells whether any block has other inputs that depend on them (or on weights); only then does
    a second pass carry a tangent from the embeddings to those blocks.
    """
    with suppress(Exception):  # `verify` reports what has no derivative
        # nothing is differentiated: what a backward pass would need of the weights is let go at once
        with torch.enable_grad(), saved_tensors_hooks(_let_go, _let_go):
            side_inputs = _any_block(anatomy, batch, lambda table: table.detach().requires_grad_(), _has_graph)
        if side_inputs:
            with torch.no_grad(), forward_ad.dual_level():
                return _any_block(anatomy, batch, _moved, _has_side_path)
    return False


def _let_go(tensor: Tensor) -> Tensor:
    return tensor.new_empty(0)


def _any_block(anatomy: Anatomy, batch: Batch, embed: Callable[[Tensor], Tensor], test: Callable[..., bool]) -> bool:
    """Whether test(block, its states, its other inputs) holds for any block, in a pass with changed embeddings."""
    results: list[bool] = []

    def begin(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        rest = {name: value for name, value in kwargs.items() if args or name != "hidden_states"}
        results.append(test(block, states, (args[1:], rest)))

    table = table_of(anatomy)
    if table is None:
        return False
    with ExitStack() as hooks, capture.borrowed(anatomy.model, anatomy.seam), written_out(anatomy.model):
        anatomy.config._experts_implementation = "eager"  # the grouped product has no forward derivative (torch 2.13)
        hooks.callback(table.register_forward_hook(here(lambda _, __, output: embed(output).clone())).remove)
        for block in set(anatomy.blocks):
            hooks.callback(block.register_forward_pre_hook(here(begin), with_kwargs=True).remove)
        capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
    return any(results)


def _has_graph(block: nn.Module, states: Tensor, beside: Any) -> bool:
    return any(tensor.requires_grad for tensor in _tensors(beside))


def _has_side_path(block: Any, states: Tensor, beside: Any) -> bool:
    if not any(map(_moves, _tensors(beside))):
        return False
    args, kwargs = tree_map(kept, beside)
    return _moves(first(block.forward(forward_ad.unpack_dual(states).primal, *args, **kwargs)))


def kept(value: Any, precision: Precision = lambda tensor: tensor) -> Any:
    """Copies mappings by which blocks pass things on to later ones, so that they stay as the block found them."""
    if not isinstance(value, MutableMapping):
        return precision(value)
    copied = copy.copy(value)
    copied.update({name: tree_map(precision, inner) for name, inner in value.items()})
    return copied


def table_of(anatomy: Anatomy) -> nn.Module | None:
    with suppress(NotImplementedError):  # CANINE embeds characters by several hashes
        return anatomy.stack.get_input_embeddings()
    return None


def _moved(embeddings: Tensor) -> Tensor:
    return forward_ad.make_dual(embeddings, torch.ones_like(embeddings))


def _moves(tensor: Tensor) -> bool:
    tangent = forward_ad.unpack_dual(tensor).tangent
    return tangent is not None and bool(tangent.any())


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors inside, also in mappings by which blocks pass things on to later ones."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, MutableMapping):
            yield from _tensors(list(leaf.values()))
        elif isinstance(leaf, Tensor):
            yield leaf
