"""Tiny random models of every family, built from configurations; weights are drawn so that no part is trivial."""

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel, XLNetLMHeadModel

from whence.models.trace import Batch

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = SMALL | {"num_key_value_heads": 2}
PAD = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
WINDOW = {"sliding_window": 5}

# name -> (model type, configuration): several rows of one family where a flag changes the anatomy
CONFIGS: dict[str, tuple[str, dict]] = {
    "bert": ("bert", SMALL),
    "roberta": ("roberta", SMALL | PAD),
    "xlm-roberta": ("xlm-roberta", SMALL | PAD),
    "camembert": ("camembert", SMALL | PAD),
    "electra": ("electra", SMALL | {"embedding_size": 24}),
    "albert": ("albert", SMALL | {"embedding_size": 24, "inner_group_num": 1}),
    "albert-groups": ("albert", SMALL | {"embedding_size": 24, "num_hidden_groups": 2, "num_hidden_layers": 4}),
    "distilbert": (
        "distilbert",
        {"vocab_size": 97, "dim": 64, "hidden_dim": 80, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64},
    ),
    "modernbert": ("modernbert", SMALL | {"local_attention": 6, "global_attn_every_n_layers": 2} | PAD),
    "xlnet": ("xlnet", {"vocab_size": 97, "d_model": 64, "n_layer": 3, "n_head": 4, "d_inner": 80}),
    "gpt2": ("gpt2", {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "gpt_neox": ("gpt_neox", SMALL | {"use_parallel_residual": True}),
    "gpt_neox-sequential": ("gpt_neox", SMALL | {"use_parallel_residual": False}),
    "opt": ("opt", SMALL | {"ffn_dim": 80, "word_embed_proj_dim": 64}),
    "opt-350m": ("opt", SMALL | {"ffn_dim": 80, "word_embed_proj_dim": 24, "do_layer_norm_before": False}),
    "opt-narrow": ("opt", SMALL | {"ffn_dim": 80, "word_embed_proj_dim": 24}),
    "llama": ("llama", GROUPED),
    "llama-multi-query": ("llama", SMALL | {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("mistral", GROUPED | WINDOW),
    "qwen2": ("qwen2", GROUPED),
    "qwen3": ("qwen3", GROUPED | {"head_dim": 16}),
    "gemma": ("gemma", GROUPED | {"head_dim": 16}),
    "gemma2": ("gemma2", GROUPED | WINDOW | {"head_dim": 16}),
    "gemma3_text": ("gemma3_text", GROUPED | WINDOW | {"head_dim": 16, "final_logit_softcapping": 5.0}),
    "phi": ("phi", GROUPED),
    "phi3": ("phi3", GROUPED | {"pad_token_id": 0}),
    "olmo": ("olmo", GROUPED),
    "olmo2": ("olmo2", GROUPED),
    "smollm3": ("smollm3", GROUPED | {"pad_token_id": 0}),
    "stablelm": ("stablelm", GROUPED),
    "stablelm-parallel": ("stablelm", GROUPED | {"use_parallel_residual": True, "qk_layernorm": True}),
    "granite": ("granite", GROUPED | {"residual_multiplier": 0.3, "logits_scaling": 4.0, "embedding_multiplier": 2.0}),
    "starcoder2": ("starcoder2", GROUPED | WINDOW),
}
# families outside the promise whose anatomy is one of those above
EXTRA = ("cwm", "ernie4_5", "eurobert", "exaone4", "glm", "helium", "hunyuan_v1_dense", "ministral", "olmo3")
EXTRA += ("seed_oss", "vaultgemma")
CONFIGS |= {name: (name, GROUPED | {"head_dim": 16, "pad_token_id": 0}) for name in EXTRA}
CONFIGS |= {"ernie": ("ernie", SMALL), "data2vec-text": ("data2vec-text", SMALL | PAD)}
MASKED = {"bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "distilbert", "modernbert"}
MASKED |= {"ernie", "data2vec-text", "eurobert"}


def batch(lengths: list[int], side: str = "right", seed: int = 0, vocabulary: int = 90) -> Batch:
    """Random ordinary tokens, padded (id 1, which no sentence has) on one side to the longest."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, vocabulary, (length,), generator=generator) for length in lengths]
    ids = torch.full((len(rows), max(lengths)), 1)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, (tokens, length) in enumerate(zip(rows, lengths, strict=True)):
        place = slice(0, length) if side == "right" else slice(max(lengths) - length, None)
        ids[row, place], mask[row, place] = tokens, True
    return Batch(ids, mask)


def build(name: str, seed: int = 0, **more) -> PreTrainedModel:
    """The named tiny model in eval mode; biases and norm weights are random too, or their place would go untested."""
    kind, settings = CONFIGS[name]
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **(settings | more))
    if kind == "xlnet":
        model = XLNetLMHeadModel(config)
    else:
        model = (AutoModelForMaskedLM if kind in MASKED else AutoModelForCausalLM).from_config(config)
    return scatter(model).eval()


def scatter(model: PreTrainedModel) -> PreTrainedModel:
    """Draws every weight anew: maps large enough that attention is far from uniform, norms far from one."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=1.6 / max(parameter.shape) ** 0.5)
            else:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model
