"""How small changes of a sentence's states go through a model's blocks: forwards (tangents) and back (cotangents).

Every block is frozen at the states of one pass and becomes a function of its input alone. Its derivative is taken by
`torch.func` through the model's own code, so every family has it. Blocks that attend through transformers' attention
interface can also be cut there: what happens outside the cut happens to each token alone.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp, vmap
from torch.utils._pytree import tree_map
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from whence.errors import BadInput, Unsupported
from whence.models import capture
from whence.models.anatomy import Anatomy
from whence.models.parts import Parts
from whence.models.trace import Batch

SEAM = "whence-tangent"
# states and weights in half precision are taken to float32: a derivative of rounded numbers is noise
PRECISE = {torch.float64: torch.float64} | dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float32)
Function = Callable[[Tensor], Tensor]
_answer: ContextVar[Callable[..., tuple[Tensor, Tensor | None]]] = ContextVar("answer")


@dataclass(frozen=True, eq=False)
class Attended:
    """What one attention read and gave, heads in groups `g` of `r` that share keys and values.

    `gain` is the weight times the slope of the scores, so that dA_ij = gain_ij (d(q_i k_j) - sum_l A_il d(q_i k_l)).
    """

    query: Float[Tensor, "g r t d"]
    key: Float[Tensor, "g t d"]
    value: Float[Tensor, "g t e"]
    weights: Float[Tensor, "g r t t"]
    gain: Float[Tensor, "g r t t"]

    @property
    def mixed(self) -> Float[Tensor, "g r t e"]:
        """What the heads give: sum_j A_ij v_j."""
        return self.weights @ self.value[:, None]


@dataclass(frozen=True, eq=False)
class Step:
    """One block at one sentence's states; without its attention or its parts where they are not known."""

    block: Function
    states: Float[Tensor, "t m"]
    output: Float[Tensor, "t m"]
    attended: Attended | None
    parts: Parts | None

    def push(self, tangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        """J v for every tangent: how the block's output moves with its input."""
        return vmap(lambda tangent: jvp(self.block, (self.states,), (tangent,))[1])(tangents)

    def pull(self, cotangents: Float[Tensor, "k t m"]) -> Float[Tensor, "k t m"]:
        """u^T J for every cotangent: how the output's weighted sum moves with each input."""
        back = vjp(self.block, self.states)[1]
        return vmap(lambda cotangent: back(cotangent)[0])(cotangents)

    def reads(self, directions: Float[Tensor, "k t m"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tangents of queries, keys, values [k g t d] and of the output [k t m] while what the heads give is held."""
        heads = self._heads

        def cut(states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            return _cut(self.block, states, heads)

        return vmap(lambda direction: jvp(cut, (self.states,), (direction,))[1])(directions)

    def attends(self, directions: Float[Tensor, "k t m"]) -> tuple[Tensor, Tensor, Tensor]:
        """Tangents of queries, keys and values alone [k h t d]; the block is left at its attention."""
        return vmap(lambda direction: jvp(_until_attention(self.block), (self.states,), (direction,))[1])(directions)

    def writes(self, directions: Float[Tensor, "k t n"]) -> Float[Tensor, "k t m"]:
        """Tangents of the output with what the heads give, all heads side by side, while the input is held."""

        def cut(heads: Tensor) -> Tensor:
            return _cut(self.block, self.states, heads)[3]

        return vmap(lambda direction: jvp(cut, (self._heads,), (direction,))[1])(directions)

    @property
    def _heads(self) -> Float[Tensor, "t n"]:
        assert self.attended is not None
        return rearrange(self.attended.mixed, "g r t e -> t (g r e)")


@dataclass(frozen=True, eq=False)
class Chain:
    """All blocks of one pass in order; `start` leads from the embedding sum to layer 0, None where they are the same."""

    steps: tuple[Step, ...]
    causal: bool
    start: Float[Tensor, "s w m"] | None

    @property
    def states(self) -> Float[Tensor, "s m"]:
        return self.steps[0].states


@contextmanager
def linearised(anatomy: Anatomy, batch: Batch, embedding_sum: bool = False) -> Iterator[Chain]:
    """The pass of one sentence, ready to be differentiated; the model is put back as it was when the context ends."""
    _check(anatomy, batch)
    recorder = _Recorder(anatomy)
    with _borrowed(anatomy), torch.no_grad():
        with recorder.listening():
            capture.run(anatomy.stack, batch, **capture.arguments_of(anatomy))
        steps = tuple(recorder.steps)
        _check_chain(anatomy, steps)
        start = _start(anatomy, batch, recorder.norm) if embedding_sum and recorder.norm is not None else None
        yield Chain(steps, anatomy.causal, start)


@contextmanager
def _borrowed(anatomy: Anatomy) -> Iterator[None]:
    seam = anatomy.family != "xlnet"
    with capture.borrowed(anatomy.model, seam=seam), capture.hearing(lambda *heard: None), _answering(_own):
        if seam:
            anatomy.model.set_attn_implementation(SEAM)
        yield


@contextmanager
def _answering(answer: Callable[..., tuple[Tensor, Tensor | None]]) -> Iterator[None]:
    token = _answer.set(answer)
    try:
        yield
    finally:
        _answer.reset(token)


def _own(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """The model file's own attention."""
    return ALL_ATTENTION_FUNCTIONS[capture.SEAM](*args, **kwargs)


AttentionInterface.register(SEAM, lambda *args, **kwargs: _answer.get()(*args, **kwargs))
AttentionMaskInterface.register(SEAM, ALL_MASK_ATTENTION_FUNCTIONS[capture.SEAM])


def _cut(block: Function, states: Tensor, heads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and output of a block whose heads give `heads`, whatever they read."""
    read: list[Tensor] = []

    def answer(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
        read.extend((query[0], key[0], value[0]))
        return rearrange(heads, "t (h e) -> 1 t h e", h=query.shape[1]), None

    with _answering(answer):
        output = block(states)
    return read[0], read[1], read[2], output


def _until_attention(block: Function) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Queries, keys and values as a function of the block's input."""

    def function(states: Tensor) -> tuple[Tensor, ...]:
        read: list[Tensor] = []

        def answer(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
            read.extend((query[0], key[0], value[0]))
            raise _Reached

        with _answering(answer), suppress(_Reached):
            block(states)
        return tuple(read)

    return function


@dataclass
class _Recorder:
    """Keeps how every block was called, what its attention saw, and the last norm before the first block."""

    anatomy: Anatomy
    steps: list[Step] = field(default_factory=list)
    norm: nn.Module | None = None
    _open: tuple[Function, Tensor] | None = None
    _attended: Attended | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        with ExitStack() as hooks, _answering(self._attend):
            for block in set(self.anatomy.blocks):
                hooks.callback(block.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
                hooks.callback(block.register_forward_hook(self._end).remove)
            for module in self.anatomy.stack.modules():
                if type(module).__name__.endswith("Norm"):
                    hooks.callback(module.register_forward_pre_hook(self._normed).remove)
            yield

    def _normed(self, module: nn.Module, args: tuple) -> None:
        if self._open is None and not self.steps:
            self.norm = module

    def _begin(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        self._open = (_function(self.anatomy, block, args[1:], kwargs), _alone(self.anatomy, states))

    def _end(self, block: nn.Module, args: tuple, output: Any) -> None:
        assert self._open is not None
        function, states = self._open
        output = _alone(self.anatomy, _first(output))
        self.steps.append(Step(function, states, output, self._attended, self.anatomy.parts(block)))
        self._attended = None

    def _attend(self, module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any):
        output, weights = _own(module, query, key, value, *args, **kwargs)
        self._attended = _attended(query, key, value, weights, kwargs)
        return output, weights


def _attended(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None, settings: dict[str, Any]
) -> Attended | None:
    if weights is None:
        return None
    query, key, value, weights = (precise(tensor[0]) for tensor in (query, key, value, weights))
    query, weights = (rearrange(tensor, "(g r) t x -> g r t x", g=len(key)) for tensor in (query, weights))
    scaling, softcap = settings.get("scaling"), settings.get("softcap")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    gain = weights * scaling
    if softcap is not None:
        scores = torch.einsum("grtd,gsd->grts", query, key) * scaling
        gain = gain * (1 - torch.tanh(scores / softcap).square())
    return Attended(query, key, value, weights, gain)


def _function(anatomy: Anatomy, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Function:
    """The block as a function of one sentence's states, everything else as in the pass."""
    args, kwargs = tree_map(precise, args), tree_map(precise, kwargs)
    kwargs = {name: value for name, value in kwargs.items() if name != "hidden_states"}
    axis = _batch_axis(anatomy)
    tensors = dict(itertools.chain(block.named_parameters(), block.named_buffers()))
    widened = {name: precise(tensor) for name, tensor in tensors.items()}
    as_it_is = all(widened[name] is tensors[name] for name in tensors)

    def function(states: Tensor) -> Tensor:
        given = (states.unsqueeze(axis), *args)
        output = block(*given, **kwargs) if as_it_is else functional_call(block, widened, given, kwargs)
        return _first(output).squeeze(axis)

    return function


def _start(anatomy: Anatomy, batch: Batch, norm: nn.Module) -> Float[Tensor, "s w m"]:
    """The derivative of layer 0 by the sum of the embeddings, which the last norm before the blocks reads."""
    seen: list[Tensor] = []
    with ExitStack() as hooks:
        hooks.callback(norm.register_forward_pre_hook(lambda _, args: seen.append(args[0])).remove)
        _until_blocks(anatomy, batch)

    def layer0(total: Tensor) -> Tensor:
        with ExitStack() as hooks:
            hooks.callback(norm.register_forward_pre_hook(lambda _, args: (total[None], *args[1:])).remove)
            return precise(_until_blocks(anatomy, batch))

    total = seen[0][0]
    basis = torch.eye(total.shape[-1], dtype=total.dtype, device=total.device)
    directions = basis[:, None].expand(-1, len(total), -1)
    return rearrange(vmap(lambda direction: jvp(layer0, (total,), (direction,))[1])(directions), "w s m -> s w m")


class _Reached(Exception):
    """What was wanted of a model has been computed."""


def _until_blocks(anatomy: Anatomy, batch: Batch) -> Float[Tensor, "s m"]:
    states: list[Tensor] = []

    def stop(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states.append(args[0] if args else kwargs["hidden_states"])
        raise _Reached

    handle = anatomy.blocks[0].register_forward_pre_hook(stop, with_kwargs=True)
    try:
        with suppress(_Reached):
            capture.run(anatomy.stack, batch, **capture.arguments_of(anatomy))
    finally:
        handle.remove()
    return states[0].squeeze(_batch_axis(anatomy))


def precise(value: Any) -> Any:
    """Half-precision tensors in float32, all else as it is."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value.to(PRECISE[value.dtype])


def _alone(anatomy: Anatomy, states: Tensor) -> Float[Tensor, "t m"]:
    return precise(states.squeeze(_batch_axis(anatomy)))


def _batch_axis(anatomy: Anatomy) -> int:
    return 1 if anatomy.family == "xlnet" else 0


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _check(anatomy: Anatomy, batch: Batch) -> None:
    if len(batch.ids) != 1 or not bool(batch.mask.all()):
        raise BadInput("A Jacobian is of one sentence without padding; give the sentences one at a time.")
    odd = sorted({str(parameter.dtype) for parameter in anatomy.stack.parameters() if parameter.dtype not in PRECISE})
    if odd or vars(anatomy.model.config).get("quantization_config") is not None:
        raise Unsupported(
            f"The weights of {type(anatomy.model).__name__} are quantised ({', '.join(odd) or 'by its configuration'}), so"
            " it has no derivatives; load it unquantised."
        )


def _check_chain(anatomy: Anatomy, steps: tuple[Step, ...]) -> None:
    """Each block reads what the one before gave, else a derivative through them would miss a path."""
    for layer, (before, after) in enumerate(itertools.pairwise(steps), start=1):
        if not torch.equal(before.output, after.states):
            raise Unsupported(
                f"In {type(anatomy.model).__name__} block {layer + 1} does not read what block {layer} gave, so derivatives"
                " through the blocks would miss a path."
            )
