"""Bootstrap by cluster: whole documents are resampled with replacement, because their tokens belong together.

A draw is how often each document is in it. Sums over a drawn sample are products of these counts with sums per
document, so no sample is ever put together.
"""

from collections.abc import Iterator

import numpy as np
import pandas
from jaxtyping import Float, Int

DRAWS = 10**7  # the most that may be asked for: all are held in memory


def draws(clusters: int, count: int, seed: int) -> Iterator[Int[np.ndarray, " cluster"]]:
    """How often each cluster is in each of `count` samples; the same seed gives the same samples.

    One cluster alone gives none: resampled it is always itself, and an interval without width would deceive.
    """
    if clusters < 2:
        return
    chance = np.random.default_rng(seed)
    for _ in range(count):
        yield np.bincount(chance.integers(clusters, size=clusters), minlength=clusters)


def codes(cluster: pandas.Series) -> tuple[Int[np.ndarray, " n"], int]:
    """Each row's cluster, from 0, and how many there are."""
    numbers, values = pandas.factorize(cluster, sort=True)
    return numbers, len(values)


def mean_draws(
    values: Float[np.ndarray, " n"], cluster: Int[np.ndarray, " n"], clusters: int, count: int, seed: int
) -> Float[np.ndarray, " draw"]:
    """The mean of each sample; NaN where a sample has no value. Of one cluster there are no samples."""
    sums = np.bincount(cluster, values, minlength=clusters)
    sizes = np.bincount(cluster, minlength=clusters)
    totals = np.array([(drawn @ sums, drawn @ sizes) for drawn in draws(clusters, count, seed)]).reshape(-1, 2)
    return np.divide(totals[:, 0], totals[:, 1], out=np.full(len(totals), np.nan), where=totals[:, 1] > 0)


def interval(samples: Float[np.ndarray, " draw"], level: float) -> tuple[float, float]:
    """The percentile interval."""
    real = samples[~np.isnan(samples)]
    if not len(real):
        return np.nan, np.nan
    low, high = np.quantile(real, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
