"""Count, mean, spread and extremes by group, mergeable: two halves of a corpus give what the whole gives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas
from jaxtyping import Float, Int, Shaped

NAMES = ("count", "mean", "m2", "minimum", "maximum")


@dataclass(frozen=True, eq=False)
class Moments:
    """Arrays of one shape; `m2` is the sum of squared differences from the mean. Empty: 0, 0, 0, inf, -inf."""

    count: Int[np.ndarray, "*shape"]
    mean: Float[np.ndarray, "*shape"]
    m2: Float[np.ndarray, "*shape"]
    minimum: Float[np.ndarray, "*shape"]
    maximum: Float[np.ndarray, "*shape"]


def grouped(values: Shaped[np.ndarray, "*axes n"], codes: Int[np.ndarray, " n"], groups: int) -> Moments:
    """Moments of the last axis by group; `codes` gives each value's group, from 0. NaN does not count."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    moments = _empty((*values.shape[:-1], groups))
    if not len(present):
        return moments
    chosen = values[..., order].astype(np.float64)
    real = ~np.isnan(chosen)
    count = np.add.reduceat(real, starts, axis=-1, dtype=np.int64)
    mean = np.add.reduceat(np.where(real, chosen, 0), starts, axis=-1) / np.maximum(count, 1)
    away = chosen - np.repeat(mean, np.diff([*starts, len(order)]), axis=-1)
    moments.count[..., present], moments.mean[..., present] = count, mean
    moments.m2[..., present] = np.add.reduceat(np.where(real, away, 0) ** 2, starts, axis=-1)
    moments.minimum[..., present] = np.minimum.reduceat(np.where(real, chosen, np.inf), starts, axis=-1)
    moments.maximum[..., present] = np.maximum.reduceat(np.where(real, chosen, -np.inf), starts, axis=-1)
    return moments


def merge(first: Moments, second: Moments) -> Moments:
    """The moments of both together (Chan, Golub & LeVeque 1979).

    n = n1 + n2,  mean = mean1 + d n2 / n,  m2 = m2_1 + m2_2 + d^2 n1 n2 / n,  d = mean2 - mean1
    """
    count = first.count + second.count
    share = second.count / np.maximum(count, 1)
    apart = second.mean - first.mean
    return Moments(
        count,
        first.mean + apart * share,
        first.m2 + second.m2 + apart**2 * first.count * share,
        np.minimum(first.minimum, second.minimum),
        np.maximum(first.maximum, second.maximum),
    )


def merged(tables: Iterable[pandas.DataFrame], keys: Sequence[str]) -> pandas.DataFrame:
    """One row for every value of the keys, from tables with a column per moment; only two tables are held at a time."""
    total: pandas.DataFrame | None = None
    for table in tables:
        total = table if total is None else _merged(pandas.concat([total, table], ignore_index=True), list(keys))
    if total is None:
        return pandas.DataFrame(columns=[*keys, *NAMES])
    return total.sort_values(list(keys), ignore_index=True, kind="stable")


def _merged(table: pandas.DataFrame, keys: list[str]) -> pandas.DataFrame:
    """Chan's formula for any number of rows: m2 = sum m2_i + sum n_i (mean_i - mean)^2."""
    group = table.groupby(keys, dropna=False, sort=False, observed=True).ngroup()
    weighted = table["mean"] * table["count"] / table["count"].groupby(group).transform("sum")
    mean = weighted.groupby(group).transform("sum")
    joined = table.assign(mean=mean, m2=table["m2"] + table["count"] * (table["mean"] - mean) ** 2)
    how = dict.fromkeys(keys, "first") | {"count": "sum", "mean": "first", "m2": "sum"}
    return joined.groupby(group).agg(how | {"minimum": "min", "maximum": "max"}).reset_index(drop=True)


def _empty(shape: tuple[int, ...]) -> Moments:
    return Moments(
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        np.zeros(shape),
        np.full(shape, np.inf),
        np.full(shape, -np.inf),
    )
