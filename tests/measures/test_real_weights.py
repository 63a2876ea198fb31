"""Measures on trained weights, where a few directions are a thousand times larger than the rest."""

import dataclasses

import pytest
import torch

from tests.measures.reference import apart, attention_vectors, block_vectors, double, ratios
from whence.measures.flow.contribution import jacobian
from whence.measures.norms.block import block_mixing, block_norms, sketched_block_norms
from whence.measures.norms.maps import NAMES, maps_and_mixing
from whence.models.block import Batch, Block
from whence.models.capture import trace
from whence.models.encode import encode
from whence.models.verify import verify
from whence.text.sentence import sentence

SENTENCE = "Paris is the capital of France, and it rained."


def blocks(model) -> tuple[tuple[Block, ...], torch.Tensor]:
    ids = model.tokenizer(SENTENCE, return_tensors="pt")["input_ids"]
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool))
    return trace(model.anatomy, batch).blocks, batch.mask


@pytest.mark.parametrize("name", ["builtin", "minilm", "smollm2"])
def test_maps_and_mixing_are_those_of_the_vectors(name, request):
    found, mask = blocks(request.getfixturevalue(name))
    for block in (found[0], found[2], found[-1]):
        given = maps_and_mixing(block, mask)
        for place, analysis in enumerate(NAMES):
            if analysis.endswith("_n"):
                vectors = attention_vectors(block, mask, analysis)
                assert apart(given[analysis], vectors.norm(dim=-1)) < 1e-5
                assert apart(given["mixing"][:, place], ratios(vectors)) < 1e-5


@pytest.mark.parametrize("name", ["builtin", "minilm", "smollm2"])
def test_whole_blocks_are_complete(name, request):
    found, mask = blocks(request.getfixturevalue(name))
    for block in (found[1], found[-1]):
        vectors, biases = block_vectors(block, mask)
        assert apart(block_norms(block, mask), vectors.norm(dim=-1)) < 1e-5
        assert apart(block_mixing(block, mask), ratios(vectors)) < 1e-5
        assert apart(vectors.sum(dim=2) + biases, block.output) < 1e-4


def test_double_precision_agrees_to_ten_digits(builtin):
    found, mask = blocks(builtin)
    block = double(found[3])
    whole = dataclasses.replace(block, output=block.rebuilt)
    assert apart(block_norms(whole, mask), block_vectors(whole, mask)[0].norm(dim=-1)) < 1e-10


def test_the_sketch_is_as_good_on_trained_weights(builtin):
    found, mask = blocks(builtin)
    exact, off = block_norms(found[2], mask)[0], ~torch.eye(mask.shape[1], dtype=torch.bool)
    errors = [(sketched_block_norms(found[2], mask, 0.1, seed)[0] / exact - 1)[off] for seed in range(20)]
    assert torch.cat(errors).square().mean().sqrt() < 0.125


def test_an_encoder_from_elsewhere_is_read_right(minilm):
    """all-MiniLM-L6-v2, which has no head."""
    assert minilm.anatomy.family == "bert" and all(check.passed for check in verify(minilm.anatomy))


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_sketched_norms_are_within_their_errors(name, request):
    """Against every direction of one source; SmolLM2 has massive activations."""
    model = request.getfixturevalue(name)
    given = encode(model.anatomy, model.tokenizer, sentence("The bridge is open.")).batch
    ask = {"layers": [1, 3], "sources": [2]}
    exact, held = jacobian(model.anatomy, given, mode="exact", **ask).norms, []
    for seed in range(3):
        flow = jacobian(model.anatomy, given, mode="sketch", error=0.1, seed=seed, **ask)
        held.append((flow.norms - exact).abs() <= 2.5 * flow.standard_error + 1e-5 * exact)
    assert torch.stack(held).float().mean() > 0.9
