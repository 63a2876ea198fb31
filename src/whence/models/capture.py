"""One forward pass of any model, watched: every block's attention, values and residual stream, handed on layer by
layer.

The seam is transformers' own `AttentionInterface`: one registered function calls the model file's own
`eager_attention_forward` and records what went in and out. The mask function is registered too; without it a causal
mask vanishes silently. Hooks on blocks and projections add the residual stream. All is put back afterwards.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import einsum
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from whence.errors import Unsupported
from whence.models import xlnet
from whence.models.anatomy import INTERFACE, PRODUCTS, Anatomy
from whence.models.arguments import accepted, arguments
from whence.models.block import Batch, Block, Kept, Trace
from whence.models.hooks import here
from whence.models.products import overheard
from whence.models.unchanged import unchanged
from whence.models.weights import first

SEAM = "whence"
IMPLEMENTATIONS = {INTERFACE: SEAM, PRODUCTS: "eager"}
FEW = 32
Heard = Callable[[nn.Module, Tensor, Tensor, Tensor | None, Tensor], Tensor | None]
Edit = Callable[[int, Tensor], Tensor | None]
_heard: ContextVar[Heard] = ContextVar("heard")
_lock = threading.RLock()


def trace(anatomy: Anatomy, batch: Batch, logits: bool = False) -> Trace[Block]:
    """The whole pass, every block kept."""
    return walk(anatomy, batch, lambda block: block, logits)


def walk(
    anatomy: Anatomy,
    batch: Batch,
    visit: Callable[[Block], Kept],
    logits: bool = False,
    edit: Edit = lambda layer, weights: None,
) -> Trace[Kept]:
    """Runs the model once and keeps visit(block) of every block; one block's attention is alive at a time.

    `edit(layer, weights)` may give other attention weights to go on with; None leaves them.
    """
    recorder = _Recorder(anatomy, visit, edit, tokens=batch.ids.shape[1])
    stack = anatomy.stack
    outputs: list[Tensor] = []
    with borrowed(anatomy.model, anatomy.seam), torch.no_grad(), recorder.listening() as hooks:
        hooks.callback(stack.register_forward_hook(here(lambda _, __, output: outputs.append(output[0]))).remove)
        result = run(anatomy.model if logits else stack, batch, **arguments_of(anatomy))
    if recorder.embedding is None:
        raise Unsupported(_unread(anatomy, "computes its blocks without calling them as modules"))
    if outputs[-1].shape[:2] != batch.ids.shape:
        raise Unsupported(_unread(anatomy, "does not give one state for every token"))
    return Trace(batch, recorder.embedding, tuple(recorder.kept), outputs[-1], result if logits else None)


def _unread(anatomy: Anatomy, why: str) -> str:
    where = "the page Models of the documentation lists the families that work"
    return f"{type(anatomy.model).__name__} {why}, so it cannot be read; {where}."


def arguments_of(anatomy: Anatomy) -> dict[str, Any]:
    own_positions = anatomy.row is not None and anatomy.row.computes_positions
    return {"own_positions": own_positions} | (xlnet.ARGUMENTS if anatomy.family == "xlnet" else {})


def run(model: PreTrainedModel, batch: Batch, own_positions: bool = False, **more: Any) -> Tensor:
    """The model's first output."""
    given = arguments(model, batch, own_positions) | more
    names = accepted(model)
    with threads_for(batch.ids.numel()):
        return model(**{name: value for name, value in given.items() if name in names})[0]


@contextmanager
def threads_for(tokens: int) -> Iterator[None]:
    """One thread for a few tokens: on a busy machine several spend their time waiting for each other (8x here)."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if tokens <= FEW else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _uncompiled(model: PreTrainedModel) -> AbstractContextManager:
    """model.compile() without compiling: every pass has other hooks, so each would be compiled anew, for a minute."""
    compiled = any(module._compiled_call_impl is not None for module in model.modules())
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


@contextmanager
def borrowed(model: PreTrainedModel, seam: str | None = INTERFACE) -> Iterator[None]:
    """The model in eval mode, its attention overheard; afterwards exactly as it was, whatever happened.

    Its state is read under the lock: what another thread borrowed is not how the model was.
    """
    with _lock, _uncompiled(model), torch.autocast(model.device.type, enabled=False), unchanged(model):
        model.eval()
        if seam is not None:
            attend_by(model, IMPLEMENTATIONS[seam])
        with overheard(model, _tell) if seam == PRODUCTS else nullcontext():
            yield


def attend_by(model: PreTrainedModel, implementation: str) -> None:
    """As `set_attn_implementation`, also in families that it refuses because they are outside the interface."""
    for config in _configs(model):
        config._attn_implementation = implementation


def _configs(model: PreTrainedModel) -> list[Any]:
    found = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
    return list(found.values())


@contextmanager
def hearing(heard: Heard) -> Iterator[None]:
    """Every attention computed inside calls heard(module, weights, values, mask, head outputs).

    What it gives back, if anything, replaces the weights.
    """
    token = _heard.set(heard)
    try:
        yield
    finally:
        _heard.reset(token)


def _nobody(*heard: Any) -> None:
    """Who listens to the attention of another thread's pass."""


def _tell(*heard: Any) -> Tensor | None:
    return _heard.get(_nobody)(*heard)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The registered attention function: the model file's own eager attention, overheard."""
    output, weights = _own_eager(module)(module, query, key, value, attention_mask, **kwargs)
    replaced = _tell(module, weights, value, attention_mask, output)
    if replaced is None:
        return output, weights
    return head_outputs(replaced, value), replaced


def head_outputs(weights: Tensor, grouped_values: Tensor) -> Tensor:
    """A V for every head, laid out as transformers' attention functions do."""
    values = grouped_values.repeat_interleave(weights.shape[1] // grouped_values.shape[1], dim=1)
    return einsum(weights, values, "b h t s, b h s d -> b t h d")


def _own_eager(module: nn.Module) -> Callable:
    for cls in type(module).__mro__:
        eager = vars(sys.modules[cls.__module__]).get("eager_attention_forward")
        if eager is not None:
            return eager
    raise Unsupported(f"{type(module).__name__} has no eager attention of its own, so its attention cannot be read.")


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """transformers' additive mask, kept finite in float32: its softmax is computed there even in float64 models, and
    the lowest float64 would turn the rows of padding into NaN (transformers 5.22).
    """
    mask = eager_mask(*args, **kwargs)
    return mask.clamp(min=torch.finfo(torch.float32).min) if mask is not None and mask.dtype == torch.float64 else mask


AttentionInterface.register(SEAM, _attend)
AttentionMaskInterface.register(SEAM, _mask)


@dataclass
class _Recorder:
    """Collects one block at a time from the hooks and hands it to `visit` when the block is done."""

    anatomy: Anatomy
    visit: Callable[[Block], Any]
    edit: Edit
    tokens: int
    kept: list[Any] = field(default_factory=list)
    embedding: Tensor | None = None
    _open: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def listening(self) -> Iterator[ExitStack]:
        with ExitStack() as hooks, hearing(self._attended):
            for block in set(self.anatomy.blocks):
                hooks.callback(block.register_forward_pre_hook(here(self._begin), with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(here(self._end)).remove)
                if self.anatomy.family == "xlnet":
                    listener = here(xlnet.listener(block, self._attended, self._project))
                    attention: Any = block.rel_attn
                    hooks.callback(attention.register_forward_hook(listener, with_kwargs=True).remove)
            for projection in set(self.anatomy.projections.values()):
                hooks.callback(projection.register_forward_hook(here(self._project)).remove)
            yield hooks

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = self._batch_first(args[0] if args else kwargs["hidden_states"])
        if self.embedding is None:
            self.embedding = states
        self._open = {"input": states, "projected": None}

    def _attended(
        self, module: nn.Module, weights: Tensor, values: Tensor, mask: Tensor | None, heads: Tensor
    ) -> Tensor | None:
        # what is heard may be no attention of one block: DiffLlama has two in each, SqueezeBERT calls none
        if not self.anatomy.attending or "input" not in self._open:
            return None
        self._check_weights(module, weights)
        replaced = self.edit(len(self.kept) + 1, weights)
        self._open |= {"attention": weights if replaced is None else replaced, "grouped_values": values, "mask": mask}
        return replaced

    def _check_weights(self, module: nn.Module, weights: Tensor) -> None:
        """Loading looked at a few tokens; BigBird attends to long texts in another way, by blocks of tokens."""
        if weights.shape[-2:] != (self.tokens, self.tokens) or "attention" in self._open:
            raise Unsupported(
                f"In {type(self.anatomy.model).__name__} a text of {self.tokens} tokens is not read by one attention of"
                f" all tokens to all, as a short one is ({type(module).__name__}); give shorter texts."
            )

    def _project(self, module: nn.Module, args: tuple, output: Tensor) -> None:
        self._open["projected"] = output

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        states = self._batch_first(first(output))
        found, self._open = self._open, {}  # the parts may be asked what they compute, and would be overheard
        if "attention" not in found:
            found |= _nothing_attended(states)
        parts, layer = self.anatomy.parts(block), len(self.kept) + 1
        self.kept.append(self.visit(Block(layer=layer, output=states, parts=parts, **found)))

    def _batch_first(self, states: Tensor) -> Tensor:
        return states.transpose(0, 1) if self.anatomy.family == "xlnet" else states


def _nothing_attended(states: Tensor) -> dict[str, Any]:
    """The attention of no heads."""
    rows, tokens, _ = states.shape
    none = {
        "attention": states.new_zeros(rows, 0, tokens, tokens),
        "grouped_values": states.new_zeros(rows, 0, tokens, 0),
    }
    return none | {"mask": None}
