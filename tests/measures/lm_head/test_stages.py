"""The head's steps are its own modules'; the last one gives the model's logits."""

import pytest
import torch
from torch import nn

from tests.families import DISTINCT, EVERY, batch, build
from whence.errors import Unsupported
from whence.measures.lm_head.stages import activation_name, scores, stages_of, states_at, top
from whence.models.capture import arguments_of, run
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

BERT_STAGES = ["trf-out", "dense-w", "dense-b", "gelu", "lnorm-n", "lnorm-w", "lnorm-b", "lmhead-out"]
# family -> stages; those narrower or wider than the embeddings cannot be scored
EXPECTED = {
    "bert": BERT_STAGES,
    "roberta": BERT_STAGES,
    "distilbert": BERT_STAGES,
    "electra": BERT_STAGES[1:],
    "albert": ["dense-w", "dense-b", "newgelu", "lnorm-n", "lnorm-w", "lnorm-b", "lmhead-out"],
    "modernbert": ["trf-out", "norm-n", "norm-w", "dense-w", "gelu", "lnorm-n", "lnorm-w", "lmhead-out"],
    "gpt2": ["trf-out", "norm-n", "norm-w", "norm-b", "unembed"],
    "llama": ["trf-out", "norm-n", "norm-w", "unembed"],
    "gemma2": ["trf-out", "norm-n", "norm-w", "unembed", "softcap"],
    "gemma3_text": ["trf-out", "norm-n", "norm-w", "unembed", "softcap"],
    "granite": ["trf-out", "norm-n", "norm-w", "unembed", "scale"],
    "opt-narrow": ["project-w", "unembed"],
    "xlnet": ["trf-out", "unembed"],
}
# where the modules of a masked LM's head are: dense, activation, norm, decoder
MODULES = {
    "bert": lambda m: (
        m.cls.predictions.transform.dense,
        m.cls.predictions.transform.transform_act_fn,
        m.cls.predictions.transform.LayerNorm,
        m.cls.predictions.decoder,
    ),
    "roberta": lambda m: (m.lm_head.dense, nn.functional.gelu, m.lm_head.layer_norm, m.lm_head.decoder),
    "albert": lambda m: (m.predictions.dense, m.predictions.activation, m.predictions.LayerNorm, m.predictions.decoder),
    "electra": lambda m: (
        m.generator_predictions.dense,
        m.generator_predictions.activation,
        m.generator_predictions.LayerNorm,
        m.generator_lm_head,
    ),
    "distilbert": lambda m: (m.vocab_transform, m.activation, m.vocab_layer_norm, m.vocab_projector),
    "modernbert": lambda m: (m.head.dense, m.head.act, m.head.norm, m.decoder),
}
COHERE = {"cohere": {"logit_scale": 0.25}, "cohere2": {"logit_scale": 0.25, "sliding_window": 5}}


@pytest.fixture
def cohere(monkeypatch):
    """Outside the shared table of tiny models."""
    for name, more in COHERE.items():
        monkeypatch.setitem(EVERY, name, (name, EVERY["llama"][1] | {"pad_token_id": 0} | more))


def everywhere(model, lengths=(9, 6)):
    """Anatomy, batch, and the row and place of every token that is not padding."""
    anatomy, tokens = locate(model), batch(list(lengths))
    rows, places = tokens.mask.nonzero().T.tolist()
    return anatomy, tokens, rows, places


@pytest.mark.parametrize("name", DISTINCT)
def test_the_last_stage_is_the_logits(name):
    model = build(name)
    anatomy, tokens, rows, places = everywhere(model)
    with torch.no_grad():
        logits = run(model, tokens, **arguments_of(anatomy))[rows, places]
    states = states_at(anatomy, tokens, rows, places, [anatomy.layers])[0]
    found = scores(stages_of(anatomy), states)
    assert found.shape[1] == len(stages_of(anatomy).names)
    assert (found[:, -1] - logits).abs().max() < 1e-5 * logits.abs().max()


@pytest.mark.parametrize("name", COHERE)
def test_a_factor_on_the_logits(name, cohere):
    model = build(name)
    anatomy, tokens, rows, places = everywhere(model)
    assert {"norms", "lm_head"} <= capabilities(verify(anatomy))
    with torch.no_grad():
        logits = run(model, tokens)[rows, places]
    found = scores(stages_of(anatomy), states_at(anatomy, tokens, rows, places, [anatomy.layers])[0])
    assert stages_of(anatomy).names == ["trf-out", "norm-n", "norm-w", "unembed", "scale"]
    assert (found[:, -1] - logits).abs().max() < 1e-5 * logits.abs().max()
    assert torch.allclose(found[:, -2] * 0.25, found[:, -1])


@pytest.mark.parametrize(("name", "stages"), EXPECTED.items())
def test_stage_names(name, stages):
    assert stages_of(locate(build(name))).names == stages


@pytest.mark.parametrize("name", MODULES)
def test_stages_are_what_the_heads_modules_leave(name):
    """Computed here from the modules' weights, one step at a time, without whence's own parts."""
    model = build(name)
    anatomy, tokens, rows, places = everywhere(model)
    with torch.no_grad():
        stack = run(model.base_model, tokens, **arguments_of(anatomy))[rows, places]
        dense, activation, norm, decoder = MODULES[name](model)
        states = {"dense-w": stack @ dense.weight.T}
        states["dense-b"] = dense(stack)
        states["act"] = activation(states["dense-b"])
        states["lnorm-n"] = nn.functional.layer_norm(states["act"], norm.normalized_shape, eps=norm.eps)
        states["lnorm-w"] = states["lnorm-n"] * norm.weight
        states["lnorm-b"] = norm(states["act"])
        states["lmhead-out"] = None
        expected = [
            decoder(states["lnorm-b"]) if state is None else state @ decoder.weight.T for state in states.values()
        ]
    stages = stages_of(anatomy)
    found = scores(stages, states_at(anatomy, tokens, rows, places, [anatomy.layers])[0])
    named = dict(zip(stages.names, found.unbind(1), strict=True))
    named["act"] = named[activation_name(anatomy.head.activation)]
    compared = [step for step in states if step in named]
    assert {"dense-w", "act", "lnorm-n", "lnorm-w", "lmhead-out"} <= set(compared)
    for step, value in zip(states, expected, strict=True):
        if step in named:
            assert torch.allclose(named[step], value, atol=2e-5, rtol=1e-4), step


def test_a_norm_without_centre():
    """RMSNorm, by hand."""
    anatomy = locate(build("llama"))
    stages = stages_of(anatomy)
    state = torch.randn(1, 64)
    found = dict(zip(stages.names, scores(stages, state)[0], strict=True))
    embeddings = anatomy.model.lm_head.weight
    bare = state[0] / (state[0].square().mean() + anatomy.config.rms_norm_eps).sqrt()
    assert torch.allclose(found["norm-n"], embeddings @ bare, atol=1e-5)
    assert torch.allclose(found["norm-w"], embeddings @ (bare * anatomy.model.model.norm.weight), atol=1e-5)
    assert torch.allclose(found["trf-out"], embeddings @ state[0], atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama", "modernbert", "gpt2"])
def test_layers_are_read_before_the_final_norm(name):
    """hidden_states of transformers holds the same, but for the last, which is past the final norm."""
    model = build(name)
    anatomy, tokens, rows, places = everywhere(model, (8,))
    with torch.no_grad():
        hidden = model(input_ids=tokens.ids, output_hidden_states=True).hidden_states
    found = states_at(anatomy, tokens, rows, places, range(anatomy.layers + 1))
    for layer in range(anatomy.layers):
        assert torch.allclose(found[layer], hidden[layer][rows, places], atol=1e-5)
    assert torch.allclose(anatomy.finish(found[-1]), hidden[-1][rows, places], atol=1e-5)


def test_batched_equals_one_at_a_time():
    model = build("bert")
    anatomy, tokens, rows, places = everywhere(model)
    stages = stages_of(anatomy)
    together = states_at(anatomy, tokens, rows, places, [anatomy.layers])[0]
    alone = batch([9])
    apart = states_at(anatomy, alone, [0] * 9, range(9), [anatomy.layers])[0]
    assert torch.allclose(together[:9], apart, atol=1e-5)
    assert torch.allclose(scores(stages, together)[:9], scores(stages, apart), atol=1e-4)


def test_half_precision_is_close():
    model = build("bert")
    exact = scores(stages_of(locate(model)), states := torch.randn(3, 64))
    coarse = scores(stages_of(locate(model.to(torch.bfloat16))), states.bfloat16())
    assert coarse.dtype == torch.float32
    assert (coarse - exact).abs().max() < 6e-2 * exact.abs().max()


def test_arrays_are_the_heads_weights():
    model = build("modernbert")
    arrays = stages_of(locate(model)).arrays
    assert set(arrays) == {"final_norm_weight", "norm_weight", "dense_weight", "decoder_bias"}
    assert torch.equal(arrays["norm_weight"], model.head.norm.weight)
    assert torch.equal(arrays["final_norm_weight"], model.model.final_norm.weight)


def test_top_is_sorted():
    values, tokens = top(torch.tensor([[0.1, 3.0, 2.0]]), 5)
    assert tokens.tolist() == [[1, 2, 0]] and values[0, 0] == 3


@pytest.mark.parametrize(("name", "wanted"), [("bert", "BertForMaskedLM"), ("gpt2", "GPT2LMHeadModel")])
def test_a_model_without_a_head_is_told_which_class_has_one(name, wanted):
    with pytest.raises(Unsupported, match=wanted):
        stages_of(locate(build(name).base_model))
