"""Tiny random models of every family, built from configurations; weights are drawn so that no part is trivial."""

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel, XLNetLMHeadModel

from whence.models.block import Batch

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
# families outside transformers' attention interface
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
NARROW = {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}
BUCKETS = {"position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0}
OUTSIDE = {
    "deberta": ("deberta", SMALL | DISENTANGLED | {"pad_token_id": 0}),
    "deberta-v2": ("deberta-v2", SMALL | DISENTANGLED | BUCKETS | {"pad_token_id": 0}),
    "mpnet": ("mpnet", SMALL | PAD),
    "megatron-bert": ("megatron-bert", SMALL),
    "rembert": ("rembert", SMALL | {"input_embedding_size": 24, "output_embedding_size": 24}),
    "gpt_neo": (
        "gpt_neo",
        {
            "vocab_size": 97,
            "hidden_size": 64,
            "num_layers": 4,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 2]],
            "window_size": 3,
            "max_position_embeddings": 64,
        },
    ),
    "gptj": ("gptj", NARROW | {"rotary_dim": 8}),
    "codegen": ("codegen", NARROW | {"rotary_dim": 8, "n_ctx": 64}),
    "openai-gpt": ("openai-gpt", NARROW),
    "mpt": ("mpt", {"vocab_size": 97, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 64}),
    "falcon": ("falcon", SMALL | {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False}),
    "falcon-7b": ("falcon", SMALL | {"multi_query": True, "parallel_attn": True, "alibi": False}),
    "bloom": ("bloom", {"vocab_size": 97, "hidden_size": 64, "n_layer": 3, "n_head": 4}),
}
CONFIGS |= OUTSIDE
# families outside the promise whose anatomy is one of those above
EXTRA = ("cwm", "ernie4_5", "eurobert", "exaone4", "glm", "helium", "hunyuan_v1_dense", "ministral", "olmo3")
EXTRA += ("ministral3",)
EXTRA += ("seed_oss", "vaultgemma", "arcee", "jais2", "nemotron", "nanochat", "glm4")
CONFIGS |= {name: (name, GROUPED | {"head_dim": 16, "pad_token_id": 0}) for name in EXTRA}
CONFIGS |= {"ernie": ("ernie", SMALL), "data2vec-text": ("data2vec-text", SMALL | PAD)}
CONFIGS |= {
    "layoutlm": ("layoutlm", SMALL),
    "xlm-roberta-xl": ("xlm-roberta-xl", SMALL | PAD),
    "nomic_bert": ("nomic_bert", SMALL),
    "esm": ("esm", SMALL | PAD | {"mask_token_id": 3}),
    "modernbert-decoder": (
        "modernbert-decoder",
        SMALL | PAD | {"local_attention": 6, "global_attn_every_n_layers": 2},
    ),
    "gpt_bigcode": ("gpt_bigcode", NARROW),
    "biogpt": ("biogpt", SMALL | PAD),
    "persimmon": ("persimmon", SMALL | {"pad_token_id": 0}),
}
# mixtures of experts, whose feed-forward is not taken apart
MOE = GROUPED | {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "head_dim": 16, "pad_token_id": 0}
LATENT = SMALL | {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
LATENT |= {"qk_nope_head_dim": 8, "first_k_dense_replace": 1, "n_routed_experts": 4, "n_shared_experts": 1}
LATENT |= {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "pad_token_id": 0}
EXPERTS = {
    "mixtral": ("mixtral", MOE | {"num_local_experts": 4}),
    "qwen2_moe": ("qwen2_moe", MOE | {"num_experts": 4, "shared_expert_intermediate_size": 32}),
    "qwen3_moe": ("qwen3_moe", MOE | {"num_experts": 4}),
    "olmoe": ("olmoe", MOE | {"num_experts": 4}),
    "phimoe": ("phimoe", MOE | {"num_local_experts": 4}),
    "granitemoe": ("granitemoe", MOE | {"num_local_experts": 4, "residual_multiplier": 0.3, "logits_scaling": 4.0}),
    "deepseek_v2": ("deepseek_v2", LATENT | {"topk_method": "greedy"}),
    "deepseek_v3": ("deepseek_v3", LATENT | {"n_group": 2, "topk_group": 1}),
    "glm4_moe": (
        "glm4_moe",
        MOE | {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
    ),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        MOE | {"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 1},
    ),
    "minimax_m2": ("minimax_m2", MOE | {"num_local_experts": 4}),
    "solar_open": ("solar_open", MOE | {"n_routed_experts": 4, "n_shared_experts": 1}),
    "flex_olmo": ("flex_olmo", MOE | {"num_experts": 4}),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", MOE | {"num_experts": 4, "moe_topk": 2}),
    "llama4_text": (
        "llama4_text",
        MOE
        | {
            "num_local_experts": 4,
            "intermediate_size_mlp": 80,
            "moe_layers": [1, 2],
            "attn_temperature_tuning": False,
        },
    ),
    "gpt_oss": ("gpt_oss", MOE | WINDOW | {"num_local_experts": 4}),
}
# blocks that attend in part or not at all
STATE = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8}
LINEAR = GROUPED | {"head_dim": 16, "pad_token_id": 0, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
LINEAR |= {"num_hidden_layers": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
UNATTENDED = {
    "mamba": ("mamba", STATE),
    "mamba2": ("mamba2", STATE | {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 4}),
    "falcon_mamba": ("falcon_mamba", STATE),
    "rwkv": ("rwkv", {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "context_length": 64}),
    "xlstm": ("xlstm", {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "num_heads": 4}),
    "qwen3_next": (
        "qwen3_next",
        LINEAR
        | {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 48,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "qwen3_5_text": ("qwen3_5_text", LINEAR),
    "jamba": (
        "jamba",
        GROUPED | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
    ),
    "recurrent_gemma": ("recurrent_gemma", GROUPED | {"lru_width": 64, "attention_window_size": 8, "pad_token_id": 0}),
    "lfm2": ("lfm2", GROUPED | {"layer_types": ["conv", "full_attention", "conv"], "pad_token_id": 0}),
    "granitemoehybrid": (
        "granitemoehybrid",
        GROUPED
        | {
            "layer_types": ["mamba", "attention", "mamba"],
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 4,
            "shared_intermediate_size": 80,
            "num_local_experts": 0,
        },
    ),
}
EVERY = CONFIGS | EXPERTS
# One of every way that a block is put together, for the arithmetic on its parts. That the parts of each family in the
# table are the model's own is checked of all of them, in test_verify.
DISTINCT = [
    "bert",
    "albert-groups",
    "modernbert",
    "xlnet",
    "gpt2",
    "gpt_neox",
    "opt-350m",
    "llama",
    "llama-multi-query",
]
DISTINCT += ["gemma2", "olmo2", "phi", "granite", "stablelm-parallel", "deberta-v2", "falcon-7b", "mpt", "bloom"]
DISTINCT += ["mixtral", "deepseek_v3", "llama4_text", "gpt_oss"]
DOUBLE = [(name, torch.float64) for name in DISTINCT]
SINGLE = [(name, torch.float32) for name in ("bert", "xlnet", "gemma2")]
SWITCHED = [name for name in EXPERTS if name != "llama4_text"]  # whose experts can be computed in several ways
UNREAD_EXPERTS = {"llama4_text", "gpt_oss"}  # whose weights are laid out in ways of their own
NO_VALUE_MAP = {"deepseek_v2", "deepseek_v3"}  # a norm stands between what the attention reads and its values
MASKED = {"bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "distilbert", "modernbert"}
MASKED |= {"ernie", "data2vec-text", "eurobert", "deberta", "deberta-v2", "mpnet", "megatron-bert", "rembert"}
MASKED |= {"layoutlm", "xlm-roberta-xl", "nomic_bert", "esm"}


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
    kind, settings = (EVERY | UNATTENDED)[name]
    torch.manual_seed(seed)
    more = ({"experts_implementation": "eager"} | more) if name in EXPERTS else more  # the others have no float64
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
