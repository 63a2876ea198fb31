"""How large something is on average, and within which limits."""

from collections.abc import Sequence

import numpy as np
import pandas

from whence._arguments import seed_of, share, whole
from whence.stats.cells import cells, names
from whence.stats.resample import DRAWS, codes, interval, mean_draws


def means(
    table: pandas.DataFrame,
    value: str | Sequence[str],
    by: str | Sequence[str] = ("layer",),
    *,
    cluster: str | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pandas.DataFrame:
    """Mean, spread and interval of each value for each combination of `by`.

    The interval comes from resampled documents (`cluster`), or from Student's t, which takes rows to be independent.
    """
    share("level", level)
    resamples, seed = whole("resamples", resamples, 1, DRAWS), seed_of(seed)
    rows = []
    for name in names(value):
        for key, cell in cells(table, by, (name, cluster)):
            numbers = cell[name].to_numpy(dtype=np.float64)
            row = key | {"value": name, "n": len(numbers), "mean": numbers.mean(), "std": _spread(numbers)}
            if cluster is None:
                low, high = _student(numbers, level)
            else:
                places, count = codes(cell[cluster])
                row["clusters"] = count
                low, high = interval(mean_draws(numbers, places, count, resamples, seed), level)
            rows.append(row | {"low": low, "high": high})
    return pandas.DataFrame(rows)


def _spread(numbers: np.ndarray) -> float:
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan


def _student(numbers: np.ndarray, level: float) -> tuple[float, float]:
    from scipy import stats

    if len(numbers) < 2:
        return np.nan, np.nan
    half = stats.sem(numbers) * stats.t.ppf((1 + level) / 2, len(numbers) - 1)
    return float(numbers.mean() - half), float(numbers.mean() + half)
