"""Whether the derivative that is measured is that of the model's own code from the embeddings to the last layer.

The model's own code is differentiated by autograd, over a few tokens. The linearised pass's VJP of a random
cotangent is compared with that at every token, and its JVP of a random tangent by u (J v) = (u^T J) v, where every
token of the last layer has the same weight.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from whence.models import capture
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.frozen import PRECISE, FrozenBlocks
from whence.models.hooks import here
from whence.models.linearise import linearised
from whence.models.locate import probe, reason_of
from whence.models.pieces import in_pieces
from whence.models.stack import table_of
from whence.models.weights import first

# relative difference that rounding explains: both run the same operations on the same numbers
CLOSE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 3e-3, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class Missed:
    """The derivative's largest error at any token, either way; infinite, with the reason, where there is none."""

    error: float
    reason: str = ""


def missed(anatomy: Anatomy) -> Missed:
    """u^T J for a random u against the model's own code, and u (J v) against (u^T J) v."""
    batch = probe(anatomy.model)
    try:
        with linearised(anatomy, batch, precision=lambda value: value) as chain:
            return Missed(_compared(anatomy, batch, chain))
    except Exception as error:  # a strange model's code may raise anything
        return Missed(float("inf"), reason_of(error))


@dataclass
class _Own:
    """One pass of the model's own code from the embeddings, differentiated: these, layer 0 and the last layer."""

    anatomy: Anatomy
    dual: bool = False
    skipped: int = 0
    "Lookups in the same table that come before its own: those of an encoder."
    embedding: Tensor | None = None
    start: Tensor | None = None
    output: Tensor | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        table, blocks = table_of(self.anatomy), self.anatomy.blocks
        with ExitStack() as hooks:
            if table is not None:
                hooks.callback(table.register_forward_hook(here(self._embedded)).remove)
            hooks.callback(blocks[0].register_forward_pre_hook(here(self._began), with_kwargs=True).remove)
            hooks.callback(blocks[-1].register_forward_hook(here(self._ended)).remove)
            yield

    def _embedded(self, table: nn.Module, args: tuple, output: Any) -> Any:
        """Only the first lookup: CTRL looks up more than tokens. A copy, because later code may write into it."""
        if self.embedding is not None or self.skipped:
            self.skipped = max(0, self.skipped - 1)
            return output
        self.embedding = self._followed(first(output))
        copied = self.embedding.clone()
        return (copied, *output[1:]) if isinstance(output, tuple) else copied  # with its scale (I-BERT)

    def _began(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if self.start is not None:
            return None
        states = args[0] if args else kwargs["hidden_states"]
        if self.embedding is None:  # there is no table (CANINE)
            self.embedding = states = self._followed(states)
        self.start = states
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    def _ended(self, block: nn.Module, args: tuple, output: Any) -> None:
        self.output = first(output)

    def _followed(self, states: Tensor) -> Tensor:
        """The states, to be differentiated by: with a tangent of their own, or backwards."""
        if self.dual:
            return forward_ad.make_dual(states.detach(), drawn(states, seed=5))
        return states.detach().requires_grad_()


def _compared(anatomy: Anatomy, batch: Batch, chain: FrozenBlocks) -> float:
    tangent = drawn(chain.states, seed=1)
    pushed = chain.push_one(tangent)
    cotangent = _evenly(drawn(chain.states, seed=2).to(pushed.device), pushed)
    pulled = chain.pull_one(cotangent)
    forwards = in_pieces(anatomy.stack) and anatomy.encoder is None
    errors = [(_apart_forwards if forwards else _apart_backwards)(anatomy, batch, chain, cotangent, pulled)]
    both_ways = [_mismatch(cotangent, pushed, pulled, tangent), *_by_torch_func(chain)]
    # forward and reverse mode round in different places, which shows in half precision
    return max(errors + both_ways if pulled.dtype in PRECISE.values() else errors)


def _apart_backwards(anatomy: Anatomy, batch: Batch, chain: FrozenBlocks, cotangent: Tensor, pulled: Tensor) -> float:
    """The chain's VJP and autograd's from the last layer to the embeddings."""
    if anatomy.encoder is not None:
        return _apart_of_both(anatomy, batch, cotangent, pulled)
    own, axis = _Own(anatomy), anatomy.batch_axis
    with torch.enable_grad(), own.listening():
        capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
    assert own.embedding is not None and own.start is not None and own.output is not None
    expected = torch.autograd.grad(own.output, own.embedding, cotangent.unsqueeze(axis), retain_graph=True)[0]
    return apart(torch.autograd.grad(own.start, own.embedding, pulled.unsqueeze(axis))[0], expected)


def _apart_of_both(anatomy: Anatomy, batch: Batch, cotangent: Tensor, pulled: Tensor) -> float:
    """The same of two stacks: from what both give to both embeddings."""
    assert anatomy.encoder is not None and batch.split is not None
    encoder = _Own(anatomy.encoder)
    decoder = _Own(anatomy, skipped=int(table_of(anatomy) is table_of(anatomy.encoder)))
    sources: list[Tensor] = []
    with torch.enable_grad(), encoder.listening(), decoder.listening(), ExitStack() as hooks:
        keep = here(lambda _, __, output: sources.append(output[0]))
        hooks.callback(anatomy.encoder.stack.register_forward_hook(keep).remove)
        capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
    embeddings, starts = (encoder.embedding, decoder.embedding), (encoder.start, decoder.start)
    expected = _gradients((sources[0], decoder.output), embeddings, cotangent, batch.split)
    return max(map(apart, _gradients(starts, embeddings, pulled, batch.split), expected))


def _gradients(outputs: Any, inputs: Any, cotangent: Tensor, border: int) -> tuple[Tensor, ...]:
    """By the embeddings of either text."""
    parts = cotangent[None, :border], cotangent[None, border:]
    return torch.autograd.grad(outputs, inputs, parts, retain_graph=True)


def _apart_forwards(anatomy: Anatomy, batch: Batch, chain: FrozenBlocks, cotangent: Tensor, pulled: Tensor) -> float:
    """The chain's JVP and that of the model's own code in one pass: a backward pass would keep the weights of all
    blocks, which are not in memory together.
    """
    own, axis = _Own(anatomy, dual=True), anatomy.batch_axis
    with forward_ad.dual_level(), own.listening():
        capture.run(capture.reader(anatomy, batch), batch, **capture.arguments_of(anatomy))
        assert own.start is not None and own.output is not None
        start, expected = (forward_ad.unpack_dual(states).tangent.squeeze(axis) for states in (own.start, own.output))
    return apart(chain.push_one(start), expected)


def _by_torch_func(chain: FrozenBlocks) -> list[float]:
    """The same for batched derivatives, as they are measured, in one block of each kind."""
    tangent = drawn(chain.states, seed=3)
    if chain.stack is not None:
        depth = len(chain.steps)
        return [apart(chain.stack.push(tangent[None], depth)[0, -1], chain.push_one(tangent))]
    errors = []
    for step in {step.attended is None: step for step in chain.steps}.values():
        pushed = step.push(tangent[None])[0]
        cotangent = _evenly(drawn(chain.states, seed=4), pushed)
        errors.append(_mismatch(cotangent, pushed, step.pull(cotangent[None])[0], tangent))
    return errors


def _evenly(cotangent: Tensor, pushed: Tensor) -> Tensor:
    """The cotangent rescaled so that every token's part of u (J v) is about as large."""
    size = torch.linalg.vector_norm(pushed, dim=-1, keepdim=True)
    return cotangent / torch.where(size > 0, size, 1)


def _mismatch(cotangent: Tensor, pushed: Tensor, pulled: Tensor, tangent: Tensor) -> float:
    """How far u (J v) is from (u^T J) v."""
    products = (cotangent * pushed).sum(dim=-1)
    error = (products.sum() - (pulled * tangent).sum()).abs() / torch.linalg.vector_norm(products)
    return float(error.nan_to_num(nan=torch.inf))


def drawn(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)
