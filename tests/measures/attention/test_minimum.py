"""The smallest attention with the same output: against an SVD of [T, 1], and against scipy among distributions."""

import dataclasses
from itertools import pairwise

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import whence
from tests.families import build
from tests.measures.rows import (
    MASKS,
    apart,
    block_of,
    everything,
    naive_projection,
    padded_batch,
    random_block,
    rows_of,
)
from whence.errors import Unsupported
from whence.measures.attention import simplex
from whence.measures.attention.effective import effective
from whence.measures.attention.minimum import minimum_norm
from whence.measures.attention.simplex import basis_with_ones, minimum_norm_simplex, solve
from whence.measures.attention.spaces import Cut
from whence.models.block import Batch
from whence.models.capture import trace
from whence.models.locate import locate

pytestmark = pytest.mark.usefixtures("one_thread")

PARAGRAPH = (
    "The history of the city begins in the ninth century, when merchants from the north built a small harbour at the"
    " mouth of the river and traded furs, amber and salt with the towns of the south. In later centuries the harbour"
    " grew, and with it the quarrels between the guilds and the bishop, who claimed the right to tax every ship that"
    " entered the river. A great fire destroyed most of the wooden houses; the new town was built of brick, and its"
    " walls, gates and towers were finished under the last of the dukes, in whose honour the market square is named."
)
FAMILIES = ["bert", "modernbert", "xlnet", "gpt2", "llama", "mistral"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_minimum_norm_projects_on_values_and_ones(name, side):
    model = build(name)
    found = trace(locate(model), padded_batch(model.config.vocab_size, (30, 20, 7), side))
    for block in found.blocks:
        expected = naive_projection(block, found.batch.mask, ones=True)
        assert apart(minimum_norm(block, found.batch.mask), expected) < 1e-5


@pytest.mark.parametrize("kind", MASKS)
def test_minimum_norm_in_float64(kind):
    block = random_block(kind, 30, width=8, dtype=torch.float64)
    mask = everything(block)
    assert apart(minimum_norm(block, mask), naive_projection(block, mask, ones=True)) < 1e-10


@given(st.sampled_from(MASKS), st.integers(2, 20), st.integers(1, 6), st.floats(0.2, 4), st.integers(0, 2**16))
@settings(deadline=None, max_examples=25)
def test_each_constraint_costs_norm(kind, length, width, sharpness, seed):
    """Same output all four; same sums the last three; no negative entry the last two; and the norm grows."""
    torch.manual_seed(seed)
    block = random_block(kind, length, width, dtype=torch.float64)
    weights = block.attention**sharpness
    block = dataclasses.replace(block, attention=weights / weights.sum(dim=-1, keepdim=True))
    mask = everything(block)
    free, sums, simplex = (make(block, mask) for make in (effective, minimum_norm, minimum_norm_simplex))
    for found in (free, sums, simplex):
        assert torch.allclose(found @ block.values, block.attention @ block.values, atol=1e-7)
        assert block.mask is None or found.masked_fill(block.mask, 0).abs().max() == 0
    for found in (sums, simplex):
        assert torch.allclose(found.sum(dim=-1), torch.ones(()).double(), atol=1e-8)
    assert simplex.min() >= 0
    norms = [found.norm(dim=-1) for found in (free, sums, simplex, block.attention)]
    assert all((low <= high + 1e-7).all() for low, high in pairwise(norms))


@pytest.mark.parametrize("kind", ["all", "causal", "band"])
@pytest.mark.parametrize("sharpness", [1, 3])
def test_simplex_agrees_with_scipy(kind, sharpness):
    block = random_block(kind, 14, width=4, heads=2, groups=1, batch=1, dtype=torch.float64)
    weights = block.attention**sharpness
    block = dataclasses.replace(block, attention=weights / weights.sum(dim=-1, keepdim=True))
    found = minimum_norm_simplex(block, everything(block))
    for (sequence, target), seen, rows, outputs in rows_of(block, everything(block)):
        for head in range(2):
            expected = by_scipy(rows[head].numpy(), outputs[head].numpy())
            got = found[sequence, head, target, seen].numpy()
            assert (got**2).sum() <= (expected**2).sum() + 1e-8
            numpy.testing.assert_allclose(got, expected, atol=1e-4)


def by_scipy(weights, outputs):
    equations = numpy.linalg.svd(numpy.c_[outputs, numpy.ones(len(outputs))], full_matrices=False)[0].T
    return minimize(
        lambda x: x @ x / 2,
        weights,
        jac=lambda x: x,
        method="SLSQP",
        bounds=[(0, None)] * len(weights),
        constraints={"type": "eq", "fun": lambda x: equations @ (x - weights), "jac": lambda x: equations},
        options={"ftol": 1e-14, "maxiter": 500},
    ).x


@pytest.mark.parametrize("sharpness", [0.5, 5, 20, 60])
@pytest.mark.parametrize("causal", [False, True])
def test_every_row_comes_with_its_proof(sharpness, causal):
    """Also where nearly all weight is on one token, and the rest far below the rounding of a float."""
    length, width = 60, 16
    seen = torch.ones(length, length).tril().bool() if causal else torch.ones(length, length).bool()
    scores = sharpness * torch.randn(length, length, dtype=torch.float64)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
    values = torch.randn(1, 1, length, width, dtype=torch.float64)
    columns = basis_with_ones(values, torch.ones(1, length, dtype=torch.bool), Cut(None, torch.float64))[0, 0]
    solved, missing = solve(weights, columns, seen)
    assert missing.max() < 1e-10
    assert solved.min() >= 0
    assert ((solved - weights) @ columns).abs().max() < 1e-10
    assert solved.masked_fill(seen, 0).abs().max() == 0


def test_real_attention_on_the_simplex(builtin):
    words = "The harbour grew, and with it the quarrels between the guilds and the bishop, who claimed the right to tax"
    encoded = builtin.tokenizer(f"{words} every ship that entered the wide river; {words} nothing at all.")
    batch = padded_batch(100, (len(encoded["input_ids"]),), "right")
    batch = dataclasses.replace(batch, ids=torch.tensor([encoded["input_ids"]]))
    block = trace(builtin.anatomy, batch).blocks[-1]
    found = minimum_norm_simplex(block, batch.mask)
    outputs, expected = found @ block.values.float(), block.attention.float() @ block.values.float()
    assert apart(outputs, expected) < 1e-5
    assert (found.norm(dim=-1) <= block.attention.float().norm(dim=-1) + 1e-6).all()


def test_the_line_search_ends_where_the_slope_has_turned():
    """Along the direction of steepest descent, from ten times too short to a million times too long."""
    torch.manual_seed(0)
    columns = torch.linalg.qr(torch.randn(30, 6, dtype=torch.float64)).Q
    original = torch.randn(40, 30, dtype=torch.float64).softmax(dim=-1)
    pairs = (columns[:, :, None] * columns[:, None, :]).flatten(1)
    rows = simplex.Rows(columns, pairs, original, original @ columns, torch.ones_like(original))
    scores, rounding = rows.required @ columns.T, torch.full((40, 1), 1e-3, dtype=torch.float64)
    residual = rows.residual(simplex._rounded(scores, rounding)[0])
    change = residual * torch.logspace(-1, 6, 40, dtype=torch.float64)[:, None]
    length = simplex._length(scores, change, residual, rounding, rows)
    reached = rows.residual(simplex._rounded(scores + length * (change @ columns.T), rounding)[0])
    slopes = [(left * change).sum(dim=-1) for left in (residual, reached)]
    assert (slopes[0] > 0).all() and (slopes[1].abs() <= simplex.TURNED * slopes[0]).all()


def test_rows_that_sum_to_more_than_one_are_refused():
    block = random_block("all", 10, width=4)
    attention = block.attention.clone()
    attention[:, :, 3] *= 1.2
    with pytest.raises(Unsupported, match=r"sums to 1\.2 "):
        minimum_norm_simplex(block_of(attention, block.grouped_values, block.mask), everything(block))


def test_sinks_are_refused():
    block = random_block("causal", 10, width=4)
    block = block_of(0.7 * block.attention, block.grouped_values, block.mask)
    with pytest.raises(Unsupported, match=r"sums to 0\.7 .*use `effective`"):
        minimum_norm_simplex(block, everything(block))
    assert torch.isfinite(minimum_norm(block, everything(block))).all()


def test_every_row_of_an_ordinary_paragraph_is_proved(builtin):
    """Nearly all weight of its sharpest heads is on one token, where an interior point method gave up."""
    ids = builtin.tokenizer(PARAGRAPH, return_tensors="pt")["input_ids"]
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool))
    block = trace(builtin.anatomy, batch).blocks[1]
    found = minimum_norm_simplex(block, batch.mask)
    assert ids.shape[1] > 100 and bool(found.isfinite().all()) and found.min() >= 0
    assert apart(found @ block.values, block.attention @ block.values) < 1e-5
    shorter = block.attention.norm(dim=-1) - found.norm(dim=-1)
    assert shorter.min() > -1e-6 and shorter.max() > 0.01


def test_rows_without_a_proof_are_nan_and_counted_and_cost_nothing_else(builtin, monkeypatch, caplog):
    monkeypatch.setattr(simplex, "CERTIFIED", 1e-16)
    monkeypatch.setattr(simplex, "STEPS", 3)
    with caplog.at_level("WARNING", logger="whence"):
        found = whence.measure(builtin, PARAGRAPH, ["attention", "minimum_simplex"], layers=[1, 2], truncate=True)
    lost = found.minimum_simplex.isnull().any("source")
    assert found.attrs["minimum_simplex_unproved"] == int(lost.sum()) > 0
    assert not bool(lost.all()) and not bool(found.attention.isnull().any())
    assert [f"{int(lost.sum()):,} rows" in record.message for record in caplog.records] == [True]
