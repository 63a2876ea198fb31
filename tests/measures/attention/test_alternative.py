"""Another attention with the same output: a distribution, far from the first, that the model cannot tell from it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests.families import build
from tests.measures.rows import padded_batch
from whence.errors import BadInput, Unsupported
from whence.measures.attention.alternative import SMALLEST, alternative_of
from whence.measures.attention.null_space import along, furthest, null_direction, unlike
from whence.models.block import Batch
from whence.models.locate import locate

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ["bert", "albert", "distilbert", "modernbert", "xlnet", "gpt2", "gpt_neox", "llama", "qwen3", "gemma"]


def demonstrate(name: str, lengths=(40, 33), side="left", layer=3, head=1, **options):
    model = build(name)
    batch = padded_batch(model.config.vocab_size, lengths, side)
    return alternative_of(locate(model), batch, layer, head, **options), batch


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("direction", "least"), [(None, 1e-4), ("unlike", 0.03), ("minimum_simplex", 1e-4)])
def test_the_attention_moves_and_the_logits_do_not(name, direction, least):
    found, batch = demonstrate(name, direction=direction)
    assert found.change > least
    assert found.output_difference < 1e-4
    assert found.logits_difference < 1e-4
    assert found.alternative.min() >= 0
    assert torch.allclose(found.alternative.sum(dim=-1)[batch.mask], torch.ones(()), atol=1e-5)
    assert torch.equal(found.alternative[~batch.mask], found.attention[~batch.mask])
    moved = (found.alternative - found.attention).abs().max()
    assert float(moved) == found.change


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_the_smallest_attention_is_no_distribution_and_the_logits_do_not_move(name):
    found, batch = demonstrate(name, direction="minimum")
    assert found.change > 1e-4 and found.output_difference < 1e-4 and found.logits_difference < 1e-4
    norms = (weights[batch.mask].norm(dim=-1) for weights in (found.alternative, found.attention))
    smallest, original = norms
    assert (smallest <= original * (1 + 1e-5)).all() and (smallest < 0.99 * original).any()
    assert torch.allclose(found.alternative.sum(dim=-1)[batch.mask], torch.ones(()), atol=1e-4)


def test_one_row_of_the_smallest_attention():
    found, _ = demonstrate("bert", lengths=(40,), direction="minimum_simplex", row=5)
    moved = (found.alternative - found.attention).abs().amax(dim=-1)[0]
    assert moved[5] > 1e-5 and moved[:5].max() == moved[6:].max() == 0


def test_rows_without_a_smallest_distribution_keep_their_weights(monkeypatch):
    solve = SMALLEST["minimum_simplex"]

    def unsure(block, mask):
        found = solve(block, mask)
        found[:, :, 3] = torch.nan
        return found

    monkeypatch.setitem(SMALLEST, "minimum_simplex", unsure)
    found, _ = demonstrate("bert", lengths=(40,), direction="minimum_simplex")
    assert torch.equal(found.alternative[:, 3], found.attention[:, 3])
    assert found.alternative.isfinite().all() and 0 < found.logits_difference < 1e-4


def test_on_real_weights_most_of_the_attention_can_move(builtin):
    ids = builtin.tokenizer(" ".join(["The old bridge over the wide river was closed, so we took a boat."] * 6))
    ids = torch.tensor([ids["input_ids"]])
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool))
    found = alternative_of(builtin.anatomy, batch, layer=1, head=0, direction="unlike")
    share = (found.alternative - found.attention).abs().sum(dim=-1).mean() / 2
    assert share > 0.3
    assert found.logits_difference < 1e-4


def test_the_dataset_says_where_it_came_from(builtin):
    text = "The old bridge over the wide river was closed, so we took a boat. " * 3
    found = whence.alternative_attention(builtin, text, 1, 0, row=2, seed=5)
    wanted = whence.measure(builtin, text, ["effective"])
    differ = {"parameters", "seed", "change", "output_difference", "logits_difference"}
    assert set(found.attrs) - set(wanted.attrs) == differ - {"parameters", "seed"}
    assert {name: found.attrs[name] for name in wanted.attrs if name not in differ} == {
        name: value for name, value in wanted.attrs.items() if name not in differ
    }
    assert found.attrs["seed"] == 5 and '"row": 2' in found.attrs["parameters"]


def test_a_decoder_keeps_the_future_empty():
    found, _ = demonstrate("llama", lengths=(40,))
    assert found.alternative.triu(diagonal=1).abs().max() == 0


def test_one_row_only():
    found, _ = demonstrate("bert", lengths=(40,), row=7)
    moved = (found.alternative - found.attention).abs().amax(dim=-1)[0] > 0
    assert moved.nonzero().flatten().tolist() == [7]


def test_a_given_direction_is_projected_and_followed_to_the_edge():
    direction = torch.linspace(-1, 1, 40)
    found, _ = demonstrate("bert", lengths=(40,), row=3, direction=direction)
    assert found.logits_difference < 1e-4
    assert found.alternative[0, 3].min() < 1e-7
    step = found.alternative[0, 3] - found.attention[0, 3]
    assert step @ direction > 0


def test_the_seed_decides():
    once, again, other = (demonstrate("bert", seed=seed)[0].alternative for seed in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"layer": 4}, BadInput, "no layer 4: the model has layers 1 to 3"),
        ({"head": 4}, BadInput, "no head 4: each layer has heads 0 to 3"),
        ({"row": 40}, BadInput, "no row 40: the text has tokens 0 to 39"),
        ({"direction": torch.ones(3)}, BadInput, r"shape \(3,\); the text has 40 tokens"),
        ({"direction": "up"}, BadInput, "no direction 'up'"),
        ({"lengths": (9,)}, Unsupported, "Head 1 of layer 3 .* 9 tokens, rank 9 and the row sum .* longer text"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(options, error, sentence):
    with pytest.raises(error, match=sentence):
        demonstrate("bert", **options)


def test_an_early_row_of_a_decoder_has_no_other_attention():
    with pytest.raises(Unsupported, match="too few tokens to row 5"):
        demonstrate("llama", lengths=(40,), row=5)


@given(st.integers(1, 20), st.integers(1, 6), st.booleans(), st.floats(0.1, 6), st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_rows_stay_distributions_with_the_same_output(length, width, causal, sharpness, seed):
    torch.manual_seed(seed)
    seen = torch.ones(length, length).bool()
    seen = seen.tril() if causal else seen
    scores = sharpness * torch.randn(length, length, dtype=torch.float64)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
    values, draws = torch.randn(length, width).double(), torch.randn(length, length).double()
    ones = torch.ones_like(weights)
    ways = (along(weights, values, seen, draws, weights), along(weights, values, seen, draws, ones))
    for found in (*ways, unlike(weights, values, seen)):
        assert found.min() >= 0
        assert torch.allclose(found.sum(dim=-1), torch.ones(()).double(), atol=1e-6)
        assert torch.allclose(found @ values, weights @ values, atol=1e-6)
        assert found.masked_fill(seen, 0).abs().max() == 0


def test_a_full_space_has_no_null_direction():
    values = torch.randn(5, 8, dtype=torch.float64)
    assert null_direction(torch.randn(5).double(), values, torch.ones(5).double()).tolist() == [0] * 5


def test_the_step_ends_where_the_first_weight_is_gone():
    weights, step = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([-1.0, -1.0, 2.0])
    assert torch.allclose(furthest(weights, step), torch.tensor([0.2, 0.0, 0.8]))
    assert torch.equal(furthest(weights, torch.zeros(3)), weights)
