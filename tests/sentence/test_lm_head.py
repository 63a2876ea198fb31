"""whence.head: the Dataset of one text, its positions, its layers, and what cannot be answered."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whence
from tests.families import build
from whence.errors import BadInput, Unsupported
from whence.models.vocabulary import pieces
from whence.sentence.lm_head import predictions

TEXT = "Paris is the capital of [MASK]."
TWO = "The [MASK] sat on the [MASK]."


def logits(model, text):
    with torch.no_grad():
        return model.model(**model.tokenizer(text, return_tensors="pt")).logits[0]


@pytest.fixture(scope="module")
def one(builtin):
    return whence.lm_head(builtin, TEXT, k=5).isel(layer=0, position=0)


def test_the_last_stage_is_the_logits(builtin, one):
    expected = logits(builtin, TEXT)[int(one.position)].numpy()
    assert np.abs(one.scores.isel(stage=-1).values - expected).max() < 1e-5 * np.abs(expected).max()
    assert one.sizes["stage"] == 8 and one.sizes["vocabulary"] == 30522


def test_correlations_are_those_of_scipy(one):
    found = one.spearman.values
    expected = spearmanr(one.scores.values, axis=1).statistic
    assert np.abs(found - expected).max() < 1e-6
    assert np.abs(one.pearson.values - np.corrcoef(one.scores.values.astype(np.float64))).max() < 1e-6


def test_top_tokens_are_the_best(builtin, one):
    for stage in one.stage.values:
        scores = one.scores.sel(stage=stage).values
        best = np.argsort(-scores)[:5]
        assert one.top_id.sel(stage=stage).values.tolist() == best.tolist()
        assert one.top.sel(stage=stage).values.tolist() == builtin.tokenizer.convert_ids_to_tokens(best.tolist())
        assert np.array_equal(one.top_score.sel(stage=stage).values, scores[best])
        predicted = one.top_id.isel(stage=-1).values
        assert one.candidate_token_id.values.tolist() == predicted.tolist()
        assert one.place.sel(stage=stage).values.tolist() == [1 + (scores > scores[token]).sum() for token in predicted]


def test_weights_and_biases_of_the_head(builtin, one):
    transform = builtin.model.cls.predictions.transform
    assert np.array_equal(one.norm_weight.values, transform.LayerNorm.weight.detach().numpy())
    assert np.array_equal(one.norm_bias.values, transform.LayerNorm.bias.detach().numpy())
    assert np.array_equal(one.dense_bias.values, transform.dense.bias.detach().numpy())
    assert one.decoder_bias.dims == ("vocabulary",)


def test_provenance_and_papers(one):
    assert one.attrs["model"] == "whence/builtin" and one.attrs["text"] == TEXT and one.attrs["measures"] == "lm_head"
    assert "podkorytov2021" in whence.cite(one)


def test_it_can_be_written_and_read(one, tmp_path):
    import xarray

    one.to_netcdf(tmp_path / "head.nc")
    with xarray.open_dataset(tmp_path / "head.nc") as back:
        assert back.top.values.tolist() == one.top.values.tolist()


def test_several_masks_are_all_answered(builtin):
    found = whence.lm_head(builtin, TWO)
    assert found.sizes["position"] == 2 and found.position.values.tolist() == [2, 6]
    alone = whence.lm_head(builtin, TWO, position=6)
    assert all(found[name].dims == alone[name].dims for name in found)
    assert np.allclose(found.scores.sel(position=6), alone.scores.sel(position=6), atol=1e-5)


def test_positions_count_from_the_end_too(builtin):
    found = whence.lm_head(builtin, "A cat.", position=[1, -1])
    assert found.position.values.tolist() == [1, 4] and found.position_token.values.tolist() == ["a", "[SEP]"]


def test_the_lens_ends_at_the_head_itself(builtin, one):
    found = whence.lm_head(builtin, TEXT, layer="all")
    assert found.layer.values.tolist() == list(range(7))
    assert np.allclose(found.scores.sel(layer=6), one.scores, atol=1e-5)
    third = whence.lm_head(builtin, TEXT, layer=3)
    assert all(found[name].dims == third[name].dims for name in found) and third.layer.values.tolist() == [3]
    assert np.allclose(found.scores.sel(layer=[3]), third.scores, atol=1e-5)
    assert whence.lm_head(builtin, TEXT, layer=[2]).sizes["layer"] == 1


def test_the_lens_of_an_encoder_is_its_head_on_hidden_states(builtin):
    found = whence.lm_head(builtin, TEXT, layer=2).isel(layer=0, position=0)
    with torch.no_grad():
        coded = builtin.tokenizer(TEXT, return_tensors="pt")
        hidden = builtin.model(**coded, output_hidden_states=True).hidden_states[2]
        expected = builtin.model.cls(hidden)[0, int(found.position)].numpy()
    assert np.allclose(found.scores.isel(stage=-1), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("No gap here.", {}, r"no mask; put \[MASK\]"),
        (TEXT, {"position": 90}, "positions 0 to 8"),
        (TEXT, {"position": []}, "none was asked"),
        (TEXT, {"layer": 7}, "to 6, and 7"),
        (TEXT, {"layer": "last"}, "'last'"),
        (TEXT, {"k": 0}, "at least 1"),
        ("", {}, "empty"),
    ],
)
def test_bad_input(builtin, text, options, says):
    with pytest.raises(BadInput, match=says):
        whence.lm_head(builtin, text, **options)


def test_an_encoder_alone_has_no_head_to_take_apart(builtin):
    model = whence.load(builtin.model.bert, builtin.tokenizer)
    with pytest.raises(Unsupported, match="BertForMaskedLM"):
        whence.lm_head(model, TEXT)
    assert not predictions(model, TEXT)


def test_rows_of_the_embedding_without_a_token_have_a_name(builtin):
    assert pieces(builtin.tokenizer, [30522, 2003, 30523]) == ["<30522>", "is", "<30523>"]


def test_predictions_stand_beside_measures(builtin):
    dataset = whence.measure(builtin, TWO, ["mixing"]).assign(predictions(builtin, TWO, k=3))
    assert dataset.top.dims == ("position", "stage", "best") and dataset.sizes["layer"] == 6
    assert not predictions(builtin, "No gap here.")


def test_a_decoder_predicts_what_comes_next(smollm2):
    text = "The capital of France is"
    found = whence.lm_head(smollm2, text).isel(layer=0, position=0)
    expected = logits(smollm2, text)[-1].numpy()
    assert np.abs(found.scores.isel(stage=-1).values - expected).max() < 1e-5 * np.abs(expected).max()
    assert found.stage.values.tolist() == ["trf-out", "norm-n", "norm-w", "unembed"]
    assert "▁Paris" in found.top.isel(stage=-1).values.tolist()
    with pytest.raises(BadInput, match="before"):
        whence.lm_head(smollm2, TEXT)
    assert predictions(smollm2, TEXT).sizes["position"] == 1


def test_a_tiny_decoder_with_a_cap(builtin):
    """A model and a tokenizer that were never trained together, with logits that are capped."""
    model = whence.load(build("gemma2", vocab_size=30522), builtin.tokenizer)
    found = whence.lm_head(model, "One two").isel(layer=0, position=0)
    assert found.stage.values.tolist()[-1] == "softcap" and int(found.position) == 2
    assert np.abs(found.scores.isel(stage=-1)).max() <= 30
