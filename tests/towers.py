"""Tiny random models that read pictures and sounds, built from configurations, and inputs for them."""

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel

from tests.families import scatter

SMALL = {"hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4}
PICTURE = SMALL | {"image_size": 24, "patch_size": 6}
CONVOLUTIONS = {"conv_dim": (16, 16), "conv_kernel": (10, 4), "conv_stride": (5, 2), "num_feat_extract_layers": 2}
SOUND = SMALL | CONVOLUTIONS | {"vocab_size": 31, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
STABLE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}

# name -> (model type, configuration)
PICTURES: dict[str, tuple[str, dict]] = {
    "vit": ("vit", PICTURE),
    "deit": ("deit", PICTURE),
    "vit_msn": ("vit_msn", PICTURE),
    "ijepa": ("ijepa", PICTURE),
    "dinov2": ("dinov2", PICTURE),
    "dinov2-gated": ("dinov2", PICTURE | {"use_swiglu_ffn": True}),
    "dinov2_with_registers": ("dinov2_with_registers", PICTURE),
    "beit": ("beit", PICTURE | {"use_relative_position_bias": True}),
    "beit-plain": ("beit", PICTURE | {"use_mean_pooling": False, "layer_scale_init_value": 0.0}),
    "clip_vision_model": ("clip_vision_model", PICTURE),
    "siglip_vision_model": ("siglip_vision_model", PICTURE),
}
SOUNDS: dict[str, tuple[str, dict]] = {
    "wav2vec2": ("wav2vec2", SOUND),
    "wav2vec2-stable": ("wav2vec2", SOUND | STABLE),
    "hubert": ("hubert", SOUND),
    "hubert-stable": ("hubert", SOUND | STABLE),
}
TOWERS = PICTURES | SOUNDS


def build(name: str, kind: type = AutoModel, seed: int = 0, **more) -> PreTrainedModel:
    """The named tiny model in eval mode, by one of transformers' automatic classes."""
    family, settings = TOWERS[name]
    torch.manual_seed(seed)
    model = kind.from_config(AutoConfig.for_model(family, **(settings | more)))
    return scatter(model).eval()
