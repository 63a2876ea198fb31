"""No sentence in two splits, ever."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import BadInput
from whence.identity.folds import folds_of


@given(st.integers(3, 500), st.integers(1, 12), st.integers(0, 5), st.floats(0.01, 1))
def test_no_sentence_is_in_two_splits(sentences, count, seed, share):
    if sentences < count:
        return
    for fold in folds_of(sentences, count, seed, share):
        together = np.concatenate([fold.train, fold.validation, fold.test])
        assert len(np.unique(together)) == len(together) <= sentences
        assert min(len(fold.train), len(fold.validation), len(fold.test)) >= 1
        assert share < 1 or len(together) == sentences


def test_the_published_shares():
    for fold in folds_of(408, 10, 0):
        assert (len(fold.train), len(fold.validation), len(fold.test)) == (286, 61, 61)


def test_ten_folds_test_every_sentence():
    tested = np.bincount(np.concatenate([fold.test for fold in folds_of(408, 10, 3)]), minlength=408)
    assert set(tested) <= {1, 2}


def test_seed_decides():
    first, again, other = (folds_of(50, 10, seed)[0].train for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_share_of_the_training_sentences_leaves_the_test_alone():
    whole, half = folds_of(100, 10, 0), folds_of(100, 10, 0, 0.5)
    for before, after in zip(whole, half, strict=True):
        assert len(after.train) == 35 and set(after.train) <= set(before.train)
        assert np.array_equal(before.test, after.test) and np.array_equal(before.validation, after.validation)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((9, 10, 0), "10 folds need at least 10 sentences, and the corpus has 9"),
        ((2, 1, 0), "1 fold need"),
        ((9, 0, 0), "at least 1"),
        ((9, 2, 0, 0.0), "above 0"),
        ((9, 2, 0, 1.5), "at most 1"),
    ],
)
def test_bad_input(arguments, says):
    with pytest.raises(BadInput, match=says):
        folds_of(*arguments)
