"""What is left of a difference when something else, such as the distance of two words, is held constant?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas

from whence._arguments import share
from whence.errors import BadInput
from whence.stats.cells import cells, names
from whence.stats.correct import corrected
from whence.stats.resample import codes

INTERCEPT = "intercept"


def regressions(
    table: pandas.DataFrame,
    value: str | Sequence[str],
    terms: Sequence[str],
    by: str | Sequence[str] = ("layer",),
    *,
    cluster: str | None = None,
    correction: str | None = "holm",
    level: float = 0.95,
) -> pandas.DataFrame:
    """Least squares, one row per term: coefficient, standard error, t, p and interval.

    Numbers enter as they are, yes/no as 1/0, names as one column per name but the first, called TERM=NAME. With
    `cluster` the errors allow for documents whose rows belong together; else for unequal variances (HC3).

    Args:
        table: rows to compare, such as `run.tokens`
        value: the column of numbers, or several
        terms: the columns that explain it
        by: columns whose combinations are kept apart; () for none
        cluster: the column of documents, whose rows belong together
        correction: holm, fdr, or None: for all rows together
        level: of the intervals

    Returns:
        A DataFrame with a row for every term and combination of `by`.

    Examples:
        >>> import pandas
        >>> table = pandas.DataFrame({"layer": 1, "kind": ["noun", "verb"] * 4, "document": [0, 0, 1, 1, 2, 2, 3, 3]})
        >>> table["mixing"] = [0.1, 0.3, 0.2, 0.4, 0.2, 0.5, 0.1, 0.4]
        >>> found = whence.stats.regressions(table, "mixing", ["kind"], cluster="document")
        >>> found[["term", "coefficient"]].round(2).values.tolist()
        [['intercept', 0.15], ['kind=verb', 0.25]]
    """
    import statsmodels.api as models

    share("level", level)
    rows: list[dict[str, Any]] = []
    for name in names(value):
        for key, cell in cells(table, by, (name, *terms, cluster)):
            design = _design(cell, terms)
            _check(design, key)
            model = models.OLS(cell[name].to_numpy(dtype=np.float64), design.to_numpy())
            if cluster is None:
                fitted, about = model.fit(cov_type="HC3", use_t=True), {"n": len(cell)}
            else:
                places, count = codes(cell[cluster])
                if count < 2:
                    raise BadInput(f"Errors by {cluster!r} need two or more of them, and all rows have the same.")
                fitted = model.fit(cov_type="cluster", cov_kwds={"groups": places}, use_t=True)
                about = {"n": len(cell), "clusters": count}
            rows += [key | {"value": name, "term": term} | about | fit for term, fit in _terms(design, fitted, level)]
    result = pandas.DataFrame(rows)
    tested = corrected(result[result["term"] != INTERCEPT], correction)
    return pandas.concat([tested, result[result["term"] == INTERCEPT]]).sort_index()


def _design(cell: pandas.DataFrame, terms: Sequence[str]) -> pandas.DataFrame:
    columns = {INTERCEPT: np.ones(len(cell))}
    for term in terms:
        values = cell[term]
        if set(values.unique()) <= {True, False} or pandas.api.types.is_numeric_dtype(values):
            columns[term] = values.to_numpy(dtype=np.float64)
        else:
            for level in sorted(values.unique())[1:]:
                columns[f"{term}={level}"] = (values == level).to_numpy(dtype=np.float64)
    return pandas.DataFrame(columns)


def _check(design: pandas.DataFrame, key: dict[str, Any]) -> None:
    if np.linalg.matrix_rank(design.to_numpy()) < design.shape[1]:
        where = ", ".join(f"{name} {value}" for name, value in key.items())
        raise BadInput(
            f"The terms {', '.join(design.columns[1:])} cannot be told apart{f' at {where}' if where else ''}:"
            " one is constant or follows from the others; leave it out."
        )


def _terms(design: pandas.DataFrame, fitted: Any, level: float) -> list[tuple[str, dict[str, Any]]]:
    limits = fitted.conf_int(alpha=1 - level)
    columns = zip(fitted.params, fitted.bse, fitted.tvalues, fitted.pvalues, limits[:, 0], limits[:, 1], strict=True)
    labels = ("coefficient", "error", "t", "p", "low", "high")
    return [
        (term, dict(zip(labels, map(float, row), strict=True)))
        for term, row in zip(design.columns, columns, strict=True)
    ]
