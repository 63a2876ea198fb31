"""What a hash sees, what it does not, and that a Dataset and a run say the same of where their numbers came from."""

import copy

import torch

import whence
from tests import tiny
from whence.models.fingerprint import tokenizer_sha256, weights_sha256


def test_weights_are_the_numbers_and_what_is_computed_from_them(tmp_path):
    model = tiny.model()
    before = weights_sha256(model)
    model.model.config.layer_norm_eps *= 2  # the same tensors compute something else now
    assert weights_sha256(model) != before
    model.model.config.layer_norm_eps /= 2
    with torch.no_grad():
        weight = next(model.model.parameters())
        weight.view(-1)[0] += 1
        assert weights_sha256(model) != before
        weight.view(-1)[0] -= 1
    assert weights_sha256(model) == before


def test_where_weights_were_loaded_from_is_not_hashed(tmp_path):
    model = tiny.model()
    model.model.save_pretrained(tmp_path / "elsewhere")
    again = whence.load(type(model.model).from_pretrained(tmp_path / "elsewhere"), model.tokenizer)
    assert weights_sha256(again) == weights_sha256(model)


def test_a_tokenizer_is_the_same_after_it_cut_a_text_off(builtin):
    tokenizer = copy.deepcopy(builtin.tokenizer)
    before = tokenizer_sha256(tokenizer)
    tokenizer("a long text " * 9, truncation=True, max_length=5)
    assert tokenizer_sha256(tokenizer) == before
    tokenizer.model_max_length = 7
    assert tokenizer_sha256(tokenizer) != before


def test_a_run_says_of_itself_what_a_dataset_says(tmp_path):
    model = tiny.model()
    of_text = whence.measure(model, "ada", ["mixing", "value_rank"]).attrs
    whence.run(model, ["ada"], ["mixing", "value_rank"], tmp_path / "run")
    of_run = whence.open_run(tmp_path / "run").attrs
    assert of_run == {name: value for name, value in of_text.items() if name not in ("text", "pair")}
