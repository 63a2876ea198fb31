"""What a model's pass is given: segments only where they exist, only what it takes, and a sentence when that is not
enough.
"""

from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

import whence
from tests import tiny
from tests.families import SMALL, batch, build, scatter
from whence.errors import BadInput, Unsupported
from whence.models.arguments import accepted
from whence.models.capture import run
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

CTRL = {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4, "dff": 80, "n_positions": 64}
DECODER = {"vocab_size": 97, "d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 80}
DECODER |= {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 80, "max_position_embeddings": 64}
DECODER |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def _pair():
    given = batch([9])
    return replace(given, segments=torch.tensor([[0] * 5 + [1] * 4]))


def _model(kind, settings, auto=AutoModelForCausalLM):
    torch.manual_seed(0)
    return scatter(auto.from_config(AutoConfig.for_model(kind, **settings))).eval()


def _without_segments():
    return {
        "gpt2": build("gpt2"),
        "openai-gpt": build("openai-gpt"),
        "ctrl": _model("ctrl", CTRL),
        "xlm": _model("xlm", {"vocab_size": 97, "emb_dim": 64, "n_layers": 2, "n_heads": 4}, AutoModelForMaskedLM),
        "roberta, one row": build("roberta", type_vocab_size=1),
        "deberta, no row": build("deberta"),
    }


@pytest.mark.parametrize("name", ["gpt2", "openai-gpt", "ctrl", "xlm", "roberta, one row", "deberta, no row"])
def test_a_model_without_segments_is_told_of_none(name):
    model, pair = _without_segments()[name], _pair()
    with torch.no_grad():
        expected = model(input_ids=pair.ids, attention_mask=pair.mask.long())[0]
        assert torch.equal(run(model, pair), expected)


@pytest.mark.parametrize("name", ["bert", "xlnet", "electra", "deberta"])
def test_a_model_with_segments_is_told_of_them(name):
    model, pair = build(name, **({"type_vocab_size": 2} if name == "deberta" else {})), _pair()
    with torch.no_grad():
        asked = {"attention_mask": pair.mask.long(), "token_type_ids": pair.segments}
        assert torch.equal(run(model, pair), model(input_ids=pair.ids, **asked)[0])
        assert not torch.allclose(run(model, pair), run(model, replace(pair, segments=None)), atol=1e-3)


def test_a_segment_that_the_model_does_not_have():
    pair = _pair()
    with pytest.raises(BadInput, match="gave segment 2 and the model has 2, counted from 0"):
        run(build("bert"), replace(pair, segments=pair.segments * 2))


def test_xlnet_only_asks_whether_two_tokens_are_of_one_segment():
    model, pair = build("xlnet"), _pair()
    with torch.no_grad():
        assert torch.equal(run(model, replace(pair, segments=pair.segments * 2)), run(model, pair))


@pytest.mark.parametrize("kind", ["bart", "mbart", "pegasus", "marian", "blenderbot"])
def test_a_decoder_in_a_wrapper_is_read(kind):
    model = _model(kind, DECODER)
    assert "input_ids" in accepted(model.base_model)
    gives = capabilities(verify(locate(model)))
    assert gives >= {"attention", "rows", "values", "derivatives"}


SQUEEZED = SMALL | {"embedding_size": 64}
REFUSED = {
    "squeezebert": (AutoModelForMaskedLM, SQUEEZED, "without calling them as modules"),
    "bros": (AutoModel, SMALL, r"cannot be run on tokens alone \(ValueError: You have to specify bbox\)"),
    "wav2vec2": (
        AutoModel,
        SMALL | {"conv_dim": (8, 8), "conv_kernel": (3, 3), "conv_stride": (2, 2), "num_feat_extract_layers": 2},
        "reads sounds and no text, and a tokenizer was given",
    ),
    "vit": (AutoModel, SMALL, "reads pictures and no text, and a tokenizer was given"),
    "funnel": (
        AutoModelForMaskedLM,
        {"vocab_size": 97, "block_sizes": [1, 1], "d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 80},
        "right padding changes nothing",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence(kind):
    auto, settings, why = REFUSED[kind]
    with pytest.raises((Unsupported, BadInput), match=why) as caught:
        whence.load(_model(kind, settings, auto), tiny.tokenizer())
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
