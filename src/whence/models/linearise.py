"""One sentence's forward pass as a chain of functions, one per block, that `tangent` can differentiate."""

import importlib
import itertools
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp, vmap
from torch.utils._pytree import tree_map

from whence.errors import BadInput, Unsupported
from whence.models import capture
from whence.models.anatomy import INTERFACE, Anatomy
from whence.models.block import Batch
from whence.models.block_weights import BlockWeights, widened
from whence.models.frozen import (
    PRECISE,
    SEAM,
    Attended,
    FrozenBlock,
    FrozenBlocks,
    Function,
    answering,
    own_attention,
    precise,
)
from whence.models.functions import written_out
from whence.models.hooks import Reached, here
from whence.models.pieces import device_of
from whence.models.precision import HALF
from whence.models.stack import Precision, Stack, kept
from whence.models.two_stacks import Recorder
from whence.models.weights import first


@contextmanager
def linearised(
    anatomy: Anatomy,
    batch: Batch,
    embedding_sum: bool = False,
    depth: int | None = None,
    precision: Precision = precise,
    attending: bool = True,
) -> Iterator[FrozenBlocks]:
    """The forward pass of one sentence, ready to be differentiated; the model is restored when the context ends.

    With `depth` the pass stops after that many blocks: nothing of later ones is computed or kept. Without `attending`
    no attention is kept, and a step has its block's own code alone.
    """
    _check(anatomy, batch)
    _import_quietly()
    if anatomy.encoder is not None:
        with _of_both(anatomy, batch, embedding_sum, depth, precision, attending) as chain:
            yield chain
        return
    weights = BlockWeights(anatomy, precision)
    recorder = _Recorder(anatomy, anatomy.layers if depth is None else depth, weights)
    with _borrowed(anatomy), torch.no_grad(), closing(weights):
        if anatomy.side_paths:
            weights.keep_all()
        with recorder.listening(), suppress(Reached):
            capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
        steps = tuple(_attending(step) if attending else step for step in recorder.steps)
        _check_chain(anatomy, steps)
        _check_tokens(anatomy, steps, batch)
        for step in {step.attended is None: step for step in reversed(steps) if attending}.values():
            _check_derivative(anatomy, step)
        start = _start(anatomy, batch, recorder) if embedding_sum else None
        stack = _stack(anatomy, batch, recorder) if anatomy.side_paths else None
        # the tokens of a picture may see each other (Gemma 3)
        yield FrozenBlocks(steps, anatomy.causal and batch.inputs is None, start, stack)


@contextmanager
def _of_both(
    anatomy: Anatomy, batch: Batch, embedding_sum: bool, depth: int | None, precision: Precision, attending: bool
) -> Iterator[FrozenBlocks]:
    """The same of two stacks, as one chain over both texts."""
    if embedding_sum:
        raise Unsupported(
            "Two stacks have two sums of embeddings, so nothing is derived by them; ask for the start 'embedding'."
        )
    with _borrowed(anatomy), torch.no_grad(), Recorder.of(anatomy, depth or anatomy.chained, precision) as recorder:
        steps = recorder.record(batch)
        _check_chain(anatomy, steps)
        _check_tokens(anatomy, steps, batch)
        for step in (steps[0], steps[-1]) if attending else ():
            _check_derivative(anatomy, step)
        at_once = recorder.at_once if steps[0].states.dtype in HALF else None
        yield FrozenBlocks(steps, causal=False, start=None, at_once=at_once)


def _import_quietly() -> None:
    """JVP decompositions are compiled at their first import, by a function that torch 2.13 calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


@contextmanager
def _borrowed(anatomy: Anatomy) -> Iterator[None]:
    with (
        capture.borrowed(anatomy.model, anatomy.seam),
        capture.hearing(lambda *attention: None),
        answering(own_attention),
        written_out(anatomy.model),
    ):
        if anatomy.seam == INTERFACE:
            capture.attend_by(anatomy.model.modules(), SEAM)
        anatomy.config._experts_implementation = "eager"  # the grouped product has no forward derivative (torch 2.13)
        yield


@dataclass
class _Recorder:
    """Keeps how every block was called, the last norm before the first block, and the module that output its states."""

    anatomy: Anatomy
    depth: int
    weights: BlockWeights
    steps: list[FrozenBlock] = field(default_factory=list)
    norm: nn.Module | None = None
    entry: nn.Module | None = None
    _outputs: list[tuple[nn.Module, Tensor]] = field(default_factory=list)
    _open: tuple[Function, Tensor] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        with ExitStack() as hooks:
            for block in set(self.anatomy.blocks):
                hooks.callback(block.register_forward_pre_hook(here(self._begin), with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(here(self._end)).remove)
            for module in self.anatomy.stack.modules():
                if type(module).__name__.endswith("Norm"):
                    hooks.callback(module.register_forward_pre_hook(here(self._normed)).remove)
                if self.anatomy.side_paths:
                    hooks.callback(module.register_forward_hook(here(self._record)).remove)
            yield

    def _normed(self, module: nn.Module, args: tuple) -> None:
        """Only norms of one state per token: Gemma 4 also norms an input for every layer and token."""
        if self._before and args[0].ndim == 3:
            self.norm = module

    def _record(self, module: nn.Module, args: tuple, output: Any) -> None:
        if self._before and isinstance(output, Tensor):
            self._outputs.append((module, output))

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        if self._before:
            self.entry = next((module for module, output in self._outputs if _same(output, states)), None)
        states = states.to(device_of(block))
        self._open = (_function(self.anatomy, block, args[1:], kwargs, self.weights), self._alone(states))

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        assert self._open is not None
        function, states = self._open
        self.steps.append(FrozenBlock(block, function, self.weights, states, self._alone(first(output)), None))
        if len(self.steps) == self.depth:
            raise Reached

    @property
    def _before(self) -> bool:
        """Whether no block has begun."""
        return self._open is None

    def _alone(self, states: Tensor) -> Float[Tensor, "t m"]:
        return self.weights.precision(states.squeeze(self.anatomy.batch_axis))


def _same(output: Tensor, states: Tensor) -> bool:
    return output is states or (output.shape == states.shape and torch.equal(output, states))


def _attending(step: FrozenBlock) -> FrozenBlock:
    """The step with its attention's inputs and weights; unchanged when it does not attend through the interface."""
    attentions: list[Attended] = []

    def answer(module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
        output, weights = own_attention(module, query, key, value, *args, **kwargs)
        attentions.append(_attended(query, key, value, weights, kwargs))
        return output, weights

    with answering(answer):
        step.block(step.states)
    return replace(step, attended=attentions[0]) if len(attentions) == 1 else step


def _attended(query: Tensor, key: Tensor, value: Tensor, weights: Tensor, settings: dict[str, Any]) -> Attended:
    query, key, value, weights = (tensor[0] for tensor in (query, key, value, weights))
    query, weights = (rearrange(tensor, "(g r) t x -> g r t x", g=len(key)) for tensor in (query, weights))
    scaling, softcap = settings.get("scaling"), settings.get("softcap")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    gain = weights * scaling
    if softcap is not None:
        scores = torch.einsum("grtd,gsd->grts", query, key) * scaling
        gain = gain * (1 - torch.tanh(scores / softcap).square())
    return Attended(query, key, value, weights, gain, weights @ value[:, None])


def _function(
    anatomy: Anatomy, block: nn.Module, args: tuple, kwargs: dict[str, Any], weights: BlockWeights
) -> Function:
    """The block as a function of one sentence's states, its other inputs as in the pass."""
    rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
    args, rest = tree_map(lambda value: kept(value, weights.precision), (args, rest))
    axis = anatomy.batch_axis

    def function(states: Tensor) -> Tensor:
        others, keywords = tree_map(kept, (args, rest))
        inputs, own = (states.unsqueeze(axis), *others), weights.of(block)
        output = functional_call(block, own, inputs, keywords) if own else block(*inputs, **keywords)
        return first(output).squeeze(axis)

    return function


def _stack(anatomy: Anatomy, batch: Batch, recorder: _Recorder) -> Stack:
    weights = widened(anatomy.stack, recorder.weights.precision)
    return Stack(anatomy, batch, recorder.entry, recorder.steps[0].states, weights)


def _start(anatomy: Anatomy, batch: Batch, recorder: _Recorder) -> Float[Tensor, "s w m"] | None:
    """The Jacobian of layer 0 by the sum of the embeddings, which the last norm before the blocks reads; None where
    layer 0 does not depend on it.
    """
    norm, sums = recorder.norm, list[Tensor]()
    if norm is None:
        return None
    with ExitStack() as hooks:
        hooks.callback(norm.register_forward_pre_hook(here(lambda _, args: sums.append(args[0]))).remove)
        _until_blocks(anatomy, batch)

    def layer0(total: Tensor) -> Tensor:
        with ExitStack() as hooks:
            replace = here(lambda _, args: (total[None], *args[1:]))
            hooks.callback(norm.register_forward_pre_hook(replace).remove)
            return recorder.weights.precision(_until_blocks(anatomy, batch))

    total = sums[0][0]
    basis = torch.eye(total.shape[-1], dtype=total.dtype, device=total.device)
    directions = basis[:, None].expand(-1, len(total), -1)
    jacobian = vmap(lambda direction: jvp(layer0, (total,), (direction,))[1])(directions)
    return rearrange(jacobian, "w s m -> s w m") if bool(jacobian.any()) else None


def _until_blocks(anatomy: Anatomy, batch: Batch) -> Float[Tensor, "s m"]:
    states: list[Tensor] = []

    def stop(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states.append(args[0] if args else kwargs["hidden_states"])
        raise Reached

    handle = anatomy.blocks[0].register_forward_pre_hook(here(stop), with_kwargs=True)
    try:
        with suppress(Reached):
            capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
    finally:
        handle.remove()
    return states[0].squeeze(anatomy.batch_axis)


def _check(anatomy: Anatomy, batch: Batch) -> None:
    if len(batch.ids) != 1 or not bool(batch.mask.all()):
        raise BadInput("A Jacobian is of one sentence without padding; give the sentences one at a time.")
    if odd := quantised(anatomy):
        raise Unsupported(
            f"The weights of {type(anatomy.model).__name__} are quantised ({', '.join(odd)}), so it has no derivatives;"
            " load it unquantised."
        )


def quantised(anatomy: Anatomy) -> list[str]:
    """The types of weights that are kept in whole numbers or in too few bits to be derived by."""
    return sorted({str(parameter.dtype) for parameter in anatomy.stack.parameters() if parameter.dtype not in PRECISE})


def _check_chain(anatomy: Anatomy, steps: tuple[FrozenBlock, ...]) -> None:
    """Each block reads the output of the one before; otherwise a derivative would miss a path."""
    for layer, (before, after) in enumerate(itertools.pairwise(steps), start=1):
        if not torch.equal(before.output.to(after.states.device), after.states):
            raise Unsupported(
                f"In {type(anatomy.model).__name__} block {layer + 1} does not read what block {layer} gave, so"
                " derivatives through the blocks would miss a path."
            )


def _check_tokens(anatomy: Anatomy, steps: tuple[FrozenBlock, ...], batch: Batch) -> None:
    """BigBird pads a long text to whole blocks of tokens."""
    if (states := len(steps[0].states)) != (tokens := batch.ids.shape[1]):
        raise Unsupported(
            f"{type(anatomy.model).__name__} reads a text of {tokens} tokens as {states} states, so it has no"
            " derivatives by token; give shorter texts."
        )


def _check_derivative(anatomy: Anatomy, step: FrozenBlock) -> None:
    try:
        _ = step.reference
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise Unsupported(
            f"The blocks of {type(anatomy.model).__name__} have no forward derivative ({reason}), so their Jacobian"
            " cannot be had; if they were loaded with custom kernels, load the model without."
        ) from error
