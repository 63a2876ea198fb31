"""Every silent failure we know of is caught by a check."""

from dataclasses import replace

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    CLIPTextModel,
    SiglipTextModel,
)
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.models.bert import modeling_bert
from transformers.models.blip.modeling_blip_text import BlipTextLMHeadModel

import whence
from tests import tiny
from tests.families import CONFIGS, EXPERTS, GROUPED, OUTSIDE, SMALL, SWITCHED, UNREAD_EXPERTS, build, scatter
from tests.sweep.shrink import models
from whence.errors import Unsupported, VerificationFailed
from whence.models.capture import SEAM, trace
from whence.models.families import HEADS, Around
from whence.models.locate import locate, probe
from whence.models.verify import capabilities, verify

EVERYTHING = {
    "attention",
    "attention throughout",
    "rows",
    "values",
    "norms",
    "neurons",
    "secant",
    "lm_head",
    "derivatives",
    "left padding",
    "long texts",
}
OUTSIDE_INTERFACE = set(OUTSIDE) | {"xlnet"}  # their attention is not called in chunks


@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_passes_every_check(name):
    checks = verify(locate(build(name)))
    assert capabilities(checks) == EVERYTHING - ({"long texts"} if name in OUTSIDE_INTERFACE else set())
    assert all(check.error <= check.limit for check in checks)


@pytest.mark.parametrize(
    ("name", "experts"), [(name, "eager") for name in EXPERTS] + [(name, "grouped_mm") for name in SWITCHED]
)
def test_experts_give_all_but_their_neurons(name, experts):
    lacks = {"neurons", "rows"} if name == "gpt_oss" else {"neurons"}
    lacks |= {"secant"} if name in UNREAD_EXPERTS else set()
    assert capabilities(verify(locate(build(name, experts_implementation=experts)))) == EVERYTHING - lacks


TEXT = GROUPED | {"head_dim": 16, "pad_token_id": 0, "sliding_window": 5}
SEES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 14}
DEEP = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 64}
TURNS = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}}
ALSO_IMAGES = {
    "gemma3": ({"mm_tokens_per_image": 4, "image_token_index": 90}, TEXT, SEES | {"image_size": 28}),
    "mistral3": ({"image_token_index": 90}, TEXT | {"model_type": "mistral"}, SEES | {"model_type": "pixtral"}),
    "qwen2_5_vl": ({"image_token_id": 90, "video_token_id": 91}, TEXT | TURNS, DEEP),
    "qwen3_vl": ({"image_token_id": 90, "video_token_id": 91}, TEXT | TURNS, DEEP | {"deepstack_visual_indexes": [0]}),
}


@pytest.mark.parametrize("kind", ALSO_IMAGES)
def test_a_model_that_also_reads_images_is_read_on_text(kind):
    settings, text, vision = ALSO_IMAGES[kind]
    config = AutoConfig.for_model(kind, text_config=text, vision_config=vision, **settings)
    model = scatter(AutoModelForImageTextToText.from_config(config)).eval()
    anatomy = locate(model)
    assert anatomy.layers == 3 and capabilities(verify(anatomy)) == EVERYTHING


@pytest.mark.parametrize("kind", [CLIPTextModel, SiglipTextModel])
def test_the_reader_of_text_beside_one_of_pictures(kind):
    model = scatter(kind(kind.config_class(**SMALL, eos_token_id=2))).eval()
    assert capabilities(verify(locate(model))) == EVERYTHING - {"lm_head"}


def test_a_model_around_the_familys_has_a_head_of_its_own(monkeypatch):
    """ModernVBERT's is listed; one that is not is no LM head."""
    text = SMALL | {"local_attention": 6, "global_attn_every_n_layers": 2, "pad_token_id": 0}
    config = AutoConfig.for_model("modernvbert", text_config=text, vision_config=SEES | {"image_size": 28})
    model = scatter(AutoModelForMaskedLM.from_config(config)).eval()
    assert capabilities(verify(locate(model))) == EVERYTHING
    monkeypatch.delitem(HEADS, "modernvbert")
    assert capabilities(verify(locate(model))) == EVERYTHING - {"lm_head"}


def test_an_activation_with_weights_of_its_own():
    config = AutoConfig.for_model("apertus", **GROUPED, pad_token_id=0)
    assert capabilities(verify(locate(scatter(AutoModelForCausalLM.from_config(config)).eval()))) == EVERYTHING


def test_a_known_lack_is_no_failure():
    """RoFormer counts its positions from the first token, padding or not."""
    model = scatter(AutoModelForMaskedLM.from_config(AutoConfig.for_model("roformer", **SMALL))).eval()
    assert capabilities(verify(locate(model))) == EVERYTHING - {"left padding", "long texts"}


def test_a_model_without_a_head_gives_all_but_the_head():
    model = scatter(AutoModel.from_config(AutoConfig.for_model("bert", **SMALL))).eval()
    assert capabilities(verify(locate(model))) == EVERYTHING - {"lm_head"}


def test_a_family_outside_the_table_gives_what_passed():
    config = AutoConfig.for_model("xlm", vocab_size=97, emb_dim=64, n_layers=3, n_heads=4, max_position_embeddings=64)
    model = scatter(AutoModel.from_config(config)).eval()
    assert capabilities(verify(locate(model))) == {
        "attention",
        "attention throughout",
        "rows",
        "values",
        "left padding",
    }


def test_attention_sinks_are_seen():
    """gpt-oss lets a part of the attention go nowhere: its rows sum to less than one."""
    checks = {check.name: check for check in verify(locate(build("gpt_oss")))}
    assert checks["attention rows sum to one"].error > 0.01
    assert "rows" not in capabilities(tuple(checks.values()))


def test_attention_without_weights_is_refused(monkeypatch):
    """What SDPA does: the output comes, the weights do not."""
    eager = modeling_bert.eager_attention_forward
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", lambda *a, **k: (eager(*a, **k)[0], None))
    with pytest.raises(Unsupported, match="no attention weights"):
        locate(build("bert"))


def test_a_convolution_between_blocks_takes_derivatives_away():
    model = build("deberta-v2", conv_kernel_size=3, conv_act="gelu")
    assert capabilities(verify(locate(model))) == EVERYTHING - {"derivatives", "long texts"}


BLIP = SMALL | {"encoder_hidden_size": 64, "projection_dim": 32, "eos_token_id": 2, "bos_token_id": 0}


def test_a_stack_that_does_something_else_alone_is_refused():
    """BLIP's language model tells its stack to read from left to right; the stack by itself reads both ways."""
    model = scatter(BlipTextLMHeadModel(BlipTextLMHeadModel.config_class(**BLIP))).eval()
    with pytest.raises(Unsupported, match="the stack does alone what it does in the model"):
        verify(locate(model))
    assert "attention" in capabilities(verify(locate(model.bert)))


def test_a_stack_that_cannot_be_run_alone_is_refused():
    """BLT's largest list of blocks reads what others made of the bytes."""
    _, model = next(models("blt"))
    with pytest.raises(Unsupported, match="BltLocalDecoder, which holds the blocks of BltForCausalLM, cannot be run"):
        locate(model)


def test_mixing_that_sees_the_padding_is_refused():
    config = AutoConfig.for_model("fnet", vocab_size=97, hidden_size=64, num_hidden_layers=2)
    anatomy = locate(AutoModel.from_config(config).eval())
    with pytest.raises(Unsupported, match=r"family 'fnet'.*right padding"):
        verify(anatomy)


def test_a_layer_that_ignores_the_setting_is_seen():
    """One block keeps a configuration of its own, so it goes on with SDPA unwatched."""
    model = build("bert")
    attention = model.bert.encoder.layer[1].attention.self
    attention.config = AutoConfig.for_model("bert", **SMALL, attn_implementation="sdpa")
    with pytest.raises(VerificationFailed, match="every layer was seen"):
        verify(locate(model))


def test_a_causal_mask_that_vanished_is_seen(monkeypatch):
    """Without a registered mask function transformers makes no mask, and a decoder sees the future."""
    anatomy = locate(build("llama"))
    monkeypatch.delitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, SEAM)
    with pytest.raises(VerificationFailed, match="logits are what the model gives"):
        verify(anatomy)


@pytest.mark.parametrize("name", ["gpt2", "llama", "modernbert"])
def test_states_past_the_final_norm_are_not_taken_for_the_last_block(name):
    """transformers' hidden_states[-1] has the final norm in it; ours is the block's own output."""
    model = build(name)
    anatomy = locate(model)
    seen = trace(anatomy, probe(model))
    with torch.no_grad():
        theirs = model(input_ids=probe(model).ids, output_hidden_states=True).hidden_states[-1]
    assert not torch.allclose(seen.blocks[-1].output, theirs, atol=1e-3)
    assert torch.allclose(seen.output, theirs, atol=1e-4)
    with pytest.raises(VerificationFailed, match="final norm"):
        verify(replace(anatomy, row=replace(anatomy.row, final_norm=None)))


def test_a_norm_in_the_wrong_place_is_seen():
    anatomy = locate(build("llama"))
    swapped = replace(anatomy.row, attention=Around(before="input_layernorm", inside="post_attention_layernorm"))
    with pytest.raises(VerificationFailed, match="block outputs are the sum of their parts"):
        verify(replace(anatomy, row=swapped))


def _massive(name):
    """A model with one huge activation in every token, as trained ones have."""
    model = build(name)
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 7] += 1e5
    return model


def test_a_massive_activation_is_no_failure():
    assert capabilities(verify(locate(_massive("llama")))) == EVERYTHING


def test_a_massive_activation_hides_no_wrong_part(monkeypatch):
    """Every branch 11 % too large would be nothing beside the huge entry."""
    anatomy = locate(_massive("llama"))
    monkeypatch.setattr(type(anatomy), "projection", _enlarged(type(anatomy).projection, 1.11))
    with pytest.raises(VerificationFailed, match="heads sum to the projection"):
        verify(anatomy)


def _enlarged(projection, factor):
    def enlarged(anatomy, block):
        found = projection(anatomy, block)
        return replace(found, weight=factor * found.weight)

    return enlarged


def test_a_massive_activation_hides_no_wrong_branch(monkeypatch):
    anatomy = locate(_massive("llama"))
    parts = type(anatomy).parts
    monkeypatch.setattr(type(anatomy), "parts", lambda a, block: replace(parts(a, block), residual_scale=1.11))
    with pytest.raises(VerificationFailed, match="block outputs are the sum of their parts"):
        verify(anatomy)


def test_positions_shifted_by_left_padding_are_seen():
    anatomy = locate(build("roberta"))
    with pytest.raises(VerificationFailed, match="left padding"):
        verify(replace(anatomy, row=replace(anatomy.row, computes_positions=False)))


def test_broken_weights_are_seen():
    """NaN compares false with everything, so a careless check would let it pass."""
    model = build("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight[0, 0] = float("nan")
    with pytest.raises(VerificationFailed):
        verify(locate(model))


def test_the_sentence_names_family_version_and_check():
    import transformers

    anatomy = locate(build("gpt2"))
    with pytest.raises(VerificationFailed) as caught:
        verify(replace(anatomy, row=replace(anatomy.row, final_norm=None)))
    assert "'gpt2'" in str(caught.value) and transformers.__version__ in str(caught.value)


@pytest.mark.parametrize("family", ["mpt", "bloom"])
def test_nan_under_left_padding_takes_left_padding_alone(family):
    """In float64 their own code gives NaN for it; whence pads on the right."""
    model = whence.load(build(family).double(), tiny.tokenizer())
    assert "left padding" not in model.gives and {"norms", "derivatives", "lm_head"} <= model.gives
    assert not whence.measure(model, "ada bo cy", ["attention", "norms"]).norms.isnull().any()
