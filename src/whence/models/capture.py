"""One forward pass of any model, hooked: every block's attention, values and residual stream, layer by layer.

The seam is transformers' own `AttentionInterface`: one registered function calls the model file's own
`eager_attention_forward` and records what went in and out. The mask function is registered too; without it a causal
mask vanishes silently. Hooks on blocks and projections add the residual stream. Everything is restored afterwards.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from einops import einsum
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from whence.errors import Unsupported
from whence.models.anatomy import INTERFACE, PRODUCTS, Anatomy
from whence.models.arguments import accepted, arguments
from whence.models.block import Batch, Block, Cross, Kept, Trace
from whence.models.hooks import Reached, here
from whence.models.pieces import all_there, device_of, held_whole
from whence.models.products import overheard
from whence.models.queries import Attending, attend, chunked, mask_for_chunks
from whence.models.unchanged import unchanged
from whence.models.weights import first

SEAM = "whence"
IMPLEMENTATIONS = {INTERFACE: SEAM, PRODUCTS: "eager"}
FEW = 32
Listener = Callable[[nn.Module, Any, Tensor, Tensor | None, Tensor], Tensor | None]
Edit = Callable[[int, Tensor], Tensor | None]
_listener: ContextVar[Listener] = ContextVar("listener")
_lock = threading.RLock()


@dataclass(frozen=True, eq=False)
class Call:
    """How a block was called: with states of this type, and what else."""

    block: nn.Module
    dtype: torch.dtype
    rest: tuple
    names: dict[str, Any]

    @classmethod
    def of(cls, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> "Call":
        states = args[0] if args else kwargs["hidden_states"]
        return cls(block, states.dtype, args[1:], {k: value for k, value in kwargs.items() if k != "hidden_states"})


def trace(anatomy: Anatomy, batch: Batch, logits: bool = False, queries: int | None = None) -> Trace[Block]:
    """The whole pass, every block kept."""
    return walk(anatomy, batch, lambda block: block, logits, queries=queries)


def walk(
    anatomy: Anatomy,
    batch: Batch,
    visit: Callable[[Block], Kept],
    logits: bool = False,
    edit: Edit = lambda layer, weights: None,
    queries: int | None = None,
    calls: list[Call] | None = None,
) -> Trace[Kept]:
    """Runs the model once and keeps visit(block) of every block; one block's attention is alive at a time.

    `edit(layer, weights)` may return attention weights to use instead; None keeps the model's. With `queries` attention
    is computed for so many at a time, and blocks have `rows` instead of it. How every block was called is added to
    `calls`.
    """
    own = batch.prefix
    recorder = _Recorder(anatomy, visit, own.ids.shape[1], edit, calls=calls)
    outputs: list[Tensor] = []
    with borrowed(anatomy.model, anatomy.seam), torch.no_grad(), chunked(queries), recorder.listening() as hooks:
        hooks.callback(
            anatomy.stack.register_forward_hook(here(lambda _, __, output: outputs.append(output[0]))).remove
        )
        result = run(anatomy.model if logits else reader(anatomy, batch), batch, **arguments_of(anatomy))
    if recorder.embedding is None:
        raise Unsupported(_unread(anatomy, "computes its blocks without calling them as modules"))
    if outputs[-1].shape[:2] != own.ids.shape:
        raise Unsupported(_unread(anatomy, "does not give one state for every token"))
    return Trace(batch, recorder.embedding, tuple(recorder.kept), outputs[-1], result if logits else None)


def visit_blocks(
    anatomy: Anatomy,
    batch: Batch,
    visit: Callable[[Block], object],
    last: int,
    queries: int | None = None,
    finished: Callable[[Tensor], None] | None = None,
) -> None:
    """Calls visit(block) up to layer `last` and stops the pass after its attention, so its output is NaN.

    With `finished`, which is given what the stack gives in the end, it is called for all blocks and nothing stops.
    """
    recorder = _Recorder(anatomy, visit, batch.prefix.ids.shape[1], last=last if finished is None else None)
    with (
        borrowed(anatomy.model, anatomy.seam),
        torch.no_grad(),
        chunked(queries),
        recorder.listening() as hooks,
        suppress(Reached),
    ):
        if finished is not None:
            hooks.callback(anatomy.stack.register_forward_hook(here(lambda _, __, output: finished(output[0]))).remove)
        run(reader(anatomy, batch), batch, **arguments_of(anatomy))


def visit_again(
    anatomy: Anatomy, batch: Batch, visit: Callable[[Block], object], layer: int, call: Call, states: Tensor
) -> None:
    """Calls visit(block) for the block of one layer alone, called again as it was, with the states that it read."""
    recorder = _Recorder(anatomy, visit, batch.prefix.ids.shape[1], first=layer)
    batched = states.to(call.dtype).unsqueeze(anatomy.batch_axis)
    with (
        borrowed(anatomy.model, anatomy.seam),
        torch.no_grad(),
        recorder.listening(),
        threads_for(batch.ids.numel()),
    ):
        call.block(batched, *call.rest, **call.names)


def _unread(anatomy: Anatomy, why: str) -> str:
    where = "the page Models of the documentation lists the families that work"
    return f"{type(anatomy.model).__name__} {why}, so it cannot be read; {where}."


def arguments_of(anatomy: Anatomy) -> dict[str, Any]:
    own_positions = anatomy.row is not None and anatomy.row.computes_positions
    return {"own_positions": own_positions} | dict(anatomy.outside.arguments if anatomy.outside is not None else {})


def reader(anatomy: Anatomy, batch: Batch) -> PreTrainedModel:
    """What has to be run for the states of a batch: the stack, or the model around it where that alone takes them all
    (pixels, which a decoder's stack does not read; the texts of two stacks).
    """
    if batch.split is not None:
        return anatomy.model.base_model
    return anatomy.stack if (batch.inputs or {}).keys() <= accepted(anatomy.stack) else anatomy.model


def run(model: PreTrainedModel, batch: Batch, own_positions: bool = False, **extra: Any) -> Tensor:
    """The model's first output."""
    inputs = forward_inputs(model, batch, own_positions, **extra)
    with threads_for(batch.ids.numel()), all_there(model):
        return model(**inputs)[0]


def forward_inputs(model: PreTrainedModel, batch: Batch, own_positions: bool = False, **extra: Any) -> dict[str, Any]:
    """The inputs of a forward pass that the model accepts; one around a decoder passes on that nothing is cached."""
    inputs = arguments(model, batch, own_positions) | extra
    names = accepted(model) | ({"use_cache"} if "input_ids" in (batch.inputs or {}) else set())
    return {name: value for name, value in inputs.items() if name in names}


@contextmanager
def threads_for(tokens: int) -> Iterator[None]:
    """One thread for a few tokens: on a busy machine several spend their time waiting for each other (8x here)."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if tokens <= FEW else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _uncompiled(modules: Iterable[nn.Module]) -> AbstractContextManager:
    """Turns model.compile() off: every pass has different hooks, so each would compile again, for a minute."""
    compiled = any(module._compiled_call_impl is not None for module in modules)
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


@contextmanager
def borrowed(model: PreTrainedModel, seam: str | None = INTERFACE) -> Iterator[None]:
    """The model in eval mode, its attention hooked; restored exactly afterwards, also after an error.

    Its state is saved under the lock, so that another thread's changes are not taken for the original.
    """
    with _lock:
        modules = list(model.modules())  # once: a walk takes longer than anything else here
        with _uncompiled(modules), torch.autocast(device_of(model).type, enabled=False), unchanged(modules):
            if any(module.training for module in modules):
                model.eval()
            if seam is not None:
                attend_by(modules, IMPLEMENTATIONS[seam])
            with overheard(model, _notify) if seam == PRODUCTS else nullcontext():
                yield


def attend_by(modules: Iterable[nn.Module], implementation: str) -> None:
    """As `set_attn_implementation`, also for families outside the interface, which that refuses."""
    for config in _configs(modules):
        config._attn_implementation = implementation


def _configs(modules: Iterable[nn.Module]) -> list[Any]:
    configs = {id(part.config): part.config for part in modules if isinstance(part, PreTrainedModel)}
    return list(configs.values())


@contextmanager
def hearing(listener: Listener) -> Iterator[None]:
    """Every attention computed inside calls listener(module, weights, values, mask, head outputs).

    What it returns, unless None, replaces the weights.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _ignore(*attention: Any) -> None:
    """The listener in passes of other threads."""


def _notify(*attention: Any) -> Tensor | None:
    return _listener.get(_ignore)(*attention)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """The registered attention function: the model file's own eager attention, with a listener."""
    attending = Attending(_own_eager(module), module, query, key, value, attention_mask, kwargs)
    output, weights = attend(attending)
    if isinstance(weights, Attending):
        _notify(module, weights, value, None, output)
        return output, None
    replaced = _notify(module, weights, value, attention_mask, output)
    if replaced is None:
        return output, weights
    return head_outputs(replaced, value), replaced


def head_outputs(weights: Tensor, grouped_values: Tensor) -> Tensor:
    """A V for every head, in the layout of transformers' attention functions."""
    values = grouped_values.repeat_interleave(weights.shape[1] // grouped_values.shape[1], dim=1)
    return einsum(weights, values, "b h t s, b h s d -> b t h d")


def _own_eager(module: nn.Module) -> Callable:
    for cls in type(module).__mro__:
        eager = vars(sys.modules[cls.__module__]).get("eager_attention_forward")
        if eager is not None:
            return eager
    raise Unsupported(f"{type(module).__name__} has no eager attention of its own, so its attention cannot be read.")


AttentionInterface.register(SEAM, _attend)
AttentionMaskInterface.register(SEAM, mask_for_chunks)


@dataclass
class _Recorder:
    """Collects one block at a time from the hooks and hands it to `visit` when the block is done."""

    anatomy: Anatomy
    visit: Callable[[Block], Any]
    tokens: int
    edit: Edit = lambda layer, weights: None
    last: int | None = None
    first: int = 1
    calls: list[Call] | None = None
    kept: list[Any] = field(default_factory=list)
    embedding: Tensor | None = None
    _open: dict[str, Any] = field(default_factory=dict)
    _weights: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def listening(self) -> Iterator[ExitStack]:
        with self._weights, ExitStack() as hooks, hearing(self._attended):
            for block in set(self.anatomy.blocks):
                hooks.callback(block.register_forward_pre_hook(here(self._begin), with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(here(self._end)).remove)
                if (outside := self.anatomy.outside) is not None:
                    listener = here(outside.listener(block, self._attended, self._project))
                    attention = block.get_submodule(outside.attention)
                    hooks.callback(attention.register_forward_hook(listener, with_kwargs=True).remove)
            for projection in set(self.anatomy.projections.values()):
                hooks.callback(projection.register_forward_hook(here(self._project)).remove)
            for projection in set(self.anatomy.crossing.values()):
                hooks.callback(projection.register_forward_hook(here(self._cross)).remove)
            yield hooks

    @property
    def _layer(self) -> int:
        """The layer of the block that is computed."""
        return self.first + len(self.kept)

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if self.calls is not None:
            self.calls.append(Call.of(block, args, kwargs))
        states = self._batch_first(args[0] if args else kwargs["hidden_states"])
        if self.embedding is None:
            self.embedding = states
        self._weights.enter_context(held_whole(block))
        self._open = {"block": block, "input": states.to(device_of(block)), "projected": None}

    def _attended(
        self, module: nn.Module, weights: Tensor | Attending, values: Tensor, mask: Tensor | None, heads: Tensor
    ) -> Tensor | None:
        # a block may have no single attention: DiffLlama has two in each, SqueezeBERT calls none
        if not self.anatomy.attending or "input" not in self._open:
            return None
        if isinstance(weights, Attending):
            self._open |= self._of_rows(module, weights) | {"grouped_values": values, "mask": mask}
            return None
        if self.anatomy.encoder is not None and "attention" in self._open:
            self._open["cross"] = Cross(weights, values, mask, None)
            return None
        self._check_weights(module, weights.shape[-2:])
        replaced = self.edit(self._layer, weights)
        self._open |= {"attention": weights if replaced is None else replaced, "grouped_values": values, "mask": mask}
        return replaced

    def _of_rows(self, module: nn.Module, attending: Attending) -> dict[str, Any]:
        """In place of the weights."""
        query, key = attending.query, attending.key
        self._check_weights(module, torch.Size((query.shape[2], key.shape[2])))
        nothing = query.new_empty(*query.shape[:3], 0)
        return {"attention": nothing, "margins": attending.margins, "rows": attending}

    def _check_weights(self, module: nn.Module, pairs: torch.Size) -> None:
        """Loading probed a few tokens; BigBird attends to long texts differently, by blocks of tokens."""
        if pairs != (self.tokens, self.tokens) or "attention" in self._open:
            raise Unsupported(
                f"In {type(self.anatomy.model).__name__} a text of {self.tokens} tokens is not read by one attention of"
                f" all tokens to all, as a short one is ({type(module).__name__}); give shorter texts."
            )

    def _project(self, module: nn.Module, args: tuple, output: Tensor) -> None:
        factors = self.anatomy.branch_scale(self._open["block"]) if "block" in self._open else None
        self._open["projected"] = output if factors is None else output * factors
        if self.anatomy.encoder is None:
            self._end_early(output)

    def _cross(self, module: nn.Module, args: tuple, output: Tensor) -> None:
        if "cross" in self._open:  # reading weights may run a projection again
            self._open["cross"] = replace(self._open["cross"], projected=output)
            self._end_early(output)

    def _end_early(self, output: Tensor) -> None:
        if self._layer == self.last and "attention" in self._open:
            self._close(output.new_tensor(torch.nan).expand_as(self._open["input"]))

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        self._close(self._batch_first(first(output)))

    def _close(self, states: Tensor) -> None:
        recorded, self._open = self._open, {}  # first: reading the parts may run them and fire the hooks
        if "attention" not in recorded:
            recorded |= _nothing_attended(states)
        parts, layer = self.anatomy.parts(recorded.pop("block")), self._layer
        self.kept.append(self.visit(Block(layer=layer, output=states, parts=parts, **recorded)))
        self._weights.close()
        if layer == self.last:
            raise Reached

    def _batch_first(self, states: Tensor) -> Tensor:
        return states.movedim(self.anatomy.batch_axis, 0)


def _nothing_attended(states: Tensor) -> dict[str, Any]:
    """An attention with no heads."""
    rows, tokens, _ = states.shape
    none = {
        "attention": states.new_zeros(rows, 0, tokens, tokens),
        "grouped_values": states.new_zeros(rows, 0, tokens, 0),
    }
    return none | {"mask": None}
