"""A tiny random model of any type that transformers knows, from its own configuration made small."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from tests.families import EVERY, UNATTENDED, scatter
from tests.sweep.special import CLASSES, NEEDED, SETTINGS

LARGEST = 100_000_000  # parameters of a model that is built
VOCABULARY = 97

# the first mapping that has a type gives its class, and so does each of the others
MAPPINGS = ("CAUSAL_LM", "MASKED_LM", "IMAGE_TEXT_TO_TEXT", "TEXT_ENCODING")

# fields of a configuration by what they count; numbers that are smaller already stay
SMALL: dict[int, str] = {
    4: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers depth num_decoder_layers"
    " num_encoder_layers layers num_attention_heads n_head n_heads num_heads encoder_attention_heads attention_heads"
    " decoder_attention_heads num_experts n_routed_experts num_local_experts moe_num_experts linear_num_value_heads"
    " mamba_chunk_size chunk_size index_topk index_n_heads num_lm_layers attn_layers",
    2: "num_key_value_heads num_kv_heads num_experts_per_tok moe_topk moe_k top_k linear_num_key_heads"
    " max_window_layers attention_layers_period num_v_heads n_kv_heads cross_num_key_value_heads",
    1: "n_group topk_group mamba_n_groups n_groups first_k_dense_replace expert_layer_offset n_shared_experts"
    " num_zero_experts moe_layer_start_index num_nextn_predict_layers num_kv_shared_layers",
    16: "head_dim global_head_dim d_kv kv_channels mamba_d_head mamba_head_dim kv_lora_rank index_head_dim qk_head_dim"
    " attention_head_dim d_head swa_head_dim cross_head_dim state_size hidden_size_per_layer_input conv_dim",
    8: "qk_rope_head_dim qk_nope_head_dim linear_key_head_dim linear_value_head_dim mamba_d_state mamba_n_heads"
    " mamba_num_heads ssm_state_size rotary_dim time_step_rank sliding_window local_attention attention_window_size",
    12: "v_head_dim",
    24: "q_lora_rank embedding_size o_lora_rank",
    48: "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size",
    64: "hidden_size d_model n_embd dim embed_dim d_embed emb_dim word_embed_proj_dim decoder_hidden_size lru_width"
    " encoder_hidden_size attention_hidden_size out_hidden_size projection_dim max_position_embeddings n_positions"
    " n_ctx max_seq_len context_length model_max_length max_source_positions max_target_positions hidden_dim"
    " input_embedding_size output_embedding_size decoder_embed_dim text_hidden_size width output_dim"
    " backbone_hidden_size cross_hidden_size",
    80: "intermediate_size d_ff d_inner n_inner ffn_dim encoder_ffn_dim decoder_ffn_dim ffn_hidden_size mlp_dim"
    " intermediate_size_mlp shared_intermediate_size dim_ff hidden_dim_ff moe_shared_expert_intermediate_size"
    " dense_intermediate_size block_ff_dim",
    VOCABULARY: "vocab_size vocab_size_per_layer_input text_vocab_size decoder_vocab_size encoder_vocab_size"
    " input_vocab_size output_vocab_size",
}
LIMITS = {name: limit for limit, names in SMALL.items() for name in names.split()}
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers")
# what says nothing of the size, or numbers layers that are no longer there
DROPPED = {"transformers_version", "id2label", "label2id", "architectures", "dtype", "auto_map", "_name_or_path"}
DROPPED |= {"per_layer_config", "out_features", "out_indices", "_out_features", "_out_indices", "stage_names"}
TURNS = [2, 3, 3]  # of a rotation in three dimensions, together half a head


def models(kind: str) -> Iterator[tuple[str, PreTrainedModel]]:
    """Every class of the type worth trying, with a random model of it; raises when none can be built."""
    classes = _classes(kind)
    if not classes:
        raise LookupError("transformers has no model class for this configuration")
    reasons, built = [], 0
    for cls in classes:
        try:
            model = _built(kind, cls)
        except ValueError as error:
            reasons.append(str(error))
            continue
        built += 1
        yield cls.__name__, model
    if not built:
        raise ValueError(reasons[0])


def reads_text(kind: str) -> bool:
    """Whether its configuration has a vocabulary of tokens, its own or that of a part."""
    try:
        return hasattr(CONFIG_MAPPING[kind]().get_text_config(), "vocab_size")
    except Exception:  # it has several such parts, or needs more to be made at all
        return True


def _classes(kind: str) -> list[type[PreTrainedModel]]:
    """The type's own classes by transformers' tables, or else those of its files that name its configuration."""
    tables = [getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES") for name in MAPPINGS]
    names = [table.get(kind) for table in (*tables, modeling_auto.MODEL_MAPPING_NAMES)] + [CLASSES.get(kind)]
    flat = [name for entry in names for name in (entry if isinstance(entry, tuple) else (entry,)) if name]
    files = _files(kind)
    found = [getattr(file, name) for name in flat for file in files if hasattr(file, name)]
    others = [cls for file in files for cls in _of_configuration(file, CONFIG_MAPPING[kind])]
    return list(dict.fromkeys(found)) or others[:3]


def _files(kind: str) -> list[Any]:
    """The modules with the type's models, which lie beside its configuration."""
    package = importlib.import_module(CONFIG_MAPPING[kind].__module__.rpartition(".")[0])
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.name.startswith("modeling_")]
    files = []
    for name in names:
        with suppress(ModuleNotFoundError):  # it needs a library that is not installed
            files.append(importlib.import_module(f"{package.__name__}.{name}"))
    return files


def _of_configuration(module: Any, config: type) -> list[type[PreTrainedModel]]:
    found = [cls for cls in vars(module).values() if inspect.isclass(cls) and issubclass(cls, PreTrainedModel)]
    own = [cls for cls in found if cls.__module__ == module.__name__ and not cls.__name__.endswith("PreTrainedModel")]
    return [cls for cls in own if cls.config_class is config]


def _built(kind: str, cls: type[PreTrainedModel]) -> PreTrainedModel:
    """In the smallest size that can be built and is small enough."""
    reasons = []
    for config in _configurations(kind):
        try:
            torch.manual_seed(0)
            return _random(cls, config())
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {_line(error)}")
    raise ValueError(reasons[0])


def _random(cls: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in cls._from_config(config).parameters())
    if size > LARGEST:
        raise ValueError(f"its smallest model here has {size:,} parameters")
    return scatter(cls._from_config(config)).eval()


def _configurations(kind: str) -> Iterator[Any]:
    cls = CONFIG_MAPPING[kind]
    if (own := {**EVERY, **UNATTENDED}.get(kind)) is not None and own[0] == kind:
        yield lambda: cls(**own[1])
    needed = NEEDED.get(kind, {})
    yield lambda: cls(**_small(cls(**needed)))
    yield lambda: cls(**_small(cls(**needed), lists=False))
    yield cls


def _small(config: PreTrainedConfig, lists: bool = True) -> dict[str, Any]:
    """The configuration's fields made small, those of its parts too."""
    fields = {name: value for name, value in config.to_dict().items() if name not in DROPPED}
    layers = next((fields[name] for name in LAYERS if isinstance(fields.get(name), int)), None)
    small = {name: _field(name, value, layers if lists else None) for name, value in fields.items()}
    parts = {name: part for name, part in vars(config).items() if isinstance(part, PreTrainedConfig)}
    small |= {name: _small(part, lists) for name, part in parts.items()}
    if lists:
        small = {name: value for name, value in small.items() if name not in ("layer_types", "layers_block_type")}
    return small | SETTINGS.get(config.model_type, {})


def _field(name: str, value: Any, layers: int | None) -> Any:
    if name.endswith(("token_id", "token_index")) and isinstance(value, int) and value >= VOCABULARY:
        return 90
    if isinstance(value, int) and not isinstance(value, bool) and name in LIMITS:
        return min(value, LIMITS[name])
    if isinstance(value, list | tuple) and layers is not None and layers > 4 and len(value) == layers:
        return value[:4]
    if isinstance(value, dict) and name.startswith("rope"):
        return {key: TURNS if key == "mrope_section" and part else part for key, part in value.items()}
    return value


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:200]
