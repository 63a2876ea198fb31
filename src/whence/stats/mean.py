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

    Args:
        table: rows to compare, such as `run.tokens`
        value: the column of numbers, or several
        by: columns whose combinations are kept apart; () for none
        cluster: the column of documents, whose rows belong together
        level: of the intervals
        resamples: how many times documents are drawn again
        seed: of what is drawn

    Returns:
        A DataFrame with a row for every value and combination of `by`; the interval is `low`, `high`.

    Examples:
        >>> import pandas
        >>> table = pandas.DataFrame({"layer": 1, "kind": ["noun", "verb"] * 4, "document": [0, 0, 1, 1, 2, 2, 3, 3]})
        >>> table["mixing"] = [0.1, 0.3, 0.2, 0.4, 0.2, 0.5, 0.1, 0.4]
        >>> whence.stats.means(table, "mixing", by="kind", cluster="document")[["kind", "n", "mean"]].values.tolist()
        [['noun', 4, 0.15], ['verb', 4, 0.4]]
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
