"""Rankings against what is lost: ranks, correlations and shares against scipy, by hand, and in their limits."""

import numpy as np
import pytest
from scipy import stats

from whence.faithfulness.edits import DELETION, MASK_TOKEN, MEAN_EMBEDDING, Subject, edited, first
from whence.faithfulness.scores import midranks, partial, rank_correlation, ranked


def test_ranks_and_correlations_are_scipys():
    values = np.random.default_rng(0).integers(0, 5, (7, 12)).astype(float)
    other = np.random.default_rng(1).random((7, 12))
    assert np.array_equal(midranks(values), np.apply_along_axis(stats.rankdata, 1, values))
    expected = [stats.spearmanr(one, two).statistic for one, two in zip(values, other, strict=True)]
    assert rank_correlation(values, other) == pytest.approx(expected)


def test_rows_that_do_not_vary_or_are_not_numbers_have_no_correlation():
    rows = np.array([[1.0, 1, 1], [1, np.nan, 2], [1, 2, 3]])
    found = rank_correlation(rows, np.broadcast_to([3.0, 2, 1], (3, 3)))
    assert np.isnan(found[:2]).all() and found[2] == -1


def test_what_is_held_constant_is_taken_out_of_both():
    """The correlation of what two least-squares fits of the ranks on the third's ranks leave over."""
    draw = np.random.default_rng(2)
    held = draw.random(20)
    one, two = held + 0.5 * draw.random(20), held + 0.5 * draw.random(20)
    ranks = [stats.rankdata(values) for values in (one, two, held)]
    rest = [values - np.polyval(np.polyfit(ranks[2], values, 1), ranks[2]) for values in ranks[:2]]
    assert partial(one, two, held) == pytest.approx(stats.pearsonr(*rest).statistic)
    assert np.isnan(partial(held, two, held))  # nothing is left of what is held constant itself


def test_ties_are_broken_by_chance_and_not_by_place():
    orders = [ranked(np.array([0.0, 1, 0, 0, 0]), seed) for seed in range(50)]
    assert all(order[0] == 1 for order in orders) and len({tuple(order) for order in orders}) > 5
    assert ranked(np.array([0.1, 0.3, 0.2]), 0) == [1, 2, 0]


@pytest.mark.parametrize(
    ("count", "share", "tokens"), [(30, 0.1, 3), (31, 0.1, 4), (4, 0.1, 1), (10, 0.5, 5), (9, 0.5, 5)]
)
def test_shares_are_rounded_up(count, share, tokens):
    assert first(range(count), share) == tokens


SUBJECT = Subject(ids=(2, 11, 12, 4, 13, 3), segments=(0, 0, 0, 0, 1, 1), position=3, token=9, candidates=(1, 2, 4))


def test_what_each_edit_makes_of_a_text():
    gone = {1, 4}
    left = edited(SUBJECT, DELETION, gone)
    assert (left.ids, left.segments, left.position) == ((2, 12, 4, 3), (0, 0, 0, 1), 2)
    masked = edited(SUBJECT, MASK_TOKEN, gone, mask=4)
    assert (masked.ids, masked.segments, masked.position) == ((2, 4, 12, 4, 4, 3), SUBJECT.segments, 3)
    mean = edited(SUBJECT, MEAN_EMBEDDING, gone)
    assert mean.ids == SUBJECT.ids and [place for place, flag in enumerate(mean.replaced) if flag] == [1, 4]
    assert edited(SUBJECT, DELETION, ()).ids == SUBJECT.ids
