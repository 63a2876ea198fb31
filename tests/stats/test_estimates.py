"""Means, correlations and regressions: SciPy's and statsmodels' numbers, and intervals that hold what they promise."""

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as formulas
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whence.errors import BadInput
from whence.stats import contrasts, correlations, means, regressions
from whence.stats.correlate import _ranks, _weighted
from whence.stats.resample import draws


def clustered(documents: int = 30, rows: int = 15, seed: int = 0) -> pandas.DataFrame:
    chance = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), rows)
    common = chance.normal(size=documents)[document]
    x = chance.normal(size=document.size) + common
    y = 0.6 * x + chance.normal(size=document.size) + common
    return pandas.DataFrame({"document": document, "layer": 1, "x": x, "y": y})


# means


def test_means_and_students_interval():
    table = clustered()
    row = means(table, "x").iloc[0]
    assert row.n == 450 and row["mean"] == table.x.mean() and np.isclose(row["std"], table.x.std())
    wanted = stats.ttest_1samp(table.x, 0).confidence_interval(0.95)
    np.testing.assert_allclose([row.low, row.high], wanted)


def test_the_bootstrap_by_document_is_the_one_done_by_hand():
    table = clustered(documents=8, rows=5)
    row = means(table, "x", cluster="document", resamples=200, seed=3).iloc[0]
    by_document = [rows.x.to_numpy() for _, rows in table.groupby("document")]
    samples = [
        np.concatenate(
            [np.tile(values, times) for values, times in zip(by_document, drawn, strict=True) if times]
        ).mean()
        for drawn in draws(8, 200, 3)
    ]
    np.testing.assert_allclose([row.low, row.high], np.quantile(samples, [0.025, 0.975]))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    held = 0
    for seed in range(80):
        row = means(clustered(seed=seed), "x", cluster="document", resamples=300).iloc[0]
        held += row.low < 0 < row.high
    assert held >= 68


# correlations


@pytest.mark.parametrize(("method", "function"), [("spearman", stats.spearmanr), ("pearson", stats.pearsonr)])
def test_coefficients_are_scipys(method, function):
    table = clustered()
    row = correlations(table, ["x", "y"], method=method, resamples=50).iloc[0]
    np.testing.assert_allclose([row.r, row.p], function(table.x, table.y))
    assert row.low < row.r < row.high and row.p_corrected == row.p


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=25))
def test_a_drawn_sample_needs_not_be_put_together(rows):
    x, y, times = (np.array(column) for column in zip(*rows, strict=True))
    whole = [np.repeat(values, times) for values in (x, y)]
    if min(len(np.unique(values)) for values in whole) < 2:
        return
    weights = times
    codes = [np.unique(values, return_inverse=True)[1] for values in (x, y)]
    found = _weighted(*(_ranks(each, weights) for each in codes), weights)
    np.testing.assert_allclose(found, stats.spearmanr(*whole).statistic, atol=1e-9)
    np.testing.assert_allclose(
        _weighted(x.astype(float), y.astype(float), weights), stats.pearsonr(*whole).statistic, atol=1e-9
    )


def test_documents_widen_the_interval():
    table = clustered(documents=15, rows=60)
    rows = correlations(table, ["x", "y"], resamples=300).iloc[0]
    documents = correlations(table, ["x", "y"], cluster="document", resamples=300).iloc[0]
    assert documents.high - documents.low > 1.5 * (rows.high - rows.low) and documents.clusters == 15


def test_every_two_columns_and_constants():
    table = clustered().assign(z=1.0)
    found = correlations(table, ["x", "y", "z"], by=(), resamples=20)
    assert len(found) == 3 and found.r.isna().sum() == 2
    with pytest.raises(BadInput, match="spearman, pearson"):
        correlations(table, ["x", "y"], method="kendall")
    with pytest.raises(BadInput, match="two columns"):
        correlations(table, ["x"])


@pytest.mark.parametrize(
    "estimate",
    [
        lambda level: means(clustered(), "x", level=level),
        lambda level: means(clustered(), "x", cluster="document", level=level),
        lambda level: correlations(clustered(), ["x", "y"], level=level),
        lambda level: regressions(clustered(), "x", ["y"], level=level),
    ],
)
@pytest.mark.parametrize("level", [95.0, 0.0, float("nan")])
def test_a_level_is_a_share(estimate, level):
    with pytest.raises(BadInput, match="The level is a number between 0 and 1, and"):
        estimate(level)


# regressions


def flows(seed: int = 0) -> pandas.DataFrame:
    """Coreferent pairs are nearer to each other, and flow falls with distance: the two are easily confused."""
    chance = np.random.default_rng(seed)
    count = 1200
    coreferent = chance.random(count) < 0.4
    distance = chance.integers(1, 20, count) - 6 * coreferent
    kind = chance.choice(["noun", "pronoun"], count)
    value = 2.0 - 0.1 * distance + 0.0 * coreferent + 0.5 * (kind == "pronoun") + chance.normal(size=count)
    columns = {"document": chance.integers(0, 60, count), "coreferent": coreferent, "distance": distance}
    return pandas.DataFrame(columns | {"kind": kind, "flow": value, "layer": chance.integers(1, 3, count)})


def test_distance_explains_what_looked_like_coreference():
    from whence.stats import contrasts

    table = flows()
    assert contrasts(table, "flow", "coreferent", by=(), permutations=0).p.iloc[0] < 1e-4
    found = regressions(table, "flow", ["coreferent", "distance"], by=(), cluster="document").set_index("term")
    assert found.p["coreferent"] > 0.05 and found.p["distance"] < 1e-6
    assert found.low["distance"] < -0.1 < found.high["distance"]
    assert np.isnan(found.p_corrected["intercept"]) and found.clusters["distance"] == 60


def test_it_is_statsmodels_regression():
    table = flows()
    found = regressions(table, "flow", ["coreferent", "distance", "kind"], cluster="document")
    for layer, rows in table.groupby("layer"):
        settings = {"cov_type": "cluster", "cov_kwds": {"groups": rows.document.to_numpy()}, "use_t": True}
        theirs = formulas.ols("flow ~ coreferent + distance + kind", rows).fit(**settings)
        mine = found[found.layer == layer].set_index("term")
        names = {"coreferent": "coreferent[T.True]", "distance": "distance", "kind=pronoun": "kind[T.pronoun]"}
        for name, their in (names | {"intercept": "Intercept"}).items():
            np.testing.assert_allclose(mine.coefficient[name], theirs.params[their])
            np.testing.assert_allclose([mine.error[name], mine.p[name]], [theirs.bse[their], theirs.pvalues[their]])


def test_without_documents_variances_may_differ():
    table = flows()
    found = regressions(table, "flow", ["distance"], by=()).set_index("term")
    theirs = formulas.ols("flow ~ distance", table).fit(cov_type="HC3", use_t=True)
    np.testing.assert_allclose(found.error["distance"], theirs.bse["distance"])


def test_terms_that_cannot_be_told_apart():
    table = flows().assign(twice=lambda table: 2 * table.distance)
    with pytest.raises(BadInput, match=r"distance, twice cannot be told apart at layer 1"):
        regressions(table, "flow", ["distance", "twice"])


def test_one_document_has_no_interval():
    """Resampled, a single document is always itself: its interval would have no width and say more than is known."""
    table = pandas.DataFrame({"layer": 1, "document": "a", "x": np.arange(8.0), "y": np.arange(8.0) ** 2})
    table["group"] = ["p", "q"] * 4
    for estimate in (
        means(table, "x", cluster="document"),
        contrasts(table, "x", "group", cluster="document"),
        correlations(table, ["x", "y"], cluster="document"),
    ):
        assert estimate[["low", "high"]].isna().all(axis=None), estimate
        assert (estimate["clusters"] == 1).all()
    with pytest.raises(BadInput, match="Errors by 'document' need two or more of them"):
        regressions(table, "x", ["y"], cluster="document")
