"""Is one group of tokens or pairs different from another, by how much, and could it be chance?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas

from whence._arguments import seed_of, share, whole
from whence.errors import BadInput
from whence.stats.cells import cells, names
from whence.stats.correct import corrected
from whence.stats.resample import DRAWS, codes, interval, mean_draws

# numbers that a permutation test holds at once
ROOM = 20_000_000


def contrasts(
    table: pandas.DataFrame,
    value: str | Sequence[str],
    group: str,
    by: str | Sequence[str] = ("layer",),
    *,
    pairs: Sequence[tuple[Any, Any]] | None = None,
    cluster: str | None = None,
    correction: str | None = "holm",
    level: float = 0.95,
    permutations: int = 9999,
    resamples: int = 2000,
    seed: int = 0,
) -> pandas.DataFrame:
    """Two groups at a time: means, their difference with an interval, effect sizes, two tests, corrected.

    d, g             Cohen's, the difference in pooled standard deviations; Hedges', without its bias in small samples
    t, df, p         Welch's test, which takes rows to be independent and variances to be what they are
    p_permutation    share of random labellings with a difference as large. With `cluster`, of random signs of the
                     documents' own differences (only documents with both groups count), and `low`, `high` come from
                     resampled documents instead of Welch's interval

    Args:
        table: rows to compare, such as `run.tokens`
        value: the column of numbers, or several
        group: the column that says which group a row is in
        by: columns whose combinations are kept apart; () for none
        pairs: which groups are compared; every two unless given
        cluster: the column of documents, whose rows belong together
        correction: holm, fdr, or None: for all rows together
        level: of the intervals
        permutations: how many labellings the permutation test draws
        resamples: how many times documents are drawn again
        seed: of what is drawn

    Returns:
        A DataFrame with a row for every value, combination of `by`, and two groups.

    Examples:
        >>> import pandas
        >>> table = pandas.DataFrame({"layer": 1, "kind": ["noun", "verb"] * 4, "document": [0, 0, 1, 1, 2, 2, 3, 3]})
        >>> table["mixing"] = [0.1, 0.3, 0.2, 0.4, 0.2, 0.5, 0.1, 0.4]
        >>> found = whence.stats.contrasts(table, "mixing", "kind", cluster="document")
        >>> found[["first", "second", "difference"]].round(2).values.tolist()
        [['noun', 'verb', -0.25]]
    """
    share("level", level)
    resamples, seed = whole("resamples", resamples, 1, DRAWS), seed_of(seed)
    permutations = whole("permutations", permutations, 0, DRAWS)
    how = _How(cluster, level, permutations, resamples, seed)
    groups = set(table[group].unique()) if group in table else set()
    if wrong := [side for pair in pairs or () for side in pair if groups and side not in groups]:
        raise BadInput(f"{group!r} is never {wrong[0]!r}; it is one of {', '.join(sorted(map(str, groups)))}.")
    rows = [
        key | {"value": name, "first": first, "second": second} | _contrast(cell, name, group, (first, second), how)
        for name in names(value)
        for key, cell in cells(table, by, (name, group, cluster))
        for first, second in pairs or _pairs(cell[group])
    ]
    result = pandas.DataFrame(rows)
    return corrected(corrected(result, correction, "p"), correction, "p_permutation")


@dataclass(frozen=True)
class _How:
    cluster: str | None
    level: float
    permutations: int
    resamples: int
    seed: int


def _contrast(cell: pandas.DataFrame, name: str, group: str, sides: tuple[Any, Any], how: _How) -> dict[str, Any]:
    samples = [cell[cell[group] == side] for side in sides]
    first, second = (rows[name].to_numpy(dtype=np.float64) for rows in samples)
    row = _effect(first, second) | _welch(first, second, how.level)
    if how.cluster is None:
        return row | {"p_permutation": _permuted((first, second), how)}
    clusters = [rows[how.cluster] for rows in samples]
    row |= _by_cluster((first, second), clusters, how)
    return row | {"p_permutation": _permuted((_differences((first, second), clusters),), how)}


def _pairs(group: pandas.Series) -> list[tuple[Any, Any]]:
    """Every two groups; of yes and no, yes first."""
    values = sorted(group.unique(), reverse=set(group.unique()) <= {True, False})
    if len(values) < 2:
        raise BadInput(f"A contrast needs two groups, and {group.name!r} is always {values[0]}.")
    return list(combinations(values, 2))


def _effect(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """g = d J(df), J(df) = gamma(df / 2) / (sqrt(df / 2) gamma((df - 1) / 2)) (Hedges 1981)."""
    from scipy.special import gammaln

    counts = {"n_first": len(first), "n_second": len(second)}
    if not len(first) or not len(second):
        return counts | dict.fromkeys(("mean_first", "mean_second", "difference", "d", "g"), np.nan)
    difference, freedom = first.mean() - second.mean(), len(first) + len(second) - 2
    squares = first.var() * len(first) + second.var() * len(second)
    size = difference / np.sqrt(squares / freedom) if freedom > 0 and squares > 0 else np.nan
    unbiased = (
        np.exp(gammaln(freedom / 2) - gammaln((freedom - 1) / 2)) / np.sqrt(freedom / 2) if freedom > 1 else np.nan
    )
    means = {"mean_first": first.mean(), "mean_second": second.mean(), "difference": difference}
    return counts | means | {"d": size, "g": size * unbiased}


def _welch(first: np.ndarray, second: np.ndarray, level: float) -> dict[str, Any]:
    from scipy import stats

    if min(len(first), len(second)) < 2 or first.std() == second.std() == 0:
        return dict.fromkeys(("low", "high", "t", "df", "p"), np.nan)
    test = stats.ttest_ind(first, second, equal_var=False)
    limits = test.confidence_interval(level)
    return {"low": limits.low, "high": limits.high, "t": test.statistic, "df": test.df, "p": test.pvalue}


def _by_cluster(numbers: Sequence[np.ndarray], clusters: Sequence[pandas.Series], how: _How) -> dict[str, Any]:
    places, count = codes(pandas.concat(clusters))
    by_side = np.split(places, [len(numbers[0])])
    first, second = (mean_draws(*side, count, how.resamples, how.seed) for side in zip(numbers, by_side, strict=True))
    low, high = interval(first - second, how.level)
    return {"clusters": count, "low": low, "high": high}


def _differences(numbers: Sequence[np.ndarray], clusters: Sequence[pandas.Series]) -> np.ndarray:
    """Of each cluster that has both groups, the difference of its means."""
    first, second = (
        pandas.Series(values).groupby(cluster.to_numpy()).mean()
        for values, cluster in zip(numbers, clusters, strict=True)
    )
    return (first - second).dropna().to_numpy()


def _permuted(numbers: Sequence[np.ndarray], how: _How) -> float:
    """The p-value: of two samples by exchanging labels, of one sample of differences by flipping signs."""
    from scipy import stats

    if not how.permutations or min(len(sample) for sample in numbers) < 2:
        return np.nan
    statistic, kind = (_mean, "samples") if len(numbers) == 1 else (_difference, "independent")
    batch = max(1, ROOM // sum(len(sample) for sample in numbers))
    test = stats.permutation_test(
        tuple(numbers),
        statistic,
        permutation_type=kind,
        vectorized=True,
        n_resamples=how.permutations,
        batch=batch,
        rng=np.random.default_rng(how.seed),
    )
    return float(test.pvalue)


def _mean(values: np.ndarray, axis: int) -> np.ndarray | np.float64:
    return values.mean(axis=axis)


def _difference(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray | np.float64:
    return first.mean(axis=axis) - second.mean(axis=axis)
