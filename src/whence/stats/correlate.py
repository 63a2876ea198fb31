"""Do two measures rise and fall together?"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas
from jaxtyping import Float, Int

from whence._arguments import seed_of, share, whole
from whence.errors import BadInput
from whence.stats.cells import cells
from whence.stats.correct import corrected
from whence.stats.resample import DRAWS, codes, draws, interval

METHODS = ("spearman", "pearson")


def correlations(
    table: pandas.DataFrame,
    values: Sequence[str],
    by: str | Sequence[str] = ("layer",),
    *,
    method: str = "spearman",
    cluster: str | None = None,
    correction: str | None = "holm",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pandas.DataFrame:
    """Every two of the columns: the coefficient, its p-value (rows taken to be independent) and a bootstrap interval.

    The bootstrap resamples documents where `cluster` names them, else rows.

    Args:
        table: rows to compare, such as `run.tokens`
        values: the columns, every two of which are compared
        by: columns whose combinations are kept apart; () for none
        method: spearman or pearson
        cluster: the column of documents, whose rows belong together
        correction: holm, fdr, or None: for all rows together
        level: of the intervals
        resamples: how many times documents are drawn again
        seed: of what is drawn

    Returns:
        A DataFrame with a row for every two columns and combination of `by`.

    Examples:
        >>> import pandas
        >>> table = pandas.DataFrame({"layer": 1, "kind": ["noun", "verb"] * 4, "document": [0, 0, 1, 1, 2, 2, 3, 3]})
        >>> table["mixing"] = [0.1, 0.3, 0.2, 0.4, 0.2, 0.5, 0.1, 0.4]
        >>> table["attention"] = -table.mixing
        >>> found = whence.stats.correlations(table, ["mixing", "attention"], cluster="document")
        >>> round(float(found.r[0]), 2)
        -1.0
    """
    if method not in METHODS:
        raise BadInput(f"A correlation is one of {', '.join(METHODS)}, and {method!r} was given.")
    if len(values) < 2:
        raise BadInput("A correlation needs two columns.")
    share("level", level)
    resamples, seed = whole("resamples", resamples, 1, DRAWS), seed_of(seed)
    rows = []
    for first, second in combinations(values, 2):
        for key, cell in cells(table, by, (first, second, cluster)):
            x, y = (cell[name].to_numpy(dtype=np.float64) for name in (first, second))
            places, count = (np.arange(len(cell)), len(cell)) if cluster is None else codes(cell[cluster])
            low, high = _interval(x, y, method, places, count, level, resamples, seed)
            row = key | {"first": first, "second": second, "method": method, "n": len(cell)}
            row |= {} if cluster is None else {"clusters": count}
            rows.append(row | _coefficient(x, y, method) | {"low": low, "high": high})
    return corrected(pandas.DataFrame(rows), correction)


def _coefficient(x: np.ndarray, y: np.ndarray, method: str) -> dict[str, Any]:
    from scipy import stats

    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return {"r": np.nan, "p": np.nan}
    test = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[method](x, y)
    return {"r": float(test.statistic), "p": float(test.pvalue)}


def _interval(
    x: np.ndarray, y: np.ndarray, method: str, places: np.ndarray, count: int, level: float, resamples: int, seed: int
) -> tuple[float, float]:
    """The bootstrap interval, ranks taken anew in each sample; rows are weighted, no sample is put together."""
    ranked = [np.unique(values, return_inverse=True)[1] for values in (x, y)] if method == "spearman" else None
    coefficients = np.full(resamples, np.nan)
    for number, drawn in enumerate(draws(count, resamples, seed)):
        weights = drawn[places]
        a, b = (x, y) if ranked is None else (_ranks(order, weights) for order in ranked)
        coefficients[number] = _weighted(a, b, weights)
    return interval(coefficients, level)


def _ranks(order: Int[np.ndarray, " n"], weights: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Mid-ranks in the sample where row i occurs weights[i] times; `order` numbers the distinct values."""
    counts = np.bincount(order, weights)
    return (np.cumsum(counts) - (counts - 1) / 2)[order]


def _weighted(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Pearson's coefficient of the sample where row i occurs weights[i] times."""
    total = weights.sum()
    x, y = x - weights @ x / total, y - weights @ y / total
    spread = np.sqrt((weights @ (x * x)) * (weights @ (y * y)))
    return float(weights @ (x * y) / spread) if spread > 0 else np.nan
