"""Paths beside the residual stream take `derivatives` away: a product of blocks would miss them."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import whence
from tests import tiny
from tests.families import GROUPED, build, scatter
from whence.errors import Unsupported
from whence.models.end_to_end import CLOSE, missed
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

GEMMA = GROUPED | {"head_dim": 16, "global_head_dim": 16, "pad_token_id": 0, "num_hidden_layers": 4}
GEMMA |= {"layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": 97}
PLAIN = {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
STATE = GROUPED | {"num_key_value_heads": 4, "mamba_d_state": 8, "pad_token_id": 0, "num_hidden_layers": 4}
BESIDE = {
    "inputs of every layer": ("gemma4_text", GEMMA | PLAIN | {"hidden_size_per_layer_input": 16}),
    "shared keys and values": ("gemma4_text", GEMMA | PLAIN | {"num_kv_shared_layers": 2}),
    "the embeddings again": (
        "zamba",
        STATE | {"layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 2, "use_mamba_kernels": False},
    ),
}


def _built(kind, settings):
    torch.manual_seed(0)
    return scatter(AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings))).eval()


@pytest.mark.parametrize("path", BESIDE)
def test_a_path_beside_the_stream_takes_derivatives_away(path):
    found = capabilities(verify(locate(_built(*BESIDE[path]))))
    assert "attention" in found and "derivatives" not in found


def test_gemma_4_without_side_paths_has_derivatives():
    assert "derivatives" in capabilities(verify(locate(_built("gemma4_text", GEMMA | PLAIN))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_is_no_path(dtype):
    """And in half precision a path is still seen."""
    assert missed(locate(build("llama").to(dtype))) <= CLOSE[dtype] / 2
    beside = _built(*BESIDE["inputs of every layer"]).to(dtype)
    assert missed(locate(beside)) > 2 * CLOSE[dtype]


def test_frozen_weights_are_differentiated_all_the_same():
    assert missed(locate(build("bert").requires_grad_(False))) <= CLOSE[torch.float32]


def test_code_without_a_derivative_is_infinitely_far():
    model = build("llama")
    model.model.layers[-1].register_forward_hook(lambda block, args, output: output.detach())
    assert missed(locate(model)) == float("inf")


def test_contributions_are_refused_in_one_sentence():
    model = whence.load(_built(*BESIDE["inputs of every layer"]), tiny.tokenizer())
    with pytest.raises(Unsupported, match="'contribution' needs derivatives, which the family 'gemma4_text' does not"):
        whence.measure(model, "ada bo cy", "contribution")
