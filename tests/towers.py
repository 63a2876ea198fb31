"""Tiny random models that read pictures and sounds, built from configurations, and inputs for them."""

from collections.abc import Callable

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageClassification,
    BertConfig,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedModel,
    SiglipConfig,
    SiglipModel,
)

from tests import tiny
from tests.families import scatter

SIDE = {"height": 24, "width": 24}

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
    "dinov3": ("dinov3_vit", PICTURE | {"num_register_tokens": 2, "layerscale_value": 0.5}),
    "dinov3-gated": ("dinov3_vit", PICTURE | {"use_gated_mlp": True}),
    "beit": ("beit", PICTURE | {"use_relative_position_bias": True}),
    "beit-plain": ("beit", PICTURE | {"use_mean_pooling": False, "layer_scale_init_value": 0.0}),
    "clip_vision_model": ("clip_vision_model", PICTURE),
    "siglip_vision_model": ("siglip_vision_model", PICTURE),
}
WITHIN = ("clip_vision_model", "siglip_vision_model")  # of image–text models
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


def built(name: str, kind: type, **more) -> PreTrainedModel:
    """The same by a class of its own."""
    torch.manual_seed(0)
    return scatter(kind(AutoConfig.for_model(TOWERS[name][0], **(TOWERS[name][1] | {"num_labels": 3} | more)))).eval()


PAIRS = {"clip": (CLIPConfig, CLIPModel), "metaclip_2": (MetaClip2Config, MetaClip2Model)}
PAIRS |= {"siglip": (SiglipConfig, SiglipModel)}


def pair(name: str, kind: type | None = None) -> PreTrainedModel:
    """A tiny image–text model, or its classifier of pictures."""
    config, model = PAIRS[name]
    tokenizer = tiny.tokenizer()
    texts = SMALL | {"vocab_size": len(tokenizer), "max_position_embeddings": 24, "projection_size": 64}
    texts |= {"eos_token_id": tokenizer.sep_token_id, "bos_token_id": tokenizer.cls_token_id}
    torch.manual_seed(0)
    whole = config(text_config=texts, vision_config=PICTURE, projection_dim=16, num_labels=3)
    return scatter((kind or model)(whole)).eval()


def trained_on_patches() -> tuple[PreTrainedModel, Callable]:
    """A ViT that says whether the one bright patch is red or blue, and what draws such pictures."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        pixels = 0.3 * torch.randn(count, 3, 24, 24, generator=generator)
        places, colours = (torch.randint(most, (count,), generator=generator) for most in (16, 2))
        for picture, place, colour in zip(pixels, places.tolist(), colours.tolist(), strict=True):
            row, column = divmod(place, 4)
            picture[2 * colour, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6] += 1
        return pixels, places, colours

    torch.manual_seed(0)
    config = AutoConfig.for_model("vit", **(PICTURE | {"num_labels": 2, "num_hidden_layers": 2}))
    return _trained(AutoModelForImageClassification.from_config(config), draw), draw


def trained_on_tokens() -> tuple[PreTrainedModel, Callable]:
    """A BERT that says which of two words stands among others, and what draws such texts."""
    tokenizer, generator = tiny.tokenizer(), torch.Generator().manual_seed(0)
    words = [token for token in range(len(tokenizer)) if token not in tokenizer.all_special_ids]

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        drawn = torch.randint(2, len(words), (count, 8), generator=generator)
        places, classes = (torch.randint(most, (count,), generator=generator) for most in (8, 2))
        drawn[torch.arange(count), places] = classes
        ids = torch.tensor(words)[drawn]
        ends = [torch.full((count, 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id)]
        return torch.cat([ends[0], ids, ends[1]], dim=1), places + 1, classes

    torch.manual_seed(0)
    config = BertConfig(**(SMALL | {"num_hidden_layers": 2}), vocab_size=len(tokenizer), max_position_embeddings=16)
    return _trained(BertForSequenceClassification(config), draw), draw


def _trained(model: PreTrainedModel, draw: Callable, steps: int = 150) -> PreTrainedModel:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for _ in range(steps):
        inputs, _, classes = draw(64)
        loss = torch.nn.functional.cross_entropy(model.train()(inputs).logits, classes)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()
