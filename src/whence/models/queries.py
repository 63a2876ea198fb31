"""Attention a chunk of queries at a time: the model file's own, without a tensor of all pairs of tokens.

Rows of attention do not depend on each other, so some queries give the same rows as all of them. Of the weights of a
long text nothing is kept but margins; those of any targets can be computed again from queries and keys. Masks are made
for the rows at hand, and sources that no row of a chunk may see, as a decoder's future, are left out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.masking_utils import eager_mask

from whence.models.block import FORBIDDEN, Margins

# entries of attention, of all heads and sentences, that are computed at a time, and that a measure is given of a longer
# text (benchmarks length)
WHOLE, ROWS = 2**23, 2**24
Eager = Callable[..., tuple[Tensor, Tensor]]
_at_once: ContextVar[int | None] = ContextVar("at_once", default=None)


def at_once(batch: int, heads: int, tokens: int) -> int | None:
    """How many queries go through the attention at a time; None where all do."""
    row = batch * max(1, heads) * tokens
    return None if row * tokens <= WHOLE else max(1, WHOLE // row)


def rows_at_once(heads: int, tokens: int) -> int:
    """How many rows of a long text a measure is given at a time."""
    return max(1, ROWS // (max(1, heads) * tokens))


@contextmanager
def chunked(queries: int | None) -> Iterator[None]:
    """Inside, attention is computed for so many queries at a time, and masks are made for those alone."""
    token = _at_once.set(queries)
    try:
        yield
    finally:
        _at_once.reset(token)


@dataclass(frozen=True, eq=False)
class Attending:
    """One call of the model file's eager attention, which gives the weights of any targets when they are asked for.

    `margins` are all that is known of the weights before that.
    """

    eager: Eager
    module: nn.Module
    query: Float[Tensor, "b h t d"]
    key: Float[Tensor, "b g s d"]
    value: Float[Tensor, "b g s e"]
    mask: Tensor | None
    settings: dict[str, Any]
    margins: Margins | None = None

    def all_at_once(self) -> tuple[Tensor, Tensor | None]:
        return self.eager(self.module, self.query, self.key, self.value, self.mask, **self.settings)

    def weights(self, targets: Int[Tensor, " t"]) -> Float[Tensor, "b h t s"]:
        return self._of(targets, slice(0, self.key.shape[2]))[1]

    def mask_of(self, targets: Int[Tensor, " t"]) -> Tensor | None:
        return self._rows(self.mask, targets, slice(0, self.key.shape[2]))

    def in_chunks(self, size: int) -> tuple[Float[Tensor, "b t h e"], "Attending"]:
        """What the heads give, and this with the margins of the weights.

        Of a decoder the last queries see most sources. They go first, so that what they leave has room for the others.
        """
        outputs, margins = [], []
        for targets in reversed(torch.arange(self.query.shape[2], device=self.query.device).split(size)):
            sources = self._seen(targets)
            output, weights = self._of(targets, sources)
            outputs.append(output)
            margins.append(Margins.of(weights, targets - sources.start, sources.start == 0))
            del weights  # before the next are made
        return torch.cat(outputs[::-1], dim=1), replace(self, margins=Margins.joined(margins[::-1]))

    def _of(self, targets: Int[Tensor, " t"], sources: slice) -> tuple[Tensor, Tensor]:
        key, value = self.key[:, :, sources], self.value[:, :, sources]
        settings = {name: self._rows(setting, targets, sources) for name, setting in self.settings.items()}
        mask = self._rows(self.mask, targets, sources)
        return self.eager(self.module, self.query[:, :, targets], key, value, mask, **settings)

    def _rows(self, setting: Any, targets: Int[Tensor, " t"], sources: slice) -> Any:
        """Of a mask or a bias of all pairs, those of these targets and sources; anything else as it is."""
        if (recipe := _recipe(setting)) is not None:
            return recipe.made(targets, sources)
        if not isinstance(setting, Tensor) or setting.ndim != 4 or setting.shape[-1] != self.key.shape[2]:
            return setting
        if setting.shape[-2] == self.query.shape[2]:
            setting = setting[..., targets, :]
        return setting[..., sources]

    def _seen(self, targets: Int[Tensor, " t"]) -> slice:
        recipe = _recipe(self.mask)
        return slice(0, self.key.shape[2]) if recipe is None else recipe.seen(targets)


def attend(attending: Attending) -> tuple[Tensor, Tensor | Attending | None]:
    """What the heads give, and the weights or, of a long text, what makes them again."""
    size = _at_once.get()
    return attending.all_at_once() if size is None else attending.in_chunks(size)


@dataclass(frozen=True, eq=False)
class _Recipe:
    """How to make the rows of a mask; remembers which sources a chunk of targets sees."""

    settings: dict[str, Any]
    ranges: dict[tuple[int, int], slice] = field(default_factory=dict)

    def made(self, targets: Int[Tensor, " t"], sources: slice) -> Tensor:
        """Of targets in a row at once, of others one by one."""
        breaks = ((targets.diff() != 1).nonzero().flatten() + 1).tolist()
        parts = [self._run(int(run[0]), len(run), sources) for run in targets.tensor_split(breaks)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)

    def seen(self, targets: Int[Tensor, " t"]) -> slice:
        place = int(targets[0]), len(targets)
        if place not in self.ranges:
            every = slice(0, self.settings["kv_length"])
            allowed = self.made(targets, every).amax(dim=(0, 1, 2)).gt(FORBIDDEN / 2).nonzero()
            self.ranges[place] = slice(int(allowed[0]), int(allowed[-1]) + 1) if len(allowed) else every
        return self.ranges[place]

    def _run(self, first: int, count: int, sources: slice) -> Tensor:
        setting = self.settings
        rows = {"q_length": count, "q_offset": setting.get("q_offset", 0) + first}
        columns = {
            "kv_length": sources.stop - sources.start,
            "kv_offset": setting.get("kv_offset", 0) + sources.start,
        }
        made = finite_mask(**setting | rows | columns | {"allow_is_bidirectional_skip": False})
        assert made is not None
        return made


def mask_for_chunks(**settings: Any) -> Tensor | None:
    """transformers' additive mask; where attention is computed in chunks, its place is taken by a tensor that takes no
    memory, knows how to make rows, and is NaN to whatever reads it otherwise.
    """
    if _at_once.get() is None:
        return finite_mask(**settings)
    first = finite_mask(**settings | {"q_length": 1})
    if first is None:
        return None
    mask = first.new_full((), torch.nan).expand(len(first), 1, settings["q_length"], settings["kv_length"])
    mask.whence_recipe = _Recipe(settings)  # type: ignore[attr-defined]
    return mask


def finite_mask(**settings: Any) -> Tensor | None:
    """transformers' additive mask, kept finite in float32: its softmax is computed there even in float64 models, and
    the lowest float64 would turn the rows of padding into NaN (transformers 5.22).
    """
    mask = eager_mask(**settings)
    return mask.clamp(min=torch.finfo(torch.float32).min) if mask is not None and mask.dtype == torch.float64 else mask


def _recipe(mask: Any) -> _Recipe | None:
    return getattr(mask, "whence_recipe", None)
