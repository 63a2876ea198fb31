"""Contrasts: SciPy's numbers, and effects that were put in are found."""

import numpy as np
import pandas
import pytest
from scipy import stats

from whence.errors import BadInput
from whence.stats import contrasts


def simulated(
    effect: float, documents: int = 40, rows: int = 20, shared: float = 0.0, seed: int = 0
) -> pandas.DataFrame:
    """Two groups in every document, `effect` apart; `shared` is how much a document's rows have in common."""
    chance = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), rows)
    group = np.tile(np.arange(rows) % 2 == 0, documents)
    value = chance.normal(size=documents * rows) + shared * chance.normal(size=documents)[document] + effect * group
    return pandas.DataFrame({"document": document, "coreferent": group, "flow": value, "layer": 1})


def test_it_is_scipys_test():
    table = simulated(0.3)
    row = contrasts(table, "flow", "coreferent", permutations=499).iloc[0]
    first, second = table.flow[table.coreferent], table.flow[~table.coreferent]
    test = stats.ttest_ind(first, second, equal_var=False)
    np.testing.assert_allclose([row.t, row.df, row.p], [test.statistic, test.df, test.pvalue])
    np.testing.assert_allclose([row.low, row.high], test.confidence_interval(0.95))
    assert row["first"] == True and row.n_first == row.n_second == 400  # noqa: E712  (NumPy's bool)
    pooled = np.sqrt((first.var() + second.var()) / 2)
    np.testing.assert_allclose(row.d, (first.mean() - second.mean()) / pooled)
    np.testing.assert_allclose(row.g, row.d * (1 - 3 / (4 * 798 - 1)), rtol=1e-6)


def test_the_permutation_test_is_scipys_and_exact_for_few():
    first, second = [1.0, 2.0, 3.5, 4.0], [2.5, 5.0, 6.0]
    table = pandas.DataFrame({"value": first + second, "group": list("aaaabbb")})
    row = contrasts(table, "value", "group", by=()).iloc[0]
    wanted = stats.permutation_test((first, second), lambda a, b: np.mean(a) - np.mean(b), n_resamples=np.inf).pvalue
    np.testing.assert_allclose(row.p_permutation, wanted)


def test_a_known_effect_is_found_and_its_size():
    row = contrasts(simulated(0.5, documents=200), "flow", "coreferent", cluster="document").iloc[0]
    assert row.p < 1e-6 and row.p_permutation < 0.001 and row.clusters == 200
    assert abs(row.d - 0.5) < 0.08 and row.low < 0.5 < row.high


def test_no_effect_is_found_as_often_as_the_level_says():
    tables = [simulated(0, documents=10, rows=8, seed=seed).assign(layer=seed) for seed in range(200)]
    found = contrasts(pandas.concat(tables), "flow", "coreferent", permutations=199, correction=None)
    assert 0.01 < (found.p < 0.05).mean() < 0.10 and 0.01 < (found.p_permutation < 0.05).mean() < 0.10
    assert 0.88 < ((found.low < 0) & (found.high > 0)).mean() < 0.99


def test_documents_count_where_rows_would_deceive():
    """The group is a property of the document, so there are 30 cases, not 1500."""
    chance, outside, inside = np.random.default_rng(0), 0, 0
    for _ in range(60):
        document = np.repeat(np.arange(30), 50)
        value = chance.normal(size=1500) + chance.normal(size=30)[document]
        table = pandas.DataFrame({"document": document, "group": document % 2 == 0, "value": value})
        rows = contrasts(table, "value", "group", by=(), permutations=0, correction=None).iloc[0]
        documents = contrasts(
            table, "value", "group", by=(), cluster="document", permutations=0, resamples=400, correction=None
        ).iloc[0]
        outside += not rows.low < 0 < rows.high
        inside += documents.low < 0 < documents.high
    assert outside > 25 and inside > 48


def test_signs_of_documents_are_what_is_permuted():
    table = simulated(0.4, documents=12, shared=3.0)
    row = contrasts(table, "flow", "coreferent", cluster="document", permutations=4096).iloc[0]
    means = table.pivot_table(index="document", columns="coreferent", values="flow")
    differences = (means[True] - means[False]).to_numpy()
    wanted = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    np.testing.assert_allclose(row.p_permutation, wanted)
    assert row.p > row.p_permutation  # what documents have in common hides the effect from Welch's test


def test_every_pair_of_groups_by_every_layer():
    table = pandas.DataFrame({"upos": list("NVP") * 20, "layer": [1, 2] * 30, "x": np.arange(60.0), "y": 1.0})
    found = contrasts(table, ["x", "y"], "upos", permutations=99)
    assert len(found) == 2 * 2 * 3
    assert set(zip(found["first"], found["second"], strict=True)) == {("N", "P"), ("N", "V"), ("P", "V")}
    constant = found[found["value"] == "y"]
    assert constant.p.isna().all() and (constant.difference == 0).all() and constant.p_corrected.isna().all()
    assert contrasts(table, "x", "upos", pairs=[("V", "N")]).shape[0] == 2


def test_holm_is_what_it_says():
    tables = [simulated(effect, seed=place).assign(layer=place) for place, effect in enumerate([0, 0.2, 0.3, 0.02])]
    found = contrasts(pandas.concat(tables), "flow", "coreferent", permutations=99)
    order = np.argsort(found.p.to_numpy())
    wanted = np.minimum(np.maximum.accumulate(found.p.to_numpy()[order] * np.arange(4, 0, -1)), 1)
    np.testing.assert_allclose(found.p_corrected.to_numpy()[order], wanted)
    fdr = contrasts(pandas.concat(tables), "flow", "coreferent", permutations=99, correction="fdr")
    np.testing.assert_allclose(fdr.p_corrected, stats.false_discovery_control(fdr.p))
    assert "p_corrected" not in contrasts(tables[0], "flow", "coreferent", permutations=99, correction=None)


def test_the_seed_settles_it():
    table = simulated(0.1)
    again = [contrasts(table, "flow", "coreferent", cluster="document", permutations=199, seed=1) for _ in range(2)]
    pandas.testing.assert_frame_equal(*again)


def test_missing_labels_are_left_out():
    table = simulated(0.3).astype({"coreferent": object})
    table.loc[::4, "coreferent"] = None
    row = contrasts(table, "flow", "coreferent", permutations=0).iloc[0]
    assert row.n_first + row.n_second == table.coreferent.notna().sum()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": "nothing"}, "no column 'nothing'; it has: document, coreferent"),
        ({"group": "layer"}, "needs two groups, and 'layer' is always 1"),
        ({"pairs": [(True, "maybe")]}, "'coreferent' is never 'maybe'; it is one of False, True"),
        ({"level": 95.0}, "The level is a number between 0 and 1, and 95.0"),
        ({"correction": "magic"}, "holm, fdr, bonferroni"),
    ],
)
def test_refused(arguments, says):
    with pytest.raises(BadInput, match=says):
        contrasts(simulated(0), **({"value": "flow", "group": "coreferent", "by": (), "permutations": 0} | arguments))
