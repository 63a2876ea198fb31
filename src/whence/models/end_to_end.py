"""Whether the derivative that is measured is that of the model's own code from the embeddings to the last layer.

The model is run over a few tokens, once with embeddings that move (dual numbers) and once with a graph, so that its own
code is differentiated both ways. What the linearised pass makes of the same random changes is compared with that, token
by token.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from whence.models import capture
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.hooks import here
from whence.models.linearise import linearised
from whence.models.locate import probe, reason_of
from whence.models.stack import table_of
from whence.models.tangent import PRECISE, Chain, pulled, pushed
from whence.models.weights import first

# relative difference that rounding explains: both run the same operations on the same numbers
CLOSE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 3e-3, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class Missed:
    """How far the derivative is off at any token, forwards or back; infinitely, and why, where there is none."""

    error: float
    reason: str = ""


def missed(anatomy: Anatomy) -> Missed:
    """J v and u^T J for a random v and u, against the model's own code; and u (J v) against (u^T J) v."""
    batch = probe(anatomy.model)
    try:
        with linearised(anatomy, batch, precision=lambda value: value) as chain:
            return Missed(_compared(anatomy, batch, chain))
    except Exception as error:  # whatever a strange model's code does not bear
        return Missed(float("inf"), reason_of(error))


@dataclass
class _Own:
    """One pass by the model's own code: the embeddings, layer 0 and the last layer."""

    anatomy: Anatomy
    source: Callable[[Tensor], Tensor]
    tensors: dict[str, Tensor] = field(default_factory=dict)

    @contextmanager
    def listening(self) -> Iterator[None]:
        table, blocks = table_of(self.anatomy), self.anatomy.blocks
        with ExitStack() as hooks:
            if table is not None:
                hooks.callback(table.register_forward_hook(here(self._embedded)).remove)
            hooks.callback(blocks[0].register_forward_pre_hook(here(self._began), with_kwargs=True).remove)
            hooks.callback(blocks[-1].register_forward_hook(here(self._ended)).remove)
            yield

    def _embedded(self, table: nn.Module, args: tuple, output: Tensor) -> Tensor:
        """The first time: CTRL looks up more in its table than tokens. What follows may write into what it gets."""
        return output if "embedding" in self.tensors else self._begun(output).clone()

    def _began(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if "start" in self.tensors:
            return None
        states = args[0] if args else kwargs["hidden_states"]
        states = self.tensors["start"] = states if "embedding" in self.tensors else self._begun(states)
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    def _ended(self, block: nn.Module, args: tuple, output: Any) -> None:
        self.tensors["output"] = first(output)

    def _begun(self, tensor: Tensor) -> Tensor:
        self.tensors["embedding"] = self.source(tensor.detach())
        return self.tensors["embedding"]


def _run(anatomy: Anatomy, batch: Batch, source: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    own = _Own(anatomy, source)
    with own.listening():
        capture.run(anatomy.stack, batch, **capture.arguments_of(anatomy))
    return own.tensors["embedding"], own.tensors["start"], own.tensors["output"]


def _compared(anatomy: Anatomy, batch: Batch, chain: Chain) -> float:
    axis = anatomy.batch_axis
    with forward_ad.dual_level():
        duals = _run(anatomy, batch, lambda tensor: forward_ad.make_dual(tensor, drawn(tensor, seed=1)))
        direction, entering, moved = (forward_ad.unpack_dual(dual).tangent for dual in duals)
    with torch.enable_grad():
        embedding, start, output = _run(anatomy, batch, Tensor.requires_grad_)
    cotangent = drawn(output, seed=2)
    whole = torch.autograd.grad(output, embedding, cotangent, retain_graph=True)[0]
    forwards = chain.push_one(entering.squeeze(axis)).unsqueeze(axis)
    back = chain.pull_one(cotangent.squeeze(axis)).unsqueeze(axis)
    errors = [apart(forwards, moved), apart(torch.autograd.grad(start, embedding, back)[0], whole)]
    by_torch_func = _by_torch_func(chain)
    if output.dtype in PRECISE.values():  # in half precision these would differ by rounding
        errors += [*by_torch_func, _mismatch(cotangent, moved, whole, direction)]
    return max(errors)


def _by_torch_func(chain: Chain) -> list[float]:
    """How far many derivatives at a time, as they are measured, are from single ones; one block of each kind."""
    tangent = drawn(chain.states, seed=3)
    if chain.stack is not None:
        return [apart(chain.stack.push(tangent[None], len(chain.steps))[0, -1], chain.push_one(tangent))]
    kinds = {step.attended is None: step for step in chain.steps}.values()
    pushes = [(step.push(tangent[None])[0], pushed(step.block, step.states, tangent)) for step in kinds]
    pulls = [(step.pull(tangent[None])[0], pulled(step.block, step.states, tangent)) for step in kinds]
    return [apart(found, expected) for found, expected in pushes + pulls]


def _mismatch(cotangent: Tensor, moved: Tensor, whole: Tensor, direction: Tensor) -> float:
    """How far u (J v) is from (u^T J) v."""
    products = (cotangent * moved).sum(dim=-1)
    error = (products.sum() - (whole * direction).sum()).abs() / torch.linalg.vector_norm(products)
    return float(error.nan_to_num(nan=torch.inf))


def drawn(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)
