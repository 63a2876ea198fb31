"""Norm-based maps and mixing ratios against every vector written out, for every kind of block."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.families import DISTINCT, DOUBLE, SINGLE, batch, build
from tests.measures.blocks import drawn
from tests.measures.reference import apart, attention_vectors, captured, ratios
from whence.measures.norms import grams
from whence.measures.norms.maps import NAMES, head_norms, maps, maps_and_mixing, mixing
from whence.measures.norms.vectors import branched, by_sequence, settled, total
from whence.models.block import Block
from whence.models.capture import trace
from whence.models.locate import locate

VECTORS = tuple(name for name in NAMES if name.endswith("_n"))
LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize(("name", "dtype"), DOUBLE + SINGLE)
def test_maps_and_mixing_are_those_of_the_vectors(name, dtype):
    (_, block, *_), rows = captured(name, dtype)
    found = maps_and_mixing(block, rows.mask)
    for analysis, ratio in zip(NAMES, found["mixing"].unbind(dim=1), strict=True):
        if analysis in VECTORS:
            vectors = attention_vectors(block, rows.mask, analysis)
            assert apart(found[analysis], vectors.norm(dim=-1)) < LIMITS[dtype]
            assert apart(ratio, ratios(vectors)) < LIMITS[dtype]


@pytest.mark.parametrize("name", DISTINCT)
def test_vectors_and_biases_sum_to_the_real_state(name):
    (block, *_), rows = captured(name, torch.float32)
    summed = attention_vectors(block, rows.mask, "attn_n").sum(dim=2)
    assert apart(summed[rows.mask], total(block)[rows.mask]) < 1e-5
    summed = attention_vectors(block, rows.mask, "attnresln_n").sum(dim=2)
    assert apart((summed + _biases(block))[rows.mask], block.middle[rows.mask]) < 1e-5


def _biases(block: Block) -> torch.Tensor:
    """What belongs to no source in the state between attention and feed-forward: b_O on its way, the norm's shift."""
    norms, bias = block.parts.attention_norms, block.parts.projection.bias
    found = torch.zeros_like(block.input) if bias is None else bias.expand_as(block.input)
    found = settled(block, branched(block, found))
    shifts = [norm.bias for norm in (norms.inside, norms.after) if norm is not None and norm.bias is not None]
    return found + sum(shifts)


@pytest.mark.parametrize("name", ["bert", "gemma2", "granite", "xlnet"])
def test_weights(name):
    blocks, rows = captured(name, torch.float32)
    found = maps_and_mixing(blocks[0], rows.mask)
    weights = blocks[0].attention.mean(dim=1)
    real = rows.mask[:, :, None] & rows.mask[:, None]
    assert torch.equal(found["attn_w"], weights * real)
    assert torch.allclose(found["attnres_w"], (weights / 2 + torch.eye(5) / 2) * real)
    off = (1 - weights.diagonal(dim1=1, dim2=2)) * rows.mask
    assert torch.allclose(found["mixing"][:, 0], off)
    assert torch.allclose(found["mixing"][:, 2], off / 2)
    assert torch.allclose(found["attn_w"].sum(dim=-1)[rows.mask], torch.tensor(1.0))


@pytest.mark.parametrize("name", ["bert", "llama", "olmo2", "granite"])
def test_alone_and_together_are_the_same(name):
    blocks, rows = captured(name, torch.float64)
    together = maps_and_mixing(blocks[1], rows.mask)
    for analysis in NAMES:
        assert torch.equal(maps(blocks[1], rows.mask, [analysis])[analysis], together[analysis])
    assert torch.allclose(mixing(blocks[1], rows.mask), together["mixing"], rtol=1e-12)
    assert torch.allclose(mixing(blocks[1], rows.mask, ["attnres_n"])[:, 0], together["mixing"][:, 3], rtol=1e-12)


@pytest.mark.parametrize("name", ["bert", "llama", "llama-multi-query"])
def test_heads_one_by_one(name):
    blocks, rows = captured(name, torch.float32)
    block = blocks[0]
    vectors = torch.einsum("b h s d, h d m -> b h s m", block.values, block.parts.projection.weight)
    expected = torch.einsum("b h t s, b h s -> b h t s", block.attention, vectors.norm(dim=-1))
    real = (rows.mask[:, :, None] & rows.mask[:, None])[:, None]
    assert apart(head_norms(block, rows.mask), expected * real) < 1e-5


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "xlnet", "gemma2", "phi"])
def test_padding_and_company_change_nothing(name, side):
    anatomy, rows = locate(build(name)), batch([8, 6, 3], side)
    block = trace(anatomy, rows).blocks[1]
    found = maps_and_mixing(block, rows.mask)
    for row, real in enumerate(rows.mask):
        alone = batch([int(real.sum())])
        alone = dataclasses.replace(alone, ids=rows.ids[row, real][None])
        single = maps_and_mixing(trace(anatomy, alone).blocks[1], alone.mask)
        for analysis in NAMES:
            assert apart(found[analysis][row][real][:, real], single[analysis][0]) < 1e-5
        assert apart(found["mixing"][row][:, real], single["mixing"][0]) < 1e-5
        assert not any(found[analysis][row][~real].any() or found[analysis][row][:, ~real].any() for analysis in NAMES)
        assert not found["mixing"][row][:, ~real].any()


def test_half_precision_is_measured_in_float32():
    blocks, rows = captured("llama", torch.bfloat16)
    exact, _ = captured("llama", torch.float32)
    found, expected = maps(blocks[0], rows.mask), maps(exact[0], rows.mask)
    assert found["attn_n"].dtype == torch.float32
    assert apart(found["attnres_n"], expected["attnres_n"]) < 0.05


def test_pieces_change_nothing(monkeypatch):
    blocks, rows = captured("gemma2", torch.float64, (8, 6, 7))
    whole = maps_and_mixing(blocks[0], rows.mask)
    for vectors, pairs in ((1, 1), (64 * 4 * 5, 4 * 8 * 3), (64 * 4 * 9, 4 * 8 * 8 * 2)):
        monkeypatch.setattr(grams, "VECTORS", vectors)
        monkeypatch.setattr(grams, "PAIRS", pairs)
        pieces = maps_and_mixing(blocks[0], rows.mask)
        assert all(torch.allclose(pieces[name], whole[name], rtol=1e-10) for name in whole)


@settings(max_examples=40, deadline=None)
@given(drawn())
def test_any_block(case):
    """Lengths are those of the vectors, ratios are shares, and the triangle inequality holds."""
    block, mask = case
    found = maps_and_mixing(block, mask)
    for place, analysis in enumerate(NAMES):
        ratio = found["mixing"][:, place]
        assert bool((ratio >= 0).all() and (ratio <= 1 + 1e-9).all())
        if analysis in VECTORS:
            vectors = attention_vectors(block, mask, analysis)
            assert apart(found[analysis], vectors.norm(dim=-1)) < 1e-7
            assert bool((found[analysis].sum(dim=-1) >= vectors.sum(dim=2).norm(dim=-1) * (1 - 1e-7)).all())
    assert bool((head_norms(block, mask).sum(dim=1) * (1 + 1e-7) >= found["attn_n"]).all())


@settings(max_examples=20, deadline=None)
@given(drawn(), st.randoms(use_true_random=False))
def test_order_of_the_batch_is_order_of_the_maps(case, random):
    block, mask = case
    order = torch.tensor(random.sample(range(len(mask)), len(mask)))
    states = ("attention", "grouped_values", "input", "projected", "output")
    other = dataclasses.replace(block, **{name: getattr(block, name)[order] for name in states})
    found, turned = maps_and_mixing(block, mask), maps_and_mixing(other, mask[order])
    assert all(torch.allclose(turned[name], found[name][order], rtol=1e-9, atol=1e-12) for name in found)


def test_scattered_padding_is_refused():
    blocks, rows = captured("bert", torch.float32)
    mask = rows.mask.clone()
    mask[0, 3] = False
    with pytest.raises(AssertionError, match="stand together"):
        by_sequence(blocks[0], mask, lambda block: block.attention[0, 0])


def test_the_published_pattern_appears_on_real_text(builtin, data):
    """Attention mixes nearly everything, the block does not (Kobayashi et al. 2021); here of the built-in model."""
    text = (data / "enwiki" / "excerpt_5MB.txt").read_text()[:60_000].split("\n")
    lines = [line for line in text if 200 < len(line) < 500][:12]
    coded = builtin.tokenizer(lines, padding=True, truncation=True, max_length=128, return_tensors="pt")
    rows = dataclasses.replace(batch([1]), ids=coded["input_ids"], mask=coded["attention_mask"].bool())
    found = trace(builtin.anatomy, rows).blocks
    ratio = torch.stack([mixing(block, rows.mask).mT[rows.mask] for block in found])
    means = dict(zip(NAMES, ratio.mean(dim=(0, 1)).tolist(), strict=True))
    assert means["attn_w"] == pytest.approx(0.97, abs=0.02)
    assert means["attn_n"] > 0.80
    assert means["attnres_w"] == pytest.approx(0.48, abs=0.01)
    assert means["attnres_n"] < 0.35
    assert means["attnresln_n"] < 0.35
