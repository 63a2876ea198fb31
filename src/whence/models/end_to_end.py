"""Whether the derivative that is measured is that of the model's own code from the embeddings to the last layer.

The model is run once over a few tokens whose embeddings move (dual numbers) and have a graph, so that its own code is
differentiated both ways. What the linearised pass makes of the same changes is compared with that, token by token.
"""

from collections.abc import Iterator
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
from whence.models.tangent import Chain
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
            return Missed(_compared(chain, _own(anatomy, batch), anatomy.batch_axis))
    except Exception as error:  # whatever a strange model's code does not bear
        return Missed(float("inf"), reason_of(error))


@dataclass
class _Own:
    """One pass by the model's own code: the embeddings, layer 0 and the last layer, and how they move."""

    anatomy: Anatomy
    tensors: dict[str, Tensor] = field(default_factory=dict)
    tangents: dict[str, Tensor] = field(default_factory=dict)

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
        """The first time; CTRL looks up more in its table than tokens."""
        return output if "embedding" in self.tensors else self._moved(output).clone()

    def _began(self, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if "start" in self.tensors:
            return None
        states = args[0] if args else kwargs["hidden_states"]
        if forward_ad.unpack_dual(states).tangent is None:  # no table led here (CANINE)
            states = self._moved(states)
        self._keep("start", states)
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    def _ended(self, block: nn.Module, args: tuple, output: Any) -> None:
        self._keep("output", first(output))

    def _moved(self, tensor: Tensor) -> Tensor:
        primal = tensor.detach().requires_grad_()
        dual = forward_ad.make_dual(primal, drawn(tensor, seed=1))
        self.tensors["embedding"], self.tangents["embedding"] = primal, forward_ad.unpack_dual(dual).tangent
        return dual

    def _keep(self, name: str, dual: Tensor) -> None:
        self.tensors[name], self.tangents[name] = forward_ad.unpack_dual(dual)


def _own(anatomy: Anatomy, batch: Batch) -> _Own:
    own = _Own(anatomy)
    with torch.enable_grad(), forward_ad.dual_level(), own.listening():
        capture.run(anatomy.stack, batch, **capture.arguments_of(anatomy))
    return own


def _compared(chain: Chain, own: _Own, axis: int) -> float:
    embedding, start, output = (own.tensors[name] for name in ("embedding", "start", "output"))
    direction, moved = own.tangents["embedding"], own.tangents["output"]
    cotangent = drawn(output, seed=2)
    whole = torch.autograd.grad(output, embedding, cotangent, retain_graph=True)[0]
    pushed = chain.push(own.tangents["start"].squeeze(axis)[None])[0].unsqueeze(axis)
    pulled = chain.pull(cotangent.squeeze(axis)[None])[0].unsqueeze(axis)
    arrived = torch.autograd.grad(start, embedding, pulled)[0]
    products = (cotangent * moved).sum(dim=-1)
    identity = (products.sum() - (whole * direction).sum()).abs() / torch.linalg.vector_norm(products)
    return max(apart(pushed, moved), apart(arrived, whole), float(identity.nan_to_num(nan=torch.inf)))


def drawn(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)
