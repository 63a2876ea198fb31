"""What is kept of one forward pass: per block the attention, the values, and the residual stream around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, runtime_checkable

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
    """Token ids with their mask (True = a real token) and, for pairs, segment ids.

    With `inputs` the model reads these, as its own processor gave them (pixel_values, input_values), and nothing else:
    the ids then say how many tokens its blocks have, -1 where a token is none of a vocabulary's. With `split` the first
    tokens, so many, are those of an encoder's text, and the others the decoder's; with `encoded`, what the encoder gave
    for its own, the encoder does not run again.
    """

    ids: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    segments: Int[Tensor, "b s"] | None = None
    inputs: Mapping[str, Tensor] | None = None
    split: int | None = None
    encoded: Float[Tensor, "b e m"] | None = None

    @classmethod
    def of_both(cls, source: "Batch", prefix: "Batch") -> "Batch":
        """The encoder's text and the decoder's, side by side."""
        ids, mask = (torch.cat([getattr(part, name) for part in (source, prefix)], dim=1) for name in ("ids", "mask"))
        return cls(ids, mask, inputs=source.inputs, split=source.ids.shape[1])

    @property
    def source(self) -> "Batch":
        """What the encoder reads."""
        return Batch(self.ids[:, : self.split], self.mask[:, : self.split], inputs=self.inputs)

    @property
    def prefix(self) -> "Batch":
        """What the decoder reads; all of it where there is no encoder."""
        if self.split is None:
            return self
        return Batch(self.ids[:, self.split :], self.mask[:, self.split :])

    @classmethod
    def of_inputs(cls, inputs: Mapping[str, Tensor], tokens: int) -> "Batch":
        """One picture or sound, of which the blocks have so many tokens; with a text, the text's ids."""
        ids = inputs.get("input_ids", torch.full((1, tokens), -1))
        return cls(ids, torch.ones_like(ids, dtype=torch.bool), inputs=inputs)


@dataclass(frozen=True)
class Margins:
    """Of every row of attention, the target's own weight, that of the first token, and the sum: all that is kept of a
    long text's.
    """

    own: Float[Tensor, "b h t"]
    first: Float[Tensor, "b h t"]
    total: Float[Tensor, "b h t"]

    @classmethod
    def of(cls, weights: Float[Tensor, "b h t s"], columns: Int[Tensor, " t"], from_first: bool = True) -> "Margins":
        """`columns` say where each target's own weight is; zero where it is none of these sources."""
        inside = (columns >= 0) & (columns < weights.shape[-1])
        rows = torch.arange(len(columns), device=columns.device)
        own = weights[:, :, rows, columns.clamp(0, weights.shape[-1] - 1)] * inside
        first = weights[..., 0].clone() if from_first else torch.zeros_like(own)
        return cls(own, first, weights.sum(dim=-1))

    @classmethod
    def joined(cls, parts: Sequence["Margins"]) -> "Margins":
        names = ("own", "first", "total")
        return cls(**{name: torch.cat([getattr(part, name) for part in parts], dim=-1) for name in names})

    def at(self, targets: Int[Tensor, " t"]) -> "Margins":
        return Margins(self.own[..., targets], self.first[..., targets], self.total[..., targets])

    def of_rows(self, sentences: slice, targets: slice) -> "Margins":
        return Margins(*(part[sentences, :, targets] for part in (self.own, self.first, self.total)))


@runtime_checkable
class Rows(Protocol):
    """An attention that gives the weights of any targets, and the rows of its mask."""

    def weights(self, targets: Int[Tensor, " t"]) -> Float[Tensor, "b h t s"]: ...

    def mask_of(self, targets: Int[Tensor, " t"]) -> Tensor | None: ...


@dataclass(frozen=True)
class Cross:
    """A block's attention to the states of an encoder: as its own attention, but that sources are other tokens."""

    attention: Float[Tensor, "b h t s"]
    grouped_values: Float[Tensor, "b g s d"]
    mask: Bool[Tensor, "b #h #t s"] | Float[Tensor, "b #h #t s"] | None
    projected: Float[Tensor, "b t m"] | None


@dataclass(frozen=True)
class Block:
    """One block of one forward pass. Heads that share values (grouped queries) share them here too.

    Seen from some of its `targets` it has their rows alone, of all but the values. Of a long text it has no attention
    (no sources), but the `margins` of its rows, and `rows` to ask for the weights of some targets.

    In a decoder with an encoder `cross` is the attention to that; with `crosses` the block is that attention alone, of
    which no target is a source.
    """

    layer: int
    attention: Float[Tensor, "b h t _"]
    grouped_values: Float[Tensor, "b g s d"]
    mask: Bool[Tensor, "b #h #t s"] | Float[Tensor, "b #h #t s"] | None
    input: Float[Tensor, "b t m"]
    projected: Float[Tensor, "b t m"] | None
    output: Float[Tensor, "b t m"]
    "NaN where the pass ended before it."
    parts: Parts | None
    targets: Int[Tensor, " t"] | None = None
    "The places of its targets among the sources; None: they are all there, in order."
    margins: Margins | None = None
    rows: Rows | None = None
    cross: Cross | None = None
    crosses: bool = False

    @property
    def crossing(self) -> "Block":
        """The attention to the encoder, as a block of its own."""
        assert self.cross is not None
        across = None if self.parts is None or self.parts.cross is None else self.parts.cross
        known = None if self.parts is None or across is None else replace(self.parts, **vars(across), cross=None)
        read = self.input if known is None else self.attended
        return replace(self, input=read, parts=known, cross=None, crosses=True, **vars(self.cross))

    def at(self, targets: Int[Tensor, " t"], weights: bool = True) -> "Block":
        """The block as some targets see it; of their rows the margins alone where weights are not wanted."""
        targets = targets.to(self.input.device)
        if self.rows is None:
            attention, mask = self.attention[:, :, targets], _rows_of(self.mask, targets)
        elif weights:
            attention, mask = self.rows.weights(targets), self.rows.mask_of(targets)
        else:
            attention, mask = self.attention[:, :, targets], None
        return replace(
            self,
            attention=attention,
            mask=mask,
            input=self.input[:, targets],
            projected=None if self.projected is None else self.projected[:, targets],
            output=self.output[:, targets],
            targets=targets,
            margins=Margins.of(attention, targets) if self.margins is None else self.margins.at(targets),
            rows=None,
        )

    @property
    def whole(self) -> "Block":
        """With all of the attention, of a long text too."""
        if self.rows is None:
            return self
        every = torch.arange(self.input.shape[1], device=self.input.device)
        return replace(self.at(every), targets=None, margins=None)

    @property
    def places(self) -> Int[Tensor, " t"]:
        """Of the targets among the sources."""
        return torch.arange(self.input.shape[1], device=self.input.device) if self.targets is None else self.targets

    @property
    def own_weights(self) -> Float[Tensor, "b h t"]:
        """A_ii."""
        if self.crosses:
            return self.attention.new_zeros(self.attention.shape[:-1])
        return self.attention.diagonal(dim1=-2, dim2=-1) if self.margins is None else self.margins.own

    @property
    def own_values(self) -> Float[Tensor, "b h t d"]:
        return self.values if self.targets is None else self.values[:, :, self.targets]

    def of_targets(self, mask: Bool[Tensor, "b s"]) -> Bool[Tensor, "b t"]:
        """Of what is known of every token, that of the targets."""
        if self.crosses:  # of one text
            return mask.new_ones(self.input.shape[:2], device=self.input.device)
        mask = mask.to(self.input.device)
        return mask if self.targets is None else mask[:, self.targets]

    def on_own(self, cells: Float[Tensor, "*b t s"], values: Tensor) -> Float[Tensor, "*b t s"]:
        """The same cells, but the targets' own are these values."""
        if self.crosses:
            return cells
        cells[..., torch.arange(cells.shape[-2], device=cells.device), self.places] = values
        return cells

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
    def attended(self) -> Float[Tensor, "b t m"]:
        """The state past the attention to the block's own tokens."""
        after = self._parts.attention_norms.after
        return self.before_norm if after is None else after(self.before_norm)

    @property
    def joined(self) -> Float[Tensor, "b t m"]:
        """That state and what the attention to an encoder adds: what the norm behind it reads, where there is one."""
        assert self.cross is not None and self.cross.projected is not None
        return self.attended + self.cross.projected

    @property
    def middle(self) -> Float[Tensor, "b t m"]:
        """The state between attention and feed-forward."""
        if self.cross is None:
            return self.attended
        assert self._parts.cross is not None
        after = self._parts.cross.attention_norms.after
        return self.joined if after is None else after(self.joined)

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


def _rows_of(mask: Tensor | None, targets: Int[Tensor, " t"]) -> Tensor | None:
    """A mask that is the same for all targets stays as it is."""
    return mask if mask is None or mask.shape[-2] == 1 else mask[..., targets, :]


@dataclass(frozen=True)
class Trace(Generic[Kept]):
    """A forward pass: layer 0, what was kept of every block, and the stack's output past the final norm."""

    batch: Batch
    embedding: Float[Tensor, "b s m"]
    blocks: tuple[Kept, ...]
    output: Float[Tensor, "b s n"]  # as wide as the stream, but for OPT's smaller models
    logits: Float[Tensor, "b *s v"] | None = None
