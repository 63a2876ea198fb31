"""One block's derivative for as many covectors as the stream is wide, starting at every token: what happens to a token
alone is one matrix, and only attention is gone through, in the few dimensions of its heads.

With u the covectors at the output, and O the derivative of the output by the stream where the heads join it:

    w = u O,    w' = w + N (q W_q^T + k W_k^T + v W_v^T),    q, k, v = what attention pulls back from w P^T

with P the heads' projection and N the derivative of the norm before attention. W is shared by all tokens; what comes
between W and attention (rotations by position, norms of queries and keys) is one small matrix per head and token. Both
are found by watching the block, and the whole is held against the block's own code.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vmap
from torch.overrides import TorchFunctionMode

from whence.linear.matrices import rest
from whence.linear.steps import Branches
from whence.linear.tangent import AttentionDerivative, NormDerivative
from whence.models.frozen import Attended, FrozenBlock, precise, until_attention

TOKENS, DIRECTIONS = 8, 64  # benchmarks lens: whose matrices are alive together, and how many go through attention
TRIED = 2  # tokens on which it is tried; their matrices cost what they cost later
Covectors = Float[Tensor, "t k _"]  # tokens first, for one product with each token's matrix
# products by name: where the weight stands, and whether it is stored output x input
PRODUCTS = {"linear": (0, 1, True), "addmm": (1, 2, False)}


@dataclass(frozen=True, eq=False)
class Reads:
    """Queries, keys and values of the normed state, all heads side by side: shared, then turned by head and token."""

    weights: Float[Tensor, "p m"]
    queries: Float[Tensor, "h t d d"]
    keys: Float[Tensor, "g t d d"]
    values: Float[Tensor, "g t d d"]
    norm: NormDerivative | None

    def among(self, tokens: slice) -> "Reads":
        turns = {name: getattr(self, name)[:, tokens] for name in ("queries", "keys", "values")}
        return replace(self, **turns, norm=None if self.norm is None else self.norm.among(tokens))

    def pull(self, heads: Covectors) -> Covectors:
        read = heads @ self.weights
        return read if self.norm is None else self.norm.pull(read.transpose(0, 1)).transpose(0, 1)


@dataclass(frozen=True, eq=False)
class Dense:
    """One block, perhaps among some of its tokens."""

    parts: Branches
    projection: Float[Tensor, "n m"]
    attended: Attended
    through_queries: Float[Tensor, "h t e _"]
    "From what the heads output to the queries, turned back; the last column is what they output in this pass."
    reads: Reads

    def pull(self, covectors: Covectors) -> Covectors:
        """The covectors are overwritten: first by each token's own matrix, then a few directions at a time."""
        for begin in range(0, len(covectors), TOKENS):
            tokens = slice(begin, begin + TOKENS)
            covectors[tokens] = torch.bmm(covectors[tokens], rest(self.parts.among(tokens)).mT)
        for part in covectors.split(DIRECTIONS, dim=1):
            part += self.reads.pull(self._attended(part @ self.projection.T))
        return covectors

    def _attended(self, heads: Float[Tensor, "t k n"]) -> Float[Tensor, "t k p"]:
        """As `tangent.heads_pull`, with the queries, and turned back."""
        attended, (groups, shared) = self.attended, self.attended.query.shape[:2]
        heads = rearrange(heads, "t k (h e) -> h t k e", h=groups * shared).contiguous()
        queries = heads @ self.through_queries
        scores = heads @ repeat(attended.value, "g s e -> (g r) 1 e s", r=shared)
        scores.sub_(queries[..., -1:]).mul_(rearrange(attended.gain, "g r t s -> (g r) t 1 s"))
        grouped, scored = (rearrange(part, "(g r) t k x -> g (r t) (k x)", g=groups) for part in (heads, scores))
        values = torch.bmm(rearrange(attended.weights, "g r t s -> g s (r t)"), grouped)
        keys = torch.bmm(rearrange(attended.query, "g r t d -> g d (r t)"), scored)
        values = rearrange(values, "g s (k e) -> g s k e", k=heads.shape[2]) @ self.reads.values.mT
        keys = rearrange(keys, "g d (k s) -> g s k d", k=heads.shape[2]) @ self.reads.keys.mT
        parts = (queries[..., :-1], keys, values)
        return torch.cat([rearrange(part, "h t k d -> t k (h d)") for part in parts], dim=-1)


def dense(step: FrozenBlock, parts: Branches | None, tokens: slice) -> Dense | None:
    """The block among these tokens, from its derivative by its parts; None where it is not of this form.

    That is found by trying, on the first of the tokens.
    """
    if parts is None or step.parts is None or not step.parts.joins_first:
        return None
    reads = _reads(step)
    if reads is None:
        return None
    first = slice(tokens.start, min(tokens.start + TRIED, tokens.stop))
    few = _made(parts.among(first), reads.among(first))
    if not step.agrees_back(lambda vectors: few.pull(vectors.transpose(0, 1).clone()).transpose(0, 1), first):
        return None
    return _made(parts.among(tokens), reads.among(tokens))


def _made(parts: Branches, reads: Reads) -> Dense:
    attention = parts.attention.steps[0]
    assert isinstance(attention, AttentionDerivative)
    spread, mixed = attention.spread.flatten(0, 1), attention.attended.mixed.flatten(0, 1)
    queries = torch.cat([spread.mT @ reads.queries.mT, mixed[..., None]], dim=-1)
    return Dense(parts, attention.projection * parts.attention.factor, attention.attended, queries, reads)


def _reads(step: FrozenBlock) -> Reads | None:
    """What the block's attention reads, where it is linear in the normed state up to turns within each head."""
    assert step.attended is not None and step.parts is not None
    width = step.attended.query.shape[-1]
    watched = _Watched()
    with watched:
        until_attention(step.block)(step.states)
    if not watched.read_alike or step.attended.value.shape[-1] != width or watched.width % width:
        return None
    norm = step.parts.attention_norms.before
    derivative = None if norm is None else NormDerivative.of(norm, step.states)
    return Reads(torch.cat(watched.weights), *_turns(step, watched, width), derivative)


def _turns(step: FrozenBlock, watched: "_Watched", width: int) -> tuple[Tensor, Tensor, Tensor]:
    """How queries, keys and values of each head move with the products they come from: all heads at once."""
    products = torch.cat(watched.outputs, dim=-1)
    unit = torch.eye(width, dtype=products.dtype, device=products.device)
    directions = repeat(unit, "i d -> i t (h d)", t=len(products), h=products.shape[-1] // width)

    def onwards(changed: Tensor) -> tuple[Tensor, ...]:
        with _Watched(changed.split([len(weight) for weight in watched.weights], dim=-1)):
            return until_attention(step.block)(step.states)

    moved = vmap(lambda direction: jvp(onwards, (products,), (direction,))[1])(directions)
    queries, keys, values = (rearrange(part, "i h t d -> h t i d") for part in moved)
    return queries, keys, values


class _Watched(TorchFunctionMode):
    """Notes the products of a block with its weights, or replaces what they gave."""

    def __init__(self, instead: tuple[Tensor, ...] = ()) -> None:
        super().__init__()
        self.instead = list(instead)
        self.read: list[Tensor] = []
        self.weights: list[Float[Tensor, "p m"]] = []
        self.outputs: list[Float[Tensor, "t p"]] = []

    @property
    def width(self) -> int:
        return sum(map(len, self.weights))

    @property
    def read_alike(self) -> bool:
        """Whether there were products, all of the same states."""
        return bool(self.read) and all(torch.equal(read, self.read[0]) for read in self.read)

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        known = PRODUCTS.get(getattr(func, "__name__", ""))
        if known is None:
            return output
        if self.instead:
            return self.instead.pop(0).reshape(output.shape)
        read, weight, transposed = known
        self.read.append(args[read].flatten(0, -2))
        self.weights.append(precise(args[weight] if transposed else args[weight].T))
        self.outputs.append(output.flatten(0, -2))
        return output
