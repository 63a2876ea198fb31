"""What the rules of `shrink` do not make small or whole: settings by model type, of parts of a model too."""

from typing import Any

ROTARY = {"rope_type": "default", "rope_theta": 1e4}
BESIDE = ("hidden_size_per_layer_input", "vocab_size_per_layer_input")
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
SETTINGS: dict[str, dict[str, Any]] = {
    "align_vision_model": {"width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 64},
    "blt": {"encoder_hash_byte_group_vocab": 97},
    "blt_local_encoder": {"hidden_size_global": 64},
    "blt_local_decoder": {"hidden_size_global": 64},
    "chameleon": {"vocabulary_map": {"<image>": 90}},
    "cohere_compass_text": {"layer_types": ["full_attention"] * 4, "rope_parameters": {"full_attention": ROTARY}},
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": 2},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "dots1": EXPERTS | {"n_routed_experts": 4, "n_shared_experts": 1},
    "deepseek_ocr2_text": EXPERTS
    | {"n_group": 1, "topk_group": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 48},
    "emu3": {"vocabulary_map": {"<image>": 90, "<|extra_200|>": 91}},
    "ernie4_5_vl_moe_text": {
        "moe_intermediate_size": [48, 32],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "rope_parameters": ROTARY | {"mrope_section": [3, 3, 2]},
    },
    "esm": {"vocab_size": 97, "pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"},
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16},
    "emu3_vqgan": {"base_channels": 32, "channel_multiplier": [1, 1, 1, 1]},
    "florence_vision": {"embed_dim": [16, 16, 16, 16], "num_heads": [2, 2, 2, 2], "num_groups": [2, 2, 2, 2]},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 16, "hidden_size": 64, "num_attention_heads": 4}},
    "granite4_vision": {"deepstack_layer_map": [[1, 0]], "spatial_target_layers": [1], "downsample_rate": "1/2"},
    "janus_vqgan": {"base_channels": 32, "channel_multiplier": [1, 1, 1, 1, 1]},
    "glm5_next_text": {"index_kpool": 2, "num_key_value_heads": 4, "linear_num_heads": 4, "linear_head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "num_dense_layers": 1},
    "luke": {"entity_vocab_size": 97, "entity_emb_size": 24},
    "mimi": {"upsample_groups": 64},
    "molmo2_adapter": {"vision_feature_layer": [3, 1]},
    "muse_spark_audio": {"hidden_sizes": [16, 16, 32, 32]},
    "perceiver": {"d_latents": 64, "num_latents": 16, "num_self_attends_per_block": 3},
    "pix2struct_text_model": {"initializer_range": 0.02},
    "pocket_tts": {"flow_head_config": {"condition_dim": 64}},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "qwen4_exp_text": {
        "hc_lowrank": 16,
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
    },
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "vibevoice_acoustic_tokenizer": {"num_filters": 4},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 4},
    "zamba": {
        "num_hidden_layers": 5,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_key_value_heads": 4,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "mamba_dt_rank": 4,
    },
    "zamba2": {
        "num_hidden_layers": 5,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_key_value_heads": 4,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "hybrid_layer_ids": [2, 4],
        "mamba_headdim": 16,
        "n_mamba_heads": 8,
        "kv_channels": 16,
        "num_query_groups": 4,
    },
}

# without which a configuration cannot be made at all
NEEDED: dict[str, dict[str, Any]] = {
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text"} | dict.fromkeys(BESIDE, 0)},
}

# classes that the tables of transformers do not have
CLASSES: dict[str, tuple[str, ...]] = {
    "aimv2_text_model": ("Aimv2TextModel",),
    "blip_text_model": ("BlipTextLMHeadModel", "BlipTextModel"),
    "dia_encoder": ("DiaEncoder",),
    "pp_formulanet_text": ("PPFormulaNetTextModel",),
}
