"""One number of a corpus, and how far it could be off: the same number of documents drawn again.

An estimate is a *reading* of cell means: the mean of a column for every combination of some others, and a function that
makes one number of these means, such as a difference of two of them or their rank correlation with the layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from jaxtyping import Float

from whence.stats.cells import cells, names
from whence.stats.resample import draws

RESAMPLES = 400  # for a standard error; it is then off by 4 %
SEED = 0  # the same documents are drawn for every model, so that their shared part is known
Read = Callable[[pandas.Series], float]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number, the same of documents drawn again, and how many documents there are."""

    value: float
    draws: Float[np.ndarray, " draw"]
    documents: int
    unit: str = "documents"
    "What was drawn again; folds of an experiment instead of documents, for example."

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference; draws are of the same documents."""
        documents = min(self.documents, other.documents)
        return Estimate(self.value - other.value, self.draws - other.draws, documents, self.unit)


def estimate(
    table: pandas.DataFrame,
    value: str,
    by: str | Sequence[str],
    read: Read,
    *,
    cluster: str = "document",
    weight: str | None = None,
    median: bool = False,
    resamples: int = RESAMPLES,
) -> Estimate:
    """`read` of the means (or medians) of `value` in the cells of `by`, with documents drawn again `resamples` times.

    `read` gets a Series indexed by the columns of `by`, NaN where a draw has no row of a cell; of means, rows may count
    as often as `weight` says. Without `by` there is one cell, and `read` may be `single`.
    """
    by = names(by)
    _, complete = next(iter(cells(table, (), (value, *by, cluster, weight))))
    if not by:
        by, complete = ["all"], complete.assign(all="all")
    places = complete.groupby(by, sort=True, observed=True).ngroup().to_numpy()
    index = complete.groupby(by, sort=True, observed=True).size().index
    codes, documents = pandas.factorize(complete[cluster], sort=True)
    values = complete[value].to_numpy(dtype=np.float64)
    weights = np.ones(len(values)) if weight is None else complete[weight].to_numpy(dtype=np.float64)
    of = _medians(values, places, codes, len(index)) if median else _means(values, weights, places, codes, len(index))
    every = np.ones(len(documents))
    drawn = [read(pandas.Series(of(counts), index)) for counts in draws(len(documents), resamples, SEED)]
    return Estimate(float(read(pandas.Series(of(every), index))), np.array(drawn, dtype=np.float64), len(documents))


def single(means: pandas.Series) -> float:
    """The reading of one cell: its mean."""
    return float(means.iloc[0])


def constant(value: float) -> Estimate:
    """A number that no document has a part in, such as one of the weights alone."""
    return Estimate(value, np.full(RESAMPLES, value), 0)


Of = Callable[[np.ndarray], Float[np.ndarray, " cell"]]


def _means(values: np.ndarray, weights: np.ndarray, places: np.ndarray, codes: np.ndarray, count: int) -> Of:
    """From how often each document is drawn to the mean of each cell; rows are summed by document and cell once."""
    keys, which = np.unique(places * (codes.max() + 1) + codes, return_inverse=True)
    cell, document = np.divmod(keys, codes.max() + 1)
    sums, sizes = np.bincount(which, weights * values), np.bincount(which, weights)

    def of(counts: np.ndarray) -> np.ndarray:
        drawn = counts[document]
        totals = np.bincount(cell, drawn * sizes, minlength=count)
        amounts = np.bincount(cell, drawn * sums, minlength=count)
        return np.divide(amounts, totals, out=np.full(count, np.nan), where=totals > 0)

    return of


def _medians(values: np.ndarray, places: np.ndarray, codes: np.ndarray, count: int) -> Of:
    """The same of medians: the value at which half of the drawn rows are reached."""
    cells_of = [np.flatnonzero(places == cell) for cell in range(count)]
    sorted_by = [rows[np.argsort(values[rows], kind="stable")] for rows in cells_of]

    def of(counts: np.ndarray) -> np.ndarray:
        medians = np.full(count, np.nan)
        for cell, rows in enumerate(sorted_by):
            reached = np.cumsum(counts[codes[rows]])
            if reached[-1]:
                medians[cell] = values[rows[np.searchsorted(reached, reached[-1] / 2)]]
        return medians

    return of


def paired(values: Any, documents: Sequence[Any], read: Callable[[Any], float]) -> Estimate:
    """`read` of rows (documents on the first axis of an array) that are drawn again with their documents."""
    codes, distinct = pandas.factorize(np.asarray(documents), sort=True)
    rows = np.arange(len(codes))

    def drawn(counts: np.ndarray) -> float:
        return read(values[np.repeat(rows, counts[codes])])

    samples = [drawn(counts) for counts in draws(len(distinct), RESAMPLES, SEED)]
    return Estimate(float(read(values)), np.array(samples, dtype=np.float64), len(distinct))
