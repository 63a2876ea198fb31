"""Ranks and correlations are SciPy's, ties included, in batches and on every path."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata, spearmanr

from whence.measures.lm_head.ranks import paired, pearson, place, ranks, ranks_by_sort, spearman


def rows(count: int, size: int, ties: bool, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(count, size, generator=torch.Generator().manual_seed(seed))
    return (4 * drawn).round() / 4 if ties else drawn


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_ranks_are_those_of_scipy(ties, dtype):
    values = rows(5, 999, ties).to(dtype)
    expected = rankdata(values.double().numpy(), axis=-1)
    assert np.array_equal(ranks(values).double().numpy(), expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40))
def test_ranks_of_any_numbers(values):
    """Infinities, the smallest numbers there are, and both zeros."""
    given_row = torch.tensor([values], dtype=torch.float32)
    expected = rankdata(np.array(values, dtype=np.float32))
    assert np.array_equal(ranks(given_row)[0].numpy(), expected)
    assert np.array_equal(ranks_by_sort(given_row)[0].numpy(), expected)


def test_both_zeros_are_one_value():
    assert ranks(torch.tensor([[0.0, -0.0, 1.0]])).tolist() == [[1.5, 1.5, 3.0]]


def test_a_row_with_nan_has_no_ranks():
    found = ranks(torch.tensor([[1.0, float("nan")], [1.0, 2.0]]))
    assert found[0].isnan().all() and found[1].tolist() == [1.0, 2.0]


def test_both_paths_agree_on_a_whole_vocabulary():
    values = rows(3, 30_522, ties=False)
    assert torch.equal(ranks(values), ranks_by_sort(values))


@pytest.mark.parametrize("ties", [False, True])
def test_spearman_is_that_of_scipy(ties):
    values = rows(12, 5_000, ties).reshape(2, 6, 5_000)
    found = spearman(values).numpy()
    for batch, scores in enumerate(values.numpy()):
        assert np.abs(found[batch] - spearmanr(scores, axis=1).statistic).max() < 1e-12


def test_pearson_is_that_of_scipy():
    values = rows(4, 3_000, ties=False)
    found = pearson(values)
    for first in range(4):
        for second in range(4):
            expected = pearsonr(values[first].double().numpy(), values[second].double().numpy()).statistic
            assert abs(found[first, second].item() - expected) < 1e-12


def test_rows_and_their_partners_are_compared_as_by_scipy():
    """Never above 1 or below -1, which rounding alone would give for rows that are proportional."""
    first, second = rows(6, 500, ties=False), rows(6, 500, ties=False).flip(0)
    expected = [pearsonr(*pair).statistic for pair in zip(first.double().numpy(), second.double().numpy(), strict=True)]
    assert paired(first.double(), second.double()).numpy() == pytest.approx(expected, abs=1e-12)
    many = torch.randn(500, 7)
    assert paired(many, 3 * many).max() == 1 and paired(many, -3 * many).min() == -1


def test_pearson_far_from_zero_keeps_its_digits():
    values = 1_000 + rows(2, 4_000, ties=False)
    expected = np.corrcoef(values.double().numpy())[0, 1]
    assert abs(pearson(values)[0, 1].item() - expected) < 1e-9


def test_pairs_are_the_diagonal_of_the_matrix():
    first, second = rows(6, 500, ties=True), rows(6, 500, ties=True, seed=1)
    expected = [spearmanr(one, other).statistic for one, other in zip(first.numpy(), second.numpy(), strict=True)]
    assert np.abs(paired(ranks(first), ranks(second)).numpy() - expected).max() < 1e-12


def test_batched_equals_one_at_a_time():
    values = rows(6, 700, ties=True).reshape(2, 3, 700)
    assert torch.equal(spearman(values), torch.stack([spearman(part) for part in values]))


def test_a_constant_row_correlates_with_nothing():
    values = torch.stack([torch.ones(50), torch.randn(50)])
    assert spearman(values)[0, 1].isnan()


def test_place_counts_those_that_score_higher():
    scores = torch.tensor([[3.0, 1.0, 3.0, 2.0]]).expand(4, 4)
    assert place(scores, torch.tensor([0, 1, 2, 3])).tolist() == [1, 4, 1, 3]
