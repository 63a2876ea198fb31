"""The options of every measure that has some, each a small dataclass; a measure's name alone means its defaults.

>>> import whence
>>> whence.measure(whence.load(), "Paris.", ["attention", whence.Contribution(error=0.05)]).attrs["measures"]
'attention,contribution'
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from whence._arguments import numbers, seed_of, share

# checks by option, the same for every measure that has it
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "tolerance": lambda value: share("tolerance", value, zero=True),
    "error": lambda value: share("error", value),
    "seed": seed_of,
    "sources": lambda value: tuple(numbers("source", value)),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """No options."""

    def __post_init__(self) -> None:
        for name in self.names() & _CHECKS.keys():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _CHECKS[name](value))

    @classmethod
    def names(cls) -> set[str]:
        return {option.name for option in fields(cls)}

    def values(self) -> dict[str, Any]:
        return {option.name: getattr(self, option.name) for option in fields(self)}


@dataclass(frozen=True, kw_only=True)
class _Tolerance(Options):
    """`tolerance`: singular values up to this share of the largest count as zero; by default within rounding."""

    tolerance: float | None = None


class Effective(_Tolerance):
    """Options of `effective`: its `tolerance`."""


class EffectiveCorrelation(_Tolerance):
    """Options of `effective_correlation`: its `tolerance`."""


class Null(_Tolerance):
    """Options of `null`: its `tolerance`."""


class ValueRank(_Tolerance):
    """Options of `value_rank`: its `tolerance`."""


class Minimum(_Tolerance):
    """Options of `minimum`: its `tolerance`."""


class MinimumSimplex(_Tolerance):
    """Options of `minimum_simplex`: its `tolerance`."""


@dataclass(frozen=True, kw_only=True)
class Block(Options):
    """`error`: the relative standard error that is allowed, for long texts; None is exact. `seed`: of the estimate."""

    error: float | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class _Flow(Options):
    """How the Jacobian is taken and read.

    norm     frobenius, spectral, or ones (the gradient of the sum): what a block of the Jacobian is measured by
    mode     exact, sketch, or auto, which is exact where that takes a few seconds
    error    of a sketch: the share of contribution that may be expected at the wrong source
    seed     of a sketch
    start    embedding: what enters the first block; sum: the sum of the embeddings before their norm
    sources  positions of these input tokens alone; all when None
    """

    norm: str = "frobenius"
    mode: str = "auto"
    error: float = 0.02
    seed: int = 0
    start: str = "embedding"
    sources: Iterable[int] | None = None


class Contribution(_Flow):
    """Options of `contribution`: how the Jacobian is taken (norm, mode, error, seed, start, sources)."""


class Jacobian(_Flow):
    """Options of `jacobian`: how the Jacobian is taken (norm, mode, error, seed, start, sources)."""


class Origin(_Flow):
    """Options of `origin`: how the Jacobian is taken (norm, mode, error, seed, start, sources)."""


@dataclass(frozen=True, kw_only=True)
class JacobianLocal(Options):
    """`norm`: frobenius, spectral or ones. `sources`: positions of these tokens alone."""

    norm: str = "frobenius"
    sources: Iterable[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Gradient(Options):
    """`start`: embedding, what enters the first block; sum, the sum of the embeddings before their norm."""

    start: str = "embedding"
