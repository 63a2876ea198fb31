"""Tiny random vision-language decoders, built from configurations, and what a processor would give for them."""

import torch
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    SiglipVisionConfig,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

from tests import tiny
from tests.families import scatter

TOKENIZER = tiny.tokenizer()
PICTURE = len(TOKENIZER)  # the id of a picture's tokens; the next two are around them
TEXTS = {"hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4}
TEXTS |= {"num_key_value_heads": 2, "vocab_size": PICTURE + 8, "max_position_embeddings": 256}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION |= {"image_size": 24, "patch_size": 6}
ROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}}
QWEN = {"depth": 2, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
SIZES = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
IDS = {"image_token_id": PICTURE, "vision_start_token_id": PICTURE + 1, "vision_end_token_id": PICTURE + 2}


def _llava() -> PreTrainedModel:
    configs = {"vision_config": CLIPVisionConfig(**VISION), "text_config": LlamaConfig(**TEXTS, **SIZES)}
    return LlavaForConditionalGeneration(LlavaConfig(**configs, image_token_index=PICTURE, vision_feature_layer=-1))


def _gemma3() -> PreTrainedModel:
    layers = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    texts = Gemma3TextConfig(**TEXTS, **SIZES, **layers, head_dim=16)
    around = {"image_token_index": PICTURE, "boi_token_index": PICTURE + 1, "eoi_token_index": PICTURE + 2}
    configs = {"text_config": texts.to_dict(), "vision_config": SiglipVisionConfig(**VISION).to_dict()}
    return Gemma3ForConditionalGeneration(Gemma3Config(**configs, mm_tokens_per_image=4, **around))


def _tiles(config: type, model: type) -> PreTrainedModel:
    texts = LlamaConfig(**TEXTS, **SIZES)
    return model(config(vision_config=dict(VISION), text_config=texts, image_token_id=PICTURE, scale_factor=2))


def _qwen(config: type, model: type, **vision) -> PreTrainedModel:
    texts = TEXTS | ROPE | SIZES
    return model(config(text_config=texts, vision_config=QWEN | vision, video_token_id=PICTURE + 3, **IDS))


# name -> how it is built, the shape of its pixels, their grid of tokens, and what else its processor gives
GRID = {"image_grid_thw": torch.tensor([[1, 4, 6]])}
FLAT = (24, 3 * 2 * 16)
MODELS = {
    "llava": (_llava, (1, 3, 24, 24), [(4, 4)], {}),
    "gemma3": (_gemma3, (1, 3, 24, 24), [(2, 2)], {}),
    "idefics3": (
        lambda: _tiles(Idefics3Config, Idefics3ForConditionalGeneration),
        (1, 2, 3, 24, 24),
        [(2, 2), (2, 2)],
        {},
    ),
    "smolvlm": (lambda: _tiles(SmolVLMConfig, SmolVLMForConditionalGeneration), (1, 1, 3, 24, 24), [(2, 2)], {}),
    "qwen2_vl": (
        lambda: _qwen(Qwen2VLConfig, Qwen2VLForConditionalGeneration, embed_dim=32, hidden_size=64),
        FLAT,
        [(2, 3)],
        GRID,
    ),
    "qwen2_5_vl": (
        lambda: _qwen(
            Qwen2_5_VLConfig,
            Qwen2_5_VLForConditionalGeneration,
            hidden_size=32,
            out_hidden_size=64,
            intermediate_size=48,
            fullatt_block_indexes=[1],
            window_size=16,
        ),
        FLAT,
        [(2, 3)],
        GRID,
    ),
    "qwen3_vl": (
        lambda: _qwen(
            Qwen3VLConfig,
            Qwen3VLForConditionalGeneration,
            hidden_size=32,
            out_hidden_size=64,
            intermediate_size=48,
            num_position_embeddings=16,
            deepstack_visual_indexes=[0, 1],
        ),
        FLAT,
        [(2, 3)],
        GRID,
    ),
}
READ = [name for name in MODELS if name != "qwen3_vl"]
MARKS = {"gemma3": "token_type_ids", "qwen2_vl": "mm_token_type_ids", "qwen2_5_vl": "mm_token_type_ids"}


def build(name: str) -> PreTrainedModel:
    torch.manual_seed(0)
    return scatter(MODELS[name][0]()).eval()


def given(name: str) -> dict[str, torch.Tensor]:
    """Two words, a picture, three words."""
    _, shape, grids, more = MODELS[name]
    before, behind = (TOKENIZER(text, add_special_tokens=False)["input_ids"] for text in ("ada bo", "cy dee ed"))
    count = sum(rows * columns for rows, columns in grids)
    ids = [2, *before, PICTURE + 1, *[PICTURE] * count, PICTURE + 2, *behind]
    pixels = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": torch.tensor([ids]), "pixel_values": pixels, **more}
    if name in MARKS:
        inputs[MARKS[name]] = (inputs["input_ids"] == PICTURE).long()
    return inputs
