"""Maps accumulated over layers, and ALTI."""

import pytest
import torch
from hypothesis import given, settings

from tests.families import DOUBLE, SINGLE
from tests.measures.blocks import drawn
from tests.measures.reference import apart, attention_vectors, captured, double
from whence.measures.norms.maps import maps
from whence.measures.norms.rollout import alti, rollout, shares

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}


def test_two_tokens_by_hand():
    first, second = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 1.0], [0.0, 2.0]])
    rolled = rollout(torch.stack([first, second])[:, None])
    assert torch.allclose(rolled[0, 0], torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert torch.allclose(rolled[1, 0], torch.tensor([[0.875, 0.125], [0.5, 0.5]]))


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_rows_stay_shares_and_padding_stays_zero(name):
    blocks, rows = captured(name, torch.float32, (7, 4))
    rolled = rollout(torch.stack([maps(block, rows.mask, ["attnresln_n"])["attnresln_n"] for block in blocks]))
    assert torch.allclose(rolled.sum(dim=-1), rows.mask.float().expand(3, -1, -1), atol=1e-5)
    assert not rolled[:, 1, :, 4:].any()


def test_a_row_of_zeros_stays_one():
    assert torch.equal(shares(torch.zeros(1, 2, 2)), torch.zeros(1, 2, 2))


@pytest.mark.parametrize(("name", "dtype"), DOUBLE + SINGLE)
def test_alti_is_its_formula(name, dtype):
    (_, block, *_), rows = captured(name, dtype)
    assert apart(alti(block, rows.mask, budget=500), _alti(block, rows.mask)) < LIMITS[dtype]


@settings(max_examples=20, deadline=None)
@given(drawn())
def test_alti_of_any_block(case):
    block, mask = case
    found, expected = alti(block, mask), _alti(block, mask)
    assert torch.allclose(found, expected, atol=1e-7)
    sums = found.sum(dim=-1)
    assert torch.allclose(sums, (sums > 0).double())


def _alti(block, mask):
    vectors, state = attention_vectors(block, mask, "attnresln_n"), double(block).middle[:, :, None]
    nearer = state.norm(p=1, dim=-1) - (state - vectors).norm(p=1, dim=-1)
    return shares(nearer.clamp(min=0) * (mask[:, :, None] & mask[:, None]))
