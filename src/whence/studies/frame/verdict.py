"""Confirmed, contradicted or undecided: where the interval of an estimate lies, never the estimate alone.

The interval of one model is its estimate and Student's t times the standard error from documents drawn again. Of
several models it is their mean; its error has two parts, documents drawn again (the same for every model) and the
spread between the models. Where a finding has several parts, all have to hold, and their intervals are widened to hold
together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.stats.estimate import Estimate
from whence.studies.frame.published import published

LEVEL = 0.95
FEWEST = 5  # documents; with fewer nothing is decided
Verdict = Literal["confirmed", "contradicted", "undecided"]


@dataclass(frozen=True)
class Criterion:
    """What a kind of claim asks for: an interval wholly above and below these limits. Wholly outside contradicts it."""

    of: str = ""
    "What the limits are limits of, where that has a name."
    above: float = -np.inf
    below: float = np.inf
    span: tuple[float, float] = (-np.inf, np.inf)
    "What the statistic can be at all; no interval is written beyond it."

    @classmethod
    def named(cls, name: str) -> "Criterion":
        """That of published.json, which holds the limits beside the published numbers."""
        row = published("criteria", name)
        low, high = row.get("span", (None, None))
        span = (-np.inf if low is None else low, np.inf if high is None else high)
        return cls(row.get("of", ""), row.get("above", -np.inf), row.get("below", np.inf), span)

    def asks(self, form: str) -> str:
        """In words: `a rank correlation below -0.3`; per cent where the claim's numbers are."""
        sides = {"above": self.above, "below": self.below}
        limits = [f"{side} {_written(limit, form)}" for side, limit in sides.items() if np.isfinite(limit)]
        return f"{self.of} {' and '.join(limits)}".strip()

    def verdict(self, low: float, high: float) -> Verdict:
        if np.isnan(low) or np.isnan(high):
            return "undecided"
        if low > self.above and high < self.below:
            return "confirmed"
        return "contradicted" if high <= self.above or low >= self.below else "undecided"


def _written(limit: float, form: str) -> str:
    return f"{100 * limit:.3g}%" if form.endswith("%") else f"{limit:.3g}"


# one criterion for each kind of claim; a study that makes another kind adds its own beside its claims
MORE, MUCH, HARDLY, ALIKE = map(Criterion.named, ("more", "much", "hardly", "alike"))
MOST, LESS_THAN_HALF = map(Criterion.named, ("most", "less than half"))
FALLS, RISES, SAME, RELATED = map(Criterion.named, ("falls", "rises", "same", "related"))


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float
    documents: int
    models: int
    unit: str = "documents"

    @property
    def few(self) -> bool:
        """Whether there are too few documents to say anything; weights alone have none and need none."""
        return 0 < self.documents < FEWEST


def interval(estimates: Sequence[Estimate], level: float = LEVEL) -> Interval:
    """The mean of the models' estimates and its limits; of one model, its own.

    The error of the mean: se^2 = n / (n - 1) var(draws of the mean) + var(estimates) / m, for n documents and m models,
    and Student's t with the degrees of freedom of the fewer. (Welch and Satterthwaite's are too many where two or three
    models agree by chance.)
    """
    from scipy import stats

    values = np.array([estimate.value for estimate in estimates])
    documents, models = min(estimate.documents for estimate in estimates), len(values)
    value, unit = float(values.mean()), estimates[0].unit
    variances: list[float] = []
    freedom: list[int] = []
    if documents > 1:
        drawn = np.mean([estimate.draws for estimate in estimates], axis=0)
        known = drawn[np.isfinite(drawn)]
        variances.append(float(known.var(ddof=1)) * documents / (documents - 1) if len(known) > 1 else np.nan)
        freedom.append(documents - 1)
    if models > 1:
        variances.append(float(values.var(ddof=1)) / models)
        freedom.append(models - 1)
    total = sum(variances)
    if not total > 0:  # nothing varies, or nothing is known
        return Interval(value, value + total, value + total, documents, models, unit)
    half = float(stats.t.ppf((1 + level) / 2, min(freedom)) * np.sqrt(total))
    return Interval(value, value - half, value + half, documents, models, unit)


def intervals(parts: Mapping[str, Sequence[Estimate]]) -> dict[str, Interval]:
    """The interval of each part of a finding, widened (Bonferroni) so that all hold together."""
    level = 1 - (1 - LEVEL) / len(parts)
    return {name: interval(estimates, level) for name, estimates in parts.items()}


def verdict(parts: Mapping[str, Interval], criterion: Criterion | Mapping[str, Criterion]) -> Verdict:
    """Confirmed if every part is; contradicted if one is. Parts may have criteria of their own, by their names."""
    criteria = criterion if isinstance(criterion, Mapping) else dict.fromkeys(parts, criterion)
    verdicts = {
        "undecided" if part.few else criteria[name].verdict(part.low, part.high) for name, part in parts.items()
    }
    if "contradicted" in verdicts:
        return "contradicted"
    return "confirmed" if verdicts == {"confirmed"} else "undecided"
