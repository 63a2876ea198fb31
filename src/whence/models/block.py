"""What is kept of one forward pass: per block the attention, the values, and the residual stream around them."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from einops import einsum, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.models.weights import Parts, Projection

Kept = TypeVar("Kept")

# an additive mask forbids with the lowest number of its dtype; float16's is the highest of those
FORBIDDEN = torch.finfo(torch.float16).min


@dataclass(frozen=True)
class Batch:
    """Token ids with their mask (True = a real token) and, for pairs, segment ids."""

    ids: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    segments: Int[Tensor, "b s"] | None = None


@dataclass(frozen=True)
class Block:
    """One block of one forward pass. Heads that share values (grouped queries) share them here too."""

    layer: int
    attention: Float[Tensor, "b h t s"]
    grouped_values: Float[Tensor, "b g s d"]
    mask: Bool[Tensor, "b #h #t s"] | Float[Tensor, "b #h #t s"] | None
    input: Float[Tensor, "b t m"]
    projected: Float[Tensor, "b t m"] | None
    output: Float[Tensor, "b t m"]
    "NaN where the pass ended before it."
    parts: Parts | None

    @property
    def attends(self) -> bool:
        return self.attention.shape[1] > 0

    @property
    def values(self) -> Float[Tensor, "b h s d"]:
        groups = self.grouped_values.shape[1]
        return repeat(self.grouped_values, "b g s d -> b (g k) s d", k=self.attention.shape[1] // groups)

    @property
    def allowed(self) -> Bool[Tensor, "b #h #t s"] | None:
        """Which sources the mask lets a target see; None when all."""
        if self.mask is None or self.mask.dtype == torch.bool:
            return self.mask
        return self.mask > FORBIDDEN / 2

    def mixed(self, projection: Projection) -> Float[Tensor, "b t m"]:
        """The sum over heads and sources, sum_h sum_j A^h_ij f_h(x_j), without the projection's bias."""
        heads = einsum(self.attention, self.values, "b h t s, b h s d -> b h t d")
        return einsum(heads, projection.weight, "b h t d, h d m -> b t m")

    @property
    def before_norm(self) -> Float[Tensor, "b t m"]:
        """Residual plus attention branch: what the norm after attention reads, where there is one."""
        assert self.projected is not None
        inside = self._parts.attention_norms.inside
        branch = self.projected if inside is None else inside(self.projected)
        return self.input + branch * self._parts.residual_scale

    @property
    def middle(self) -> Float[Tensor, "b t m"]:
        """The state between attention and feed-forward."""
        after = self._parts.attention_norms.after
        return self.before_norm if after is None else after(self.before_norm)

    @property
    def rebuilt(self) -> Float[Tensor, "b t m"]:
        """The block's output recomputed from its parts; equals `output` or the anatomy is wrong."""
        parts, norms = self._parts, self._parts.feed_forward_norms
        states = self.input if parts.parallel else self.middle
        branch = parts.feed_forward(states if norms.before is None else norms.before(states))
        if norms.inside is not None:
            branch = norms.inside(branch)
        total = self.middle + branch * parts.residual_scale
        return total if norms.after is None else norms.after(total)

    @property
    def _parts(self) -> Parts:
        assert self.parts is not None, "the family's anatomy is unknown"
        return self.parts


@dataclass(frozen=True)
class Trace(Generic[Kept]):
    """A forward pass: layer 0, what was kept of every block, and the stack's output past the final norm."""

    batch: Batch
    embedding: Float[Tensor, "b s m"]
    blocks: tuple[Kept, ...]
    output: Float[Tensor, "b s n"]  # as wide as the stream, but for OPT's smaller models
    logits: Float[Tensor, "b *s v"] | None = None
