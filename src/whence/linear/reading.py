"""How the queries, keys and values of a block move with its input, by token or as one matrix for all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.models.tangent import Step

Shared = tuple[Float[Tensor, "m n"], Float[Tensor, "m p"], Float[Tensor, "m q"]]  # queries, keys, values
ByToken = tuple[Float[Tensor, "t w n"], Float[Tensor, "t w p"], Float[Tensor, "t w q"]]  # for w directions


@dataclass(frozen=True, eq=False)
class Reading:
    """Tangents of queries, keys and values: through the block's own code, or by maps that all tokens share."""

    step: Step
    maps: Shared | None = None

    def __call__(self, tangents: Float[Tensor, "t k m"]) -> ByToken:
        if self.maps is None:
            return _side_by_side(*self.step.attends(rearrange(tangents, "t k m -> k t m")))
        queries, keys, values = (tangents @ weight for weight in self.maps)
        return queries, keys, values


def may_read_alike(step: Step) -> bool:
    """Whether queries, keys and values are likely to be the same map of every token; what is made of it is checked."""
    return step.parts is not None and step.parts.attention_norms.before is None


def alike(step: Step) -> Shared:
    """Derivatives of queries, keys and values when they are those of every token: each token carries another one."""
    tokens, width = step.states.shape
    directions = torch.eye(width, dtype=step.states.dtype, device=step.states.device)
    rounds = -(-width // tokens)
    given = torch.nn.functional.pad(directions, (0, 0, 0, rounds * tokens - width))
    found = step.attends(rearrange(given, "(k t) m -> k t m", t=tokens))
    queries, keys, values = (rearrange(part, "k h t d -> (k t) (h d)")[:width].contiguous() for part in found)
    return queries, keys, values


def by_token(step: Step, chunk: int) -> ByToken:
    """The same, one map per token, from `chunk` directions at a time."""
    parts = [
        _side_by_side(*step.attends(directions)) for _, directions in basis(step.states, step.states.shape[-1], chunk)
    ]
    queries, keys, values = (torch.cat(found, dim=1) for found in zip(*parts, strict=True))
    return queries, keys, values


def basis(states: Float[Tensor, "t m"], size: int, chunk: int) -> Iterator[tuple[slice, Float[Tensor, "k t n"]]]:
    """Unit vectors, a few at a time, the same at every token."""
    unit = torch.eye(size, dtype=states.dtype, device=states.device)
    for begin in range(0, size, chunk):
        part = slice(begin, min(begin + chunk, size))
        yield part, unit[part, None].expand(-1, len(states), -1)


def _side_by_side(queries: Tensor, keys: Tensor, values: Tensor) -> ByToken:
    """Tokens first, heads side by side."""
    queries, keys, values = (rearrange(part, "k h t d -> t k (h d)") for part in (queries, keys, values))
    return queries, keys, values
