"""Moments: what NumPy says of the whole, however it was cut."""

import numpy as np
import pandas
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from whence.corpus.moments import NAMES, Moments, grouped, merge, merged

NUMBERS = st.floats(-1e3, 1e3, width=32)


def of(values) -> Moments:
    values = np.asarray(values, dtype=np.float64)
    return grouped(values, np.zeros(len(values), dtype=int), 1)


def assert_close(first: Moments, second: Moments) -> None:
    for name in NAMES:
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-9, atol=1e-6, err_msg=name)


@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_they_are_numpys(values):
    found = of(values)
    assert found.count[0] == len(values)
    np.testing.assert_allclose(found.mean[0], np.mean(values), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.m2[0], np.var(values) * len(values), rtol=1e-9, atol=1e-6)
    assert found.minimum[0] == min(values) and found.maximum[0] == max(values)


@given(*[st.lists(NUMBERS, max_size=12)] * 3)
def test_merging_is_associative_and_knows_the_whole(first, second, third):
    left = merge(merge(of(first), of(second)), of(third))
    right = merge(of(first), merge(of(second), of(third)))
    assert_close(left, right)
    assert_close(left, of([*first, *second, *third]))


@given(st.lists(NUMBERS, max_size=12), st.lists(NUMBERS, max_size=12))
def test_merging_is_commutative_and_nothing_changes_nothing(first, second):
    assert_close(merge(of(first), of(second)), merge(of(second), of(first)))
    assert_close(merge(of(first), of([])), of(first))


@settings(max_examples=50)
@given(arrays(np.float64, (2, 3, 17), elements=NUMBERS), arrays(np.int64, 17, elements=st.integers(0, 3)))
def test_groups_are_those_of_a_loop(values, codes):
    found = grouped(values, codes, 5)
    for group in range(5):
        chosen = values[..., codes == group]
        assert (found.count[..., group] == chosen.shape[-1]).all()
        if chosen.shape[-1]:
            np.testing.assert_allclose(found.mean[..., group], chosen.mean(-1), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found.m2[..., group], chosen.var(-1) * chosen.shape[-1], rtol=1e-9, atol=1e-6)
            np.testing.assert_array_equal(found.maximum[..., group], chosen.max(-1))


def test_nan_is_no_value():
    found = grouped(np.array([1.0, np.nan, 3.0, np.nan]), np.array([0, 0, 0, 1]), 2)
    assert found.count.tolist() == [2, 0] and found.mean.tolist() == [2, 0] and found.minimum.tolist() == [1, np.inf]


def test_a_large_offset_costs_no_digits():
    """The sum of squares less the square of the sum would be off by more than the variance itself."""
    values = 1e8 + np.random.default_rng(0).normal(size=2000)
    halves = merge(of(values[:700]), of(values[700:]))
    np.testing.assert_allclose(halves.m2[0] / 1999, np.var(values, ddof=1), rtol=1e-6)


@given(st.lists(st.lists(st.tuples(st.sampled_from("xyz"), NUMBERS), min_size=1, max_size=9), min_size=1, max_size=4))
def test_tables_merge_like_the_whole(parts):
    def table(rows):
        frame = pandas.DataFrame(rows, columns=["group", "value"]).groupby("group")["value"]
        found = frame.agg(["count", "mean", "min", "max"]).rename(columns={"min": "minimum", "max": "maximum"})
        return found.assign(m2=frame.var(ddof=0) * found["count"]).reset_index()[["group", *NAMES]]

    found = merged((table(rows) for rows in parts), ["group"])
    whole = table([row for rows in parts for row in rows])
    pandas.testing.assert_frame_equal(found, whole, check_dtype=False, rtol=1e-9, atol=1e-6)


def test_no_table_gives_an_empty_one():
    assert list(merged([], ["group"]).columns) == ["group", *NAMES]


def test_rows_without_a_key_are_a_group_of_their_own():
    rows = {"group": ["x", None], "count": [1, 2], "mean": [1.0, 2.0], "m2": 0.0, "minimum": 1.0, "maximum": 2.0}
    found = merged([pandas.DataFrame(rows)] * 2, ["group"])
    assert found["group"].isna().tolist() == [False, True] and found["count"].tolist() == [2, 4]
