"""Verdicts on simulated data with a known truth: how often they are wrong, and how often they find what is there."""

import numpy as np
import pandas
import pytest
from scipy.stats import rankdata

from whence.stats.estimate import Estimate, constant, estimate, single
from whence.stats.resample import draws
from whence.studies.frame.context import spearman, trend
from whence.studies.frame.verdict import FALLS, MORE, RELATED, Criterion, interval, intervals, verdict

WORLDS = 2000  # the standard error of a share of 2.5 % is then 0.35 %


def worlds_of(count, effect, chance, worlds=WORLDS, rows=8):
    """Estimates of a mean: documents differ by chance, and their mean is `effect` standard deviations of a document."""
    of_documents = chance.normal(effect, 1, (worlds, count)) + chance.normal(0, 1, (worlds, count, rows)).mean(-1)
    drawn = of_documents @ np.array(list(draws(count, 100, 0))).T / count
    return [Estimate(mean, row, count) for mean, row in zip(of_documents.mean(1), drawn, strict=True)]


def decided(criterion, worlds):
    """How often each verdict is given."""
    found = [verdict(intervals(parts), criterion) for parts in worlds]
    return {name: found.count(name) / len(found) for name in ("confirmed", "contradicted", "undecided")}


def alone(estimates):
    return [{"": [estimate]} for estimate in estimates]


@pytest.mark.parametrize("count", [5, 20, 60])
def test_without_an_effect_few_are_confirmed(count):
    """Asked for 2.5 % each way."""
    found = decided(MORE, alone(worlds_of(count, 0.0, np.random.default_rng(0))))
    assert 0.01 < found["confirmed"] <= 0.04 and 0.01 < found["contradicted"] <= 0.04


@pytest.mark.parametrize(
    ("count", "effect", "power"), [(60, 0.5, 0.95), (24, 0.5, 0.61), (20, 0.5, 0.52), (20, 1.0, 0.97)]
)
def test_power(count, effect, power):
    """As in docs/studies/index.md."""
    found = decided(MORE, alone(worlds_of(count, effect, np.random.default_rng(1))))
    assert found["confirmed"] == pytest.approx(power, abs=0.03)


@pytest.mark.parametrize("models", [2, 5, 25])
def test_over_models_that_differ_few_are_confirmed(models):
    """Every model reads the same documents; its own effect is drawn about zero, twice as far as documents shift it."""
    chance = np.random.default_rng(2)

    def world():
        of_documents = chance.normal(0, 1, 20)
        draws = np.array([of_documents[chance.integers(20, size=20)].mean() for _ in range(100)])
        each = of_documents.mean() + chance.normal(0, 0.5, models)
        return {"": [Estimate(value, draws + value - of_documents.mean(), 20) for value in each]}

    found = decided(MORE, [world() for _ in range(400)])
    assert found["confirmed"] <= 0.05 and found["contradicted"] <= 0.05


def test_models_that_all_share_a_finding_confirm_it():
    chance = np.random.default_rng(3)
    draws = chance.normal(0, 0.1, 200)
    world = {"": [Estimate(value, value + draws, 30) for value in chance.normal(0.6, 0.2, 25)]}
    assert verdict(intervals(world), MORE) == "confirmed"


def rank_correlation(x, y):
    """Spearman's, along the last axis of both."""
    x, y = (rankdata(values, axis=-1) - (values.shape[-1] + 1) / 2 for values in (x, y))
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


@pytest.mark.parametrize("count", [24, 60])
def test_at_the_limit_of_a_trend_few_are_confirmed(count):
    """Ranks with a correlation of -0.3 in truth: the interval has to lie below it, not the estimate."""
    chance = np.random.default_rng(4)
    r = 2 * np.sin(np.pi * -0.3 / 6)  # Pearson's coefficient of normal variables whose Spearman's is -0.3
    drawn = np.stack([np.repeat(np.arange(count), counts) for counts in draws(count, 200, 0)])
    x = chance.normal(size=(400, count))
    y = r * x + np.sqrt(1 - r * r) * chance.normal(size=x.shape)
    worlds = [
        Estimate(float(rank_correlation(*pair)), rank_correlation(*(each[drawn] for each in pair)), count)
        for pair in zip(x, y, strict=True)
    ]
    assert worlds[0].value == pytest.approx(spearman(pandas.Series(x[0]), pandas.Series(y[0])))
    found = decided(FALLS, alone(worlds))
    assert 0 < found["confirmed"] <= 0.05 and 0 < found["contradicted"] <= 0.05


@pytest.mark.parametrize("layers", [3, 6, 12])
def test_where_layers_do_not_differ_no_trend_is_confirmed(layers):
    """The ranks of layers are chance: however strong they look, drawn again they are others."""
    chance, of_draws = np.random.default_rng(9), np.array(list(draws(24, 200, 0))) / 24
    tables = chance.normal(size=(500, 24, layers)) + chance.normal(size=(500, 24, 1))
    order = np.arange(layers)[None]
    worlds = [
        Estimate(float(rank_correlation(table.mean(0)[None], order)[0]), rank_correlation(of_draws @ table, order), 24)
        for table in tables
    ]
    assert decided(FALLS, alone(worlds))["confirmed"] <= 0.05


def test_several_parts_have_to_hold_together():
    """Ten parts without an effect: contradicting one of them is not made likelier by there being ten."""
    chance = np.random.default_rng(5)
    parts = [worlds_of(20, 0.0, chance, worlds=500) for _ in range(10)]
    worlds = [
        {str(part): [estimate] for part, estimate in enumerate(estimates)} for estimates in zip(*parts, strict=True)
    ]
    found = decided(MORE, worlds)
    assert found["confirmed"] == 0 and found["contradicted"] <= 0.06


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
