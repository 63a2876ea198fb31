"""Verdicts on simulated data with a known truth: how often they are wrong, and how often they find what is there."""

import numpy as np
import pandas
import pytest

from whence.stats.estimate import Estimate, constant, estimate, paired, single
from whence.studies.frame.context import spearman, trend
from whence.studies.frame.verdict import FALLS, MORE, RELATED, Criterion, interval, intervals, verdict

WORLDS = 400


def documents(count, effect, chance, rows=8, spread=1.0):
    """Rows whose documents differ by chance, and whose mean is `effect` standard deviations of a document."""
    shift = chance.normal(effect, spread, count)
    values = shift[:, None] + chance.normal(0, 1, (count, rows))
    return pandas.DataFrame({"document": np.repeat(np.arange(count), rows), "x": values.ravel()})


def decided(criterion, worlds):
    """How often each verdict is given."""
    found = [verdict(intervals(parts), criterion) for parts in worlds]
    return {name: found.count(name) / len(found) for name in ("confirmed", "contradicted", "undecided")}


@pytest.mark.parametrize("count", [5, 20, 60])
def test_without_an_effect_few_are_confirmed(count):
    """Asked for 2.5 % each way; 400 worlds have a standard error of 0.8 %."""
    chance = np.random.default_rng(0)
    worlds = [{"": [estimate(documents(count, 0.0, chance), "x", (), single, resamples=100)]} for _ in range(WORLDS)]
    found = decided(MORE, worlds)
    assert 0 < found["confirmed"] <= 0.05 and 0 < found["contradicted"] <= 0.05


def test_power():
    """As in docs/studies/index.md: half a standard deviation between documents, 60 of them."""
    chance = np.random.default_rng(1)
    for count, effect, least, most in ((60, 0.5, 0.9, 1.0), (20, 0.5, 0.4, 0.7), (20, 1.0, 0.95, 1.0)):
        worlds = [
            {"": [estimate(documents(count, effect, chance), "x", (), single, resamples=100)]} for _ in range(150)
        ]
        assert least <= decided(MORE, worlds)["confirmed"] <= most


@pytest.mark.parametrize("models", [2, 5, 25])
def test_over_models_that_differ_few_are_confirmed(models):
    """Every model reads the same documents; its own effect is drawn about zero, twice as far as documents shift it."""
    chance = np.random.default_rng(2)

    def world():
        of_documents = chance.normal(0, 1, 20)
        draws = np.array([of_documents[chance.integers(20, size=20)].mean() for _ in range(100)])
        each = of_documents.mean() + chance.normal(0, 0.5, models)
        return {"": [Estimate(value, draws + value - of_documents.mean(), 20) for value in each]}

    found = decided(MORE, [world() for _ in range(WORLDS)])
    assert found["confirmed"] <= 0.05 and found["contradicted"] <= 0.05


def test_models_that_all_share_a_finding_confirm_it():
    chance = np.random.default_rng(3)
    draws = chance.normal(0, 0.1, 200)
    world = {"": [Estimate(value, value + draws, 30) for value in chance.normal(0.6, 0.2, 25)]}
    assert verdict(intervals(world), MORE) == "confirmed"


def test_at_the_limit_of_a_trend_few_are_confirmed():
    """Ranks with a correlation of -0.3 in truth: the interval has to lie below it, not the estimate."""
    chance = np.random.default_rng(4)
    r = 2 * np.sin(np.pi * -0.3 / 6)  # Pearson's coefficient of normal variables whose Spearman's is -0.3

    def world():
        x = chance.normal(size=200)
        pairs = np.stack([x, r * x + np.sqrt(1 - r * r) * chance.normal(size=200)], axis=1)
        return {"": [paired(pairs, range(200), lambda rows: spearman(*map(pandas.Series, rows.T)))]}

    found = decided(FALLS, [world() for _ in range(20)])
    assert (
        found["confirmed"] <= 0.15 and found["contradicted"] <= 0.15
    )  # three of twenty at most: one in forty is expected


def test_several_parts_have_to_hold_together():
    """Ten parts without an effect: contradicting one of them is not made likelier by there being ten."""
    chance = np.random.default_rng(5)
    worlds = [
        {str(part): [estimate(documents(20, 0.0, chance), "x", (), single, resamples=60)] for part in range(10)}
        for _ in range(60)
    ]
    found = decided(MORE, worlds)
    assert found["confirmed"] == 0 and found["contradicted"] <= 0.12


def test_what_was_wrong_is_undecided_or_contradicted():
    """-0.303 with its interval is no trend; a correlation of 0.9 is not far from the same."""
    draws = np.random.default_rng(6).normal(size=400)
    assert verdict({"": interval([Estimate(-0.303, -0.303 + 0.02 * draws, 100)])}, FALLS) == "undecided"
    assert verdict({"": interval([Estimate(0.9, 0.9 + 0.01 * draws, 100)])}, RELATED) == "contradicted"
    assert verdict({"": interval([Estimate(0.4, 0.4 + 0.01 * draws, 100)])}, RELATED) == "confirmed"


def test_few_documents_decide_nothing_and_weights_need_none():
    sure = Estimate(1.0, np.full(100, 1.0), 4)
    assert verdict({"": interval([sure])}, MORE) == "undecided"
    assert verdict({"": interval([constant(1.0)])}, MORE) == "confirmed"
    unknown = Estimate(np.nan, np.full(100, np.nan), 20)
    assert verdict({"": interval([unknown])}, MORE) == "undecided"


def test_parts_may_have_criteria_of_their_own():
    parts = {"low": interval([constant(0.1)]), "high": interval([constant(0.9)])}
    criteria = {"low": Criterion(below=0.25), "high": Criterion(above=0.5)}
    assert verdict(parts, criteria) == "confirmed"
    assert verdict(parts, criteria | {"high": Criterion(above=0.95)}) == "contradicted"


def test_an_interval_is_that_of_the_mean_of_documents():
    """One row a document: the error is that of the mean, s / sqrt(n), and t has n - 1 degrees of freedom."""
    from scipy import stats

    values = np.random.default_rng(7).normal(size=30)
    table = pandas.DataFrame({"document": range(30), "x": values})
    found = interval([estimate(table, "x", (), single, resamples=20_000)])
    half = stats.t.ppf(0.975, 29) * values.std(ddof=1) / np.sqrt(30)
    assert [found.low, found.high] == pytest.approx([values.mean() - half, values.mean() + half], rel=0.02, abs=0.01)


def test_readings_are_those_of_the_rows_put_together():
    """Means, weighted means and medians of drawn documents, beside tables that are really put together."""
    chance = np.random.default_rng(8)
    table = pandas.DataFrame({"document": chance.integers(6, size=200), "layer": chance.integers(1, 5, size=200)})
    table = table.assign(x=chance.normal(size=200), w=chance.integers(1, 4, size=200))
    names = sorted(table["document"].unique())
    from whence.stats.resample import draws

    drawn = list(draws(len(names), 5, 0))
    together = [
        pandas.concat(
            [table[table["document"] == name] for name, times in zip(names, counts, strict=True) for _ in range(times)]
        )
        for counts in drawn
    ]
    means = estimate(table, "x", "layer", trend, resamples=5)
    assert means.draws == pytest.approx([trend(each.groupby("layer")["x"].mean()) for each in together])
    medians = estimate(table, "x", "layer", lambda of: of[2], median=True, resamples=5)
    for value, each in zip(medians.draws, together, strict=True):
        rows = np.sort(each[each["layer"] == 2]["x"])
        assert value == rows[(len(rows) - 1) // 2]
    weighted = estimate(table, "x", "layer", lambda of: of[1], weight="w", resamples=5)
    first = [each[each["layer"] == 1] for each in together]
    assert weighted.draws == pytest.approx([(rows["x"] * rows["w"]).sum() / rows["w"].sum() for rows in first])
    assert weighted.documents == 6


def test_criteria_are_data_and_their_words_are_made_of_their_limits():
    from whence.studies.frame.published import published

    assert FALLS.asks("+.2f") == "a rank correlation below -0.3" and MORE.asks(".1%") == "above 0%"
    for name, row in published("criteria").items():
        words = Criterion.named(name).asks(".2f")
        assert all(f"{side} {row[side]:.3g}" in words for side in ("above", "below") if side in row)
        assert not any(letter.isdigit() for letter in row.get("of", ""))
