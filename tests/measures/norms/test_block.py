"""The whole block, feed-forward and all, against integrated gradients taken by automatic differentiation."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings

from tests.families import CONFIGS, DOUBLE, SINGLE
from tests.measures.blocks import drawn
from tests.measures.reference import apart, block_vectors, captured, ratios
from whence.linear.steps import Activated, Gated
from whence.measures.norms.block import block_mixing, block_norms, probes, sketched_block_norms, standard_error
from whence.measures.norms.maps import maps
from whence.models.weights import Affine, FeedForward

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize(("name", "dtype"), [case for case in DOUBLE + SINGLE if case[0] in CONFIGS])
def test_lengths_and_ratios_are_those_of_the_vectors_and_they_sum_to_the_output(name, dtype):
    (_, block, *_), rows = captured(name, dtype)
    vectors, biases = block_vectors(block, rows.mask)
    assert apart(block_norms(block, rows.mask), vectors.norm(dim=-1)) < LIMITS[dtype]
    assert apart(block_mixing(block, rows.mask), ratios(vectors)) < LIMITS[dtype]
    assert apart((vectors.sum(dim=2) + biases)[rows.mask], block.output[rows.mask]) < 1e-5


@settings(max_examples=15, deadline=None)
@given(drawn())
def test_any_block(case):
    block, mask = case
    vectors, biases = block_vectors(block, mask)
    assert apart(block_norms(block, mask), vectors.norm(dim=-1)) < 1e-6
    assert torch.allclose(block_mixing(block, mask), ratios(vectors), atol=1e-7)
    assert apart((vectors.sum(dim=2) + biases)[mask], block.output[mask]) < 1e-6


@pytest.mark.parametrize("name", ["bert", "llama", "mistral"])
def test_pieces_change_nothing(name):
    (block, *_), rows = captured(name, torch.float64, (9, 6))
    whole = block_norms(block, rows.mask)
    for budget in (1, 300, 2000):
        assert apart(block_norms(block, rows.mask, budget), whole) < 1e-12


def test_in_parallel_blocks_others_come_by_attention_alone():
    (block, *_), rows = captured("gpt_neox", torch.float64)
    found, attention = block_norms(block, rows.mask), maps(block, rows.mask, ["attnres_n"])["attnres_n"]
    off = ~torch.eye(5, dtype=torch.bool)
    assert torch.allclose(found[:, off], attention[:, off])
    assert not torch.allclose(found[0].diagonal(), attention[0].diagonal())


@pytest.mark.parametrize("activation", [torch.nn.functional.silu, torch.nn.functional.gelu, torch.relu, torch.tanh])
def test_gated_slopes_are_complete_and_finite_from_nothing_to_a_thousand(activation):
    before = torch.tensor([0.0, 1e-30, -1e-12, 1e-6, -0.3, 2.0, -9.0, 80.0, -1000.0], dtype=torch.float64)
    identity = Affine(torch.eye(len(before), dtype=torch.float64), None)
    linear = Affine(torch.randn(len(before), len(before), dtype=torch.float64), None)
    forward = FeedForward(identity, linear, activation, identity)
    gated, up = Gated.of(forward, before[None]), before @ linear.weight
    assert torch.isfinite(gated.slope).all()
    parts = (before * gated.slope + up * gated.linear_slope)[0]
    assert torch.allclose(parts, activation(before) * up, rtol=1e-9, atol=1e-12)


def test_the_slope_of_a_straight_line_is_its_own():
    line = Activated.of(lambda states: 0.25 * states + 7, torch.tensor([[0.5, -2.0, 30.0]]))
    assert torch.allclose(line.slope, torch.tensor(0.25), rtol=1e-5)


def test_the_sketch_has_the_error_it_says():
    (block, *_), rows = captured("bert", torch.float64, (20, 15))
    exact, off = block_norms(block, rows.mask), ~torch.eye(20, dtype=torch.bool)
    real = (rows.mask[:, :, None] & rows.mask[:, None]) & off
    said = standard_error(64, probes(64, 0.2))
    errors = [(sketched_block_norms(block, rows.mask, 0.2, seed) / exact - 1)[real] for seed in range(40)]
    assert 0.8 * said < torch.cat(errors).square().mean().sqrt() < 1.25 * said
    assert torch.cat(errors).mean().abs() < said / 4


def test_the_sketch_is_seeded_leaves_the_diagonal_and_ends_exact():
    (block, *_), rows = captured("llama", torch.float32)
    exact, sketch = block_norms(block, rows.mask), sketched_block_norms(block, rows.mask, 0.3)
    assert torch.equal(sketch, sketched_block_norms(block, rows.mask, 0.3))
    assert not torch.equal(sketch, sketched_block_norms(block, rows.mask, 0.3, seed=1))
    assert torch.allclose(sketch.diagonal(dim1=1, dim2=2), exact.diagonal(dim1=1, dim2=2))
    assert torch.equal(sketched_block_norms(block, rows.mask, 0.001), exact)


@pytest.mark.parametrize("width", [64, 768, 4096])
@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_as_many_probes_as_the_error_needs(width, error):
    assert standard_error(width, probes(width, error)) <= error
    assert probes(width, error) <= width


def test_padding_and_the_rest_of_the_batch_change_nothing():
    (block, *_), rows = captured("bert", torch.float64, (7, 4, 6), side="left")
    found, ratio = block_norms(block, rows.mask), block_mixing(block, rows.mask)
    states = ("attention", "grouped_values", "input", "projected", "output")
    for row, real in enumerate(rows.mask):
        alone = {name: getattr(block, name)[row : row + 1] for name in states}
        single = dataclasses.replace(block, mask=None, **alone)
        assert torch.equal(found[row], block_norms(single, rows.mask[row : row + 1])[0])
        assert apart(ratio[row], block_mixing(single, rows.mask[row : row + 1])[0]) < 1e-12
        assert not found[row][~real].any() and not found[row][:, ~real].any() and not ratio[row][~real].any()
