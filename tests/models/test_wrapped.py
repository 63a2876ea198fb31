"""Models inside other libraries' objects are the models they are, or refused.

The stand-ins below have the names and the shape of nnsight 0.8 and TransformerLens 4.3. The tests with the libraries
themselves run where they are installed; they were, once, and GPT-2, Llama, GPT-NeoX, Gemma 2 and BERT were tried.
"""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import whence
from whence.errors import Unsupported

TEXT = "Paris is a city."


@pytest.fixture
def network():
    size = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(vocab_size=30522, bos_token_id=1, eos_token_id=1, **size)).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return whence.load().tokenizer


class LanguageModel:
    def __init__(self, network, tokenizer):
        self._module, self.tokenizer = network, tokenizer


LanguageModel.__module__ = "nnsight.modeling.language"


class Between(nn.Module):
    """What TransformerLens puts in the place of a module; with a scale it computes something else."""

    def __init__(self, original, scale):
        super().__init__()
        self.add_module("_original_component", original)
        self.scale = scale

    def forward(self, *args, **options):
        return self.scale * self._modules["_original_component"](*args, **options)


class TransformerBridge(nn.Module):
    def __init__(self, network, tokenizer, scale=1.0):
        super().__init__()
        for block in network.transformer.h:
            block.attn.c_proj = Between(block.attn.c_proj, 1.0)
            block.ln_1, block.mlp = Between(block.ln_1, scale), Between(block.mlp, 1.0)
        self.original_model, self.tokenizer = network, tokenizer


TransformerBridge.__module__ = "transformer_lens.model_bridge.transformer_bridge"


@pytest.mark.parametrize("wrap", [LanguageModel, TransformerBridge])
def test_the_model_inside_is_measured(network, tokenizer, wrap):
    expected = whence.measure(whence.load(network, tokenizer), TEXT, ["attention", "norms"])
    wrapped = wrap(network, tokenizer)
    logits = network(torch.tensor([[5, 6, 7]])).logits
    found = whence.measure(whence.load(wrapped), TEXT, ["attention", "norms"])
    assert all(np.array_equal(found[name], expected[name]) for name in ("attention", "norms"))
    assert torch.equal(network(torch.tensor([[5, 6, 7]])).logits, logits)  # the library's own model is as it was


def test_the_weights_are_the_librarys_own(network, tokenizer):
    model = whence.load(TransformerBridge(network, tokenizer))
    inside = network.transformer.h[0].mlp._modules["_original_component"]
    assert model.model.transformer.h[0].mlp.c_fc.weight is inside.c_fc.weight


def test_another_tokenizer_may_be_given(network, tokenizer):
    assert whence.load(LanguageModel(network, None), tokenizer).tokenizer is tokenizer


def test_a_bridge_that_computes_something_else_is_refused(network, tokenizer):
    with pytest.raises(Unsupported, match=r"computes something else than the GPT2LMHeadModel inside it \(the logits"):
        whence.load(TransformerBridge(network, tokenizer, scale=2.0))


def test_weights_that_are_not_there_yet_are_asked_for(network, tokenizer):
    with pytest.raises(Unsupported, match="dispatch=True"):
        whence.load(LanguageModel(network.to("meta"), tokenizer))


def test_nnsight_itself(network, tokenizer):
    nnsight = pytest.importorskip("nnsight", reason="nnsight is not installed; its shape is tested by a stand-in")
    model = whence.load(nnsight.LanguageModel(network, tokenizer=tokenizer))
    assert model.model is network and whence.measure(model, TEXT, "mixing").mixing.notnull().all()


def test_transformer_lens_itself(network, tokenizer, tmp_path):
    bridge = pytest.importorskip(
        "transformer_lens.model_bridge", reason="TransformerLens is not installed; its shape is tested by a stand-in"
    )
    from transformers import AutoTokenizer

    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    named = AutoTokenizer.from_pretrained(tmp_path)
    logits = network(torch.tensor([[5, 6, 7]])).logits
    wrapped = bridge.TransformerBridge.boot_transformers(str(tmp_path), hf_model=network, tokenizer=named)
    model = whence.load(wrapped, named)
    assert torch.allclose(model.model(torch.tensor([[5, 6, 7]])).logits, logits, atol=1e-5)
    assert torch.allclose(wrapped(torch.tensor([[5, 6, 7]]), return_type="logits"), logits, atol=1e-5)
