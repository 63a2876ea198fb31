"""Encoder-decoders: both stacks are found, captured and checked, and what is left out is refused by name."""

from dataclasses import replace

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BartForSequenceClassification,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
    WhisperFeatureExtractor,
)

import whence
from tests import tiny
from tests.stacks import BART, KINDS, PAIR, batch, build, loaded
from whence.errors import BadInput, Unsupported, VerificationFailed
from whence.models.agreement import apart
from whence.models.capture import trace
from whence.models.families import Around
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

LEFT_PADDED = {"t5", "t5-unscaled", "mt5", "umt5", "m2m_100"}  # the others count positions from the left edge


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


def test_every_family_passes_every_check_and_comes_back_as_it_was(name):
    model = build(name).double()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        logits = model(input_ids=batch().source.ids, decoder_input_ids=batch().prefix.ids).logits
    given = capabilities(verify(locate(model)))
    needed = {"attention", "rows", "values", "norms", "neurons", "secant", "derivatives", "lm_head"}
    assert given >= needed and ("left padding" in given) == (name in LEFT_PADDED)
    with torch.no_grad():
        again = model(input_ids=batch().source.ids, decoder_input_ids=batch().prefix.ids).logits
    assert torch.equal(logits, again) and all(torch.equal(before[key], now) for key, now in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_three_attentions_are_those_that_the_model_hands_out(name):
    model, given = build(name), batch()
    anatomy = locate(model)
    encoder, decoder = trace(anatomy.encoder, given.source), trace(anatomy, given)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        asked = {"output_attentions": True, "output_hidden_states": True, "use_cache": False}
        theirs = model(input_ids=given.source.ids, decoder_input_ids=given.prefix.ids, **asked)
    for block, weights in zip(encoder.blocks, theirs.encoder_attentions, strict=True):
        assert torch.allclose(block.attention, weights, atol=1e-6)
    rows = zip(decoder.blocks, theirs.decoder_attentions, theirs.cross_attentions, strict=True)
    for block, own, cross in rows:
        assert torch.allclose(block.attention, own, atol=1e-6)
        assert torch.allclose(block.cross.attention, cross, atol=1e-6)
    assert apart(decoder.embedding, theirs.decoder_hidden_states[0]) < 1e-6
    assert torch.equal(decoder.blocks[0].cross.attention.sum(-1) > 0.999, torch.ones(1, anatomy.heads, 4).bool())


def test_a_wrong_norm_around_the_cross_attention_is_seen():
    anatomy = locate(build("bart"))
    wrong = replace(anatomy.row, cross=Around(before="encoder_attn_layer_norm"))
    with pytest.raises(VerificationFailed, match="block outputs are the sum of their parts"):
        verify(replace(anatomy, row=wrong))


def test_a_cross_attention_that_was_found_in_the_wrong_place_is_seen():
    anatomy = locate(build("t5"))
    with pytest.raises(VerificationFailed, match=r"heads sum to the projection|sum of their parts"):
        verify(replace(anatomy, crossing=anatomy.projections))


def test_a_bias_of_the_logits_is_part_of_the_head():
    model = loaded("marian")
    assert torch.equal(model.anatomy.head.decoder.bias, model.model.final_logits_bias[0])
    assert loaded("t5").anatomy.head.factor == 64**-0.5 and loaded("t5-unscaled").anatomy.head.factor == 1


def test_the_encoder_alone_is_an_ordinary_model(name):
    model = loaded(name)
    ds = whence.measure(model.encoder, PAIR[0], ["attention", "mixing", "rollout"])
    assert ds.sizes["layer"] == 3 and ds.attrs["causal"] == 0
    tree = whence.measure(model, PAIR, ["attention"])
    assert torch.equal(torch.tensor(ds.attention.values), torch.tensor(tree["encoder"].attention.values))


def test_a_folder_is_read_with_both_stacks(tmp_path):
    build("t5").save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    model = whence.load(tmp_path)
    assert "layers=3+2" in repr(model) and model.encoder.anatomy.layers == 3
    assert whence.verify(model).passed.all() and whence.verify(model).check.str.startswith("decoder: ").any()


def test_half_precision_is_read_and_followed():
    model = whence.load(build("bart").to(torch.bfloat16), tiny.tokenizer())
    tree = whence.measure(model, PAIR, ["mixing", "contribution", "decomposition"])
    total = tree["decoder"].contribution.sum("source") + tree["cross"].contribution.sum("source")
    assert total.values == pytest.approx(1, abs=1e-5)


def test_whisper_reads_a_sound_and_the_beginning_of_its_text():
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    model = whence.load(build("whisper"), tiny_processor(extractor))
    features = torch.randn(1, 8, 12, generator=torch.Generator().manual_seed(0))
    tree = whence.measure(model, ({"input_features": features}, "fay gus hal"), ["attention", "contribution", "mixing"])
    assert tree["cross"].sizes["source"] == 6 and "lm_head" in model.gives
    ds = whence.why(model, ({"input_features": features}, "fay gus hal"))
    assert (ds.share.sum("source") + ds.bias).values == pytest.approx(float(ds.logit.squeeze()), abs=1e-4)
    with pytest.raises(Unsupported, match="generates from sounds in a way of its own"):
        whence.why(model, {"input_features": features}, generate=3)


def tiny_processor(extractor):
    """A processor with a tokenizer of its own."""
    extractor.tokenizer = tiny.tokenizer()
    return extractor


def test_what_is_not_read_is_refused_by_name():
    small = {"vocab_size": 97, "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64}
    small |= {"num_encoder_layers": 1, "num_decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    heads = {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4}
    prophet = ProphetNetForConditionalGeneration(ProphetNetConfig(**small, **heads)).eval()
    with pytest.raises(Unsupported, match="prophetnet is an encoder-decoder that whence does not read"):
        whence.load(prophet, tiny.tokenizer())
    longer = AutoConfig.for_model("longt5", vocab_size=97, d_model=64, d_kv=16, d_ff=80, num_layers=1, num_heads=4)
    with pytest.raises(Unsupported, match=r"longt5 is an encoder-decoder that whence does not read .*it reads bart"):
        locate(AutoModelForSeq2SeqLM.from_config(longer).eval())
    with pytest.raises(Unsupported, match=r"does not read \(BartForSequenceClassification\)"):
        locate(BartForSequenceClassification(AutoConfig.for_model("bart", **BART)).eval())


def test_a_model_without_a_head_is_measured_and_not_explained():
    model = whence.load(AutoModel.from_config(build("bart").config).eval(), tiny.tokenizer())
    assert whence.measure(model, PAIR, ["attention"])["cross"].attention.sizes["source"] == 7
    with pytest.raises(Unsupported, match="has no head that predicts"):
        whence.why(model, PAIR)


def test_verbs_of_one_stack_name_the_encoder():
    model = loaded("bart")
    with pytest.raises(Unsupported, match=r"has two stacks, which whence.measure, .* \(model.encoder\)"):
        whence.alternative_attention(model, PAIR[0], layer=1, head=0)
    with pytest.raises(Unsupported, match="has two stacks"):
        whence.cloze(model, ["ada bo"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ada bo", "give both as a tuple"),
        (("ada bo", "cy", "dee"), "give both as a tuple"),
        (("ada bo", [{"role": "user", "content": "cy"}]), "The prefix is one text or token ids"),
        (("", "cy"), "The text is empty"),
        (("ada bo", " "), "The text is empty"),
        (([4, 5, 97], "cy"), "The vocabulary has the tokens 0 to 96"),
        (("ada bo", [0, 97]), "The vocabulary has the tokens 0 to 96"),
    ],
)
def test_what_is_no_pair_is_refused_in_one_sentence(text, says):
    with pytest.raises(BadInput, match=says):
        whence.measure(loaded("t5"), text)
