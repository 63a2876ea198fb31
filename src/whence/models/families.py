"""Where the parts of a block sit, one row per family. A name is a path from the block, from the module that
owns the stack (final norm, narrowing), or from the model (head).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu

from whence._plugins import plugins
from whence.models.outside import Outside


@dataclass(frozen=True)
class Around:
    """Names of the norms around a residual branch: y = after(x + inside(branch(before(x))))."""

    before: str | None = None
    inside: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class Mlp:
    """down(activation(activated(x)) * linear(x)); `linear` is None when plain, equal to `activated` when fused."""

    activated: str
    activation: str | Callable[[Tensor], Tensor]
    down: str
    linear: str | None = None


@dataclass(frozen=True)
class Whole:
    """A feed-forward known only by its output: a mixture of experts."""

    path: str


@dataclass(frozen=True)
class HeadPaths:
    """dense, activation, norm, decoder: a decoder-only model has the last alone, after its final norm.

    `bias` is the decoder's where it is stored outside it (ESM, BART).
    """

    decoder: str
    dense: str | None = None
    activation: str | Callable[[Tensor], Tensor] | None = None
    norm: str | None = None
    divisor: str | None = None
    factor: str | Callable[[Any], float] | None = None
    softcap: str | None = None
    bias: str | None = None


FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class Chosen:
    """An activation that the configuration names."""

    setting: str


@dataclass(frozen=True)
class Averaged:
    """Linear maps, each of one of the vectors that stand one behind the other, and their mean."""

    paths: tuple[str, ...]


ClassStep = str | Chosen | Averaged | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ClassPaths:
    """How classifiers read: steps on what is `pooled` from the last states; the last step scores the classes.

    A step is a linear map, a norm or an activation by its path, where {base} is the model inside, or a function.
    `pooled` is a row of `pooling.POOLED`, or says by the configuration which. Classifiers of every token take the steps
    `of_tokens` instead, at each.
    """

    steps: tuple[ClassStep, ...] = ("score",)
    pooled: str | Callable[[Any], str] = LAST
    of_tokens: tuple[ClassStep, ...] = ("score",)


POOLER = ClassPaths(("{base}.pooler.dense", torch.tanh, "classifier"), FIRST, ("classifier",))
TWO_LAYERS = replace(POOLER, steps=("classifier.dense", torch.tanh, "classifier.out_proj"))
BY_HIDDEN = replace(TWO_LAYERS, steps=("classifier.dense", Chosen("hidden_act"), "classifier.out_proj"))
SCORE = ClassPaths()
OF_FIRST = ClassPaths(("classifier",), FIRST)
OF_PATCHES = ClassPaths(("classifier",), "patches")
SCORE_OR_CLASSIFIER = ClassPaths(of_tokens=("classifier",))


@dataclass(frozen=True)
class Family:
    """One row: everything about a family that a forward pass does not show.

    `final_norm_in` is where the final norm is looked for: the owner of the blocks, or the stack around it (CLIP).
    `layer_scales` are factors for every channel of what attention and feed-forward add to the stream (LayerScale).
    `lacks` are capabilities that it is known not to have (see `verify`). `cross` has the norms around the attention to
    an encoder, and `with_encoder` the row of a decoder that has one.
    """

    attention: Around
    feed_forward: Around
    mlp: Mlp | Whole
    head: HeadPaths
    final_norm: str | None = None
    final_norm_in: str = "owner"
    narrowing: str | None = None
    parallel: bool = False
    residual_scale: str | None = None
    layer_scales: tuple[str, str] | None = None
    norm_offset: float = 0.0
    computes_positions: bool = False
    lacks: frozenset[str] = frozenset()
    outside: Outside | None = None
    classes: ClassPaths = SCORE
    cross: Around | None = None
    with_encoder: "Family | None" = None


@dataclass(frozen=True)
class Either:
    """Rows chosen by the configuration; one that matches none is a family that the table does not have."""

    which: Callable[[Any], Hashable]
    rows: dict[Hashable, Family] = field(default_factory=dict)


def _bert_head(prefix: str) -> HeadPaths:
    return HeadPaths(
        dense=f"{prefix}.dense",
        activation=f"{prefix}.transform_act_fn",
        norm=f"{prefix}.LayerNorm",
        decoder="cls.predictions.decoder",
    )


BERT = Family(
    attention=Around(after="attention.output.LayerNorm"),
    feed_forward=Around(after="output.LayerNorm"),
    mlp=Mlp("intermediate.dense", "intermediate.intermediate_act_fn", "output.dense"),
    head=_bert_head("cls.predictions.transform"),
    classes=POOLER,
)
DEBERTA = replace(BERT, classes=replace(POOLER, steps=("pooler.dense", Chosen("pooler_hidden_act"), "classifier")))
ROBERTA = replace(
    BERT,
    classes=TWO_LAYERS,
    head=HeadPaths(dense="lm_head.dense", activation=gelu, norm="lm_head.layer_norm", decoder="lm_head.decoder"),
    computes_positions=True,
)
ELECTRA = replace(
    BERT,
    classes=replace(TWO_LAYERS, steps=("classifier.dense", gelu, "classifier.out_proj")),
    head=HeadPaths(
        dense="generator_predictions.dense",
        activation="generator_predictions.activation",
        norm="generator_predictions.LayerNorm",
        decoder="generator_lm_head",
    ),
)
ALBERT = Family(
    attention=Around(after="attention.LayerNorm"),
    feed_forward=Around(after="full_layer_layer_norm"),
    mlp=Mlp("ffn", "activation", "ffn_output"),
    head=HeadPaths(
        dense="predictions.dense",
        activation="predictions.activation",
        norm="predictions.LayerNorm",
        decoder="predictions.decoder",
    ),
    classes=replace(POOLER, steps=("{base}.pooler", torch.tanh, "classifier")),
)
DISTILBERT = Family(
    attention=Around(after="sa_layer_norm"),
    feed_forward=Around(after="output_layer_norm"),
    mlp=Mlp("ffn.lin1", "ffn.activation", "ffn.lin2"),
    head=HeadPaths(
        dense="vocab_transform", activation="activation", norm="vocab_layer_norm", decoder="vocab_projector"
    ),
    classes=replace(POOLER, steps=("pre_classifier", relu, "classifier")),
)
MODERN_STEPS = ("head.dense", "head.act", "head.norm", "classifier")
MODERNBERT = Family(
    attention=Around(before="attn_norm"),
    feed_forward=Around(before="mlp_norm"),
    mlp=Mlp("mlp.Wi", "mlp.act", "mlp.Wo", linear="mlp.Wi"),
    head=HeadPaths(dense="head.dense", activation="head.act", norm="head.norm", decoder="decoder"),
    final_norm="final_norm",
    classes=ClassPaths(MODERN_STEPS, attrgetter("classifier_pooling"), MODERN_STEPS),
)
ROBERTA_XL = replace(
    ROBERTA,
    attention=Around(before="attention.self_attn_layer_norm"),
    feed_forward=Around(before="LayerNorm"),
    final_norm="LayerNorm",
)
ESM = Family(
    attention=Around(before="attention.LayerNorm"),
    feed_forward=Around(before="LayerNorm"),
    mlp=Mlp("intermediate.dense", gelu, "output.dense"),
    head=replace(ROBERTA.head, bias="lm_head.bias"),
    final_norm="emb_layer_norm_after",
    computes_positions=True,
    classes=TWO_LAYERS,
)
CLIP = Family(
    attention=Around(before="layer_norm1"),
    feed_forward=Around(before="layer_norm2"),
    mlp=Mlp("mlp.fc1", "mlp.activation_fn", "mlp.fc2"),
    head=HeadPaths("none"),
    final_norm="final_layer_norm",
    final_norm_in="stack",
)
# towers of pictures and sounds, without an LM head
VIT = replace(
    CLIP,
    attention=Around(before="layernorm_before"),
    feed_forward=Around(before="layernorm_after"),
    final_norm="layernorm",
    classes=OF_FIRST,
)
DINOV2 = replace(
    VIT,
    classes=ClassPaths(("classifier",), "first and patches"),
    attention=Around(before="norm1"),
    feed_forward=Around(before="norm2"),
    layer_scales=("layer_scale1.lambda1", "layer_scale2.lambda1"),
)
DINOV2_GATED = replace(DINOV2, mlp=Mlp("mlp.gate_proj", "mlp.act_fn", "mlp.down_proj", linear="mlp.up_proj"))
DINOV2_EITHER = Either(attrgetter("use_swiglu_ffn"), {False: DINOV2, True: DINOV2_GATED})
DINOV3 = replace(DINOV2, mlp=Mlp("mlp.up_proj", "mlp.act_fn", "mlp.down_proj"), final_norm="norm")
DINOV3_EITHER = Either(
    attrgetter("use_gated_mlp"),
    {False: DINOV3, True: replace(DINOV3, mlp=DINOV2_GATED.mlp)},
)
BEIT = replace(VIT, layer_scales=("lambda_1", "lambda_2"))
BEIT_OF_PATCHES = replace(BEIT, classes=ClassPaths(("{base}.pooler.layernorm", "classifier"), "patches"))
BEIT_EITHER = Either(attrgetter("use_mean_pooling"), {False: BEIT, True: BEIT_OF_PATCHES})
WAV2VEC2_AFTER = Family(
    attention=Around(after="layer_norm"),
    feed_forward=Around(after="final_layer_norm"),
    mlp=Mlp("feed_forward.intermediate_dense", "feed_forward.intermediate_act_fn", "feed_forward.output_dense"),
    head=HeadPaths("lm_head"),
    classes=ClassPaths(("projector", "classifier"), "mean", ("classifier",)),
)
WAV2VEC2_BEFORE = replace(
    WAV2VEC2_AFTER,
    attention=Around(before="layer_norm"),
    feed_forward=Around(before="final_layer_norm"),
    final_norm="layer_norm",
)
WAV2VEC2 = Either(
    lambda config: (config.do_stable_layer_norm, getattr(config, "adapter_attn_dim", None) is not None),
    {(False, False): WAV2VEC2_AFTER, (True, False): WAV2VEC2_BEFORE},
)
REMBERT = replace(
    BERT,
    head=HeadPaths(
        dense="cls.predictions.dense",
        activation="cls.predictions.activation",
        norm="cls.predictions.LayerNorm",
        decoder="cls.predictions.decoder",
    ),
)
MPNET = replace(ROBERTA, attention=Around(after="attention.LayerNorm"))
MEGATRON_BERT = replace(
    BERT, attention=Around(before="attention.ln"), feed_forward=Around(before="ln"), final_norm="ln"
)


def _t5(layer: int) -> Family:
    """The feed-forward is the last part of a block: the second of an encoder's, the third of a decoder's."""
    return Family(
        attention=Around(before="layer.0.layer_norm"),
        feed_forward=Around(before=f"layer.{layer}.layer_norm"),
        mlp=Mlp(
            f"layer.{layer}.DenseReluDense.wi",
            f"layer.{layer}.DenseReluDense.act",
            f"layer.{layer}.DenseReluDense.wo",
        ),
        head=HeadPaths("lm_head"),
        final_norm="final_layer_norm",
        classes=POOLER,
    )


def _gated(row: Family) -> Family:
    """With two maps into the neurons."""
    assert isinstance(row.mlp, Mlp)
    path = row.mlp.activated
    return replace(row, mlp=replace(row.mlp, activated=f"{path}_0", linear=f"{path}_1"))


def _t5_row(scaled: Callable[[Any], bool]) -> Either:
    """`scaled` says whether the head reads its states divided by the root of their width."""
    factor = {True: lambda config: config.d_model**-0.5, False: lambda config: 1.0}
    head = HeadPaths("lm_head", factor=lambda config: factor[bool(scaled(config))](config))
    decoder = replace(_t5(2), cross=Around(before="layer.1.layer_norm"), head=head)
    plain, gated = _t5(1), _gated(_t5(1))
    return Either(
        attrgetter("is_gated_act"),
        {False: replace(plain, with_encoder=decoder), True: replace(gated, with_encoder=_gated(decoder))},
    )


XLNET = Family(
    attention=Around(after="rel_attn.layer_norm"),
    feed_forward=Around(after="ff.layer_norm"),
    mlp=Mlp("ff.layer_1", "ff.activation_function", "ff.layer_2"),
    head=HeadPaths("lm_loss"),
    outside=Outside(
        "layer", "rel_attn", "rel_attn.v", "rel_attn.o", {"output_attentions": True, "use_mems": False}, batch_axis=1
    ),
    classes=ClassPaths(
        ("sequence_summary.summary", "sequence_summary.activation", "logits_proj"),
        lambda config: {"last": "end"}.get(config.summary_type, config.summary_type),  # padding or not
        ("classifier",),
    ),
)
GPT2 = Family(
    attention=Around(before="ln_1"),
    feed_forward=Around(before="ln_2"),
    mlp=Mlp("mlp.c_fc", "mlp.act", "mlp.c_proj"),
    head=HeadPaths("lm_head"),
    final_norm="ln_f",
    classes=SCORE_OR_CLASSIFIER,
)
GPT_NEOX = Family(
    attention=Around(before="input_layernorm"),
    feed_forward=Around(before="post_attention_layernorm"),
    mlp=Mlp("mlp.dense_h_to_4h", "mlp.act", "mlp.dense_4h_to_h"),
    head=HeadPaths("embed_out"),
    final_norm="final_layer_norm",
    classes=SCORE_OR_CLASSIFIER,
)
OPENAI_GPT = replace(GPT2, attention=Around(after="ln_1"), feed_forward=Around(after="ln_2"), final_norm=None)
GPTJ = replace(GPT2, feed_forward=Around(before="ln_1"), mlp=Mlp("mlp.fc_in", "mlp.act", "mlp.fc_out"), parallel=True)
MPT = Family(
    attention=Around(before="norm_1"),
    feed_forward=Around(before="norm_2"),
    mlp=Mlp("ffn.up_proj", "ffn.act", "ffn.down_proj"),
    head=HeadPaths("lm_head"),
    final_norm="norm_f",
    classes=SCORE_OR_CLASSIFIER,
)
FALCON = replace(GPT_NEOX, head=HeadPaths("lm_head"), final_norm="ln_f")
BLOOM = replace(FALCON, mlp=Mlp("mlp.dense_h_to_4h", "mlp.gelu_impl", "mlp.dense_4h_to_h"))
OPT_BEFORE = Family(
    attention=Around(before="self_attn_layer_norm"),
    feed_forward=Around(before="final_layer_norm"),
    mlp=Mlp("fc1", "activation_fn", "fc2"),
    head=HeadPaths("lm_head"),
    final_norm="final_layer_norm",
    narrowing="project_out",
)
OPT_AFTER = replace(
    OPT_BEFORE,
    attention=Around(after="self_attn_layer_norm"),
    feed_forward=Around(after="final_layer_norm"),
)
BIOGPT = replace(
    OPT_BEFORE,
    head=HeadPaths("output_projection"),
    final_norm="layer_norm",
    narrowing=None,
    classes=SCORE_OR_CLASSIFIER,
)
# stacks of encoder-decoders, whose positions count from the left edge, padding included
BART_BEFORE = replace(BIOGPT, lacks=frozenset({"left padding"}))
BART_AFTER = replace(OPT_AFTER, final_norm=None, narrowing=None, lacks=frozenset({"left padding"}))
SHIFTED = HeadPaths("lm_head", bias="final_logits_bias")


def _two_stacks(row: Family, around: Around, head: HeadPaths = SHIFTED) -> Family:
    return replace(row, with_encoder=replace(row, cross=around, head=head))


CROSS_BEFORE, CROSS_AFTER = Around(before="encoder_attn_layer_norm"), Around(after="encoder_attn_layer_norm")
BART_LIKE, PEGASUS_LIKE = _two_stacks(BART_AFTER, CROSS_AFTER), _two_stacks(BART_BEFORE, CROSS_BEFORE)
LLAMA = Family(
    attention=Around(before="input_layernorm"),
    feed_forward=Around(before="post_attention_layernorm"),
    mlp=Mlp("mlp.gate_proj", "mlp.act_fn", "mlp.down_proj", linear="mlp.up_proj"),
    head=HeadPaths("lm_head"),
    final_norm="norm",
)
NOMIC = replace(
    LLAMA,
    classes=POOLER,
    attention=Around(after="post_attention_layernorm"),
    feed_forward=Around(after="post_mlp_layernorm"),
    head=replace(BERT.head, norm="cls.predictions.transform.layer_norm"),
    final_norm=None,
)
PLAIN = replace(LLAMA, mlp=Mlp("mlp.up_proj", "mlp.act_fn", "mlp.down_proj"))
EXPERTS = replace(LLAMA, mlp=Whole("mlp"))
SINKS = replace(EXPERTS, lacks=frozenset({"rows"}))  # a part of the attention goes nowhere
GRANITE = replace(LLAMA, residual_scale="residual_multiplier", head=HeadPaths("lm_head", divisor="logits_scaling"))
PHI = Family(
    attention=Around(before="input_layernorm"),
    feed_forward=Around(before="input_layernorm"),
    mlp=Mlp("mlp.fc1", "mlp.activation_fn", "mlp.fc2"),
    head=HeadPaths("lm_head"),
    final_norm="final_layernorm",
    parallel=True,
)
PHI3 = replace(LLAMA, mlp=Mlp("mlp.gate_up_proj", "mlp.activation_fn", "mlp.down_proj", "mlp.gate_up_proj"))
COHERE = replace(
    LLAMA,
    feed_forward=Around(before="input_layernorm"),
    parallel=True,
    head=HeadPaths("lm_head", factor="logit_scale"),
)
OLMO2 = replace(
    LLAMA,
    attention=Around(inside="post_attention_layernorm"),
    feed_forward=Around(inside="post_feedforward_layernorm"),
)
GEMMA = replace(LLAMA, norm_offset=1.0)
GEMMA2 = replace(
    GEMMA,
    attention=Around(before="input_layernorm", inside="post_attention_layernorm"),
    feed_forward=Around(before="pre_feedforward_layernorm", inside="post_feedforward_layernorm"),
    head=HeadPaths("lm_head", softcap="final_logit_softcapping"),
)
VAULTGEMMA = replace(
    GEMMA,
    feed_forward=Around(before="pre_feedforward_layernorm"),
    head=HeadPaths("lm_head", softcap="final_logit_softcapping"),
)

FAMILIES: dict[str, Family | Either] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": ELECTRA,
    "albert": ALBERT,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "deberta": Either(attrgetter("legacy"), {True: DEBERTA}),
    "deberta-v2": Either(
        lambda config: (config.legacy, getattr(config, "conv_kernel_size", 0) > 0),
        {(True, False): DEBERTA, (True, True): replace(DEBERTA, lacks=frozenset({"derivatives"}))},
    ),
    "mpnet": MPNET,
    "t5": _t5_row(attrgetter("scale_decoder_outputs")),
    "mt5": _t5_row(lambda config: False),
    "umt5": _t5_row(attrgetter("tie_word_embeddings")),
    "megatron-bert": MEGATRON_BERT,
    "xlnet": XLNET,
    "gpt2": GPT2,
    "gpt_neo": GPT2,
    "gptj": GPTJ,
    "codegen": GPTJ,
    "openai-gpt": OPENAI_GPT,
    "bloom": Either(attrgetter("apply_residual_connection_post_layernorm"), {False: BLOOM}),
    "mpt": MPT,
    "falcon": Either(
        lambda config: (config.alibi, config.parallel_attn, config.num_ln_in_parallel_attn == 2),
        {
            (False, True, False): replace(FALCON, feed_forward=FALCON.attention, parallel=True),
            (False, True, True): replace(
                FALCON, attention=Around(before="ln_attn"), feed_forward=Around(before="ln_mlp"), parallel=True
            ),
        },
    ),
    "gpt_neox": Either(attrgetter("use_parallel_residual"), {True: replace(GPT_NEOX, parallel=True), False: GPT_NEOX}),
    "opt": Either(attrgetter("do_layer_norm_before"), {True: OPT_BEFORE, False: OPT_AFTER}),
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA2,
    "phi": PHI,
    "phi3": PHI3,
    "olmo": LLAMA,
    "olmo2": OLMO2,
    "smollm3": LLAMA,
    "stablelm": Either(
        attrgetter("use_parallel_residual"),
        {True: replace(LLAMA, feed_forward=Around(before="input_layernorm"), parallel=True), False: LLAMA},
    ),
    "granite": GRANITE,
    "cohere": COHERE,
    "cohere2": COHERE,
    "starcoder2": replace(LLAMA, mlp=Mlp("mlp.c_fc", "mlp.act", "mlp.c_proj")),
    # not promised, but their anatomy is one of those above
    "ernie": BERT,
    "data2vec-text": ROBERTA,
    "eurobert": replace(
        LLAMA,
        classes=ClassPaths(("dense", "activation", "classifier"), attrgetter("classifier_pooling"), ("classifier",)),
    ),
    "ernie4_5": LLAMA,
    "seed_oss": LLAMA,
    "helium": LLAMA,
    "ministral": LLAMA,
    "ministral3": LLAMA,
    "hunyuan_v1_dense": LLAMA,
    "cwm": LLAMA,
    "olmo3": OLMO2,
    "exaone4": OLMO2,
    "glm": PHI3,
    "vaultgemma": VAULTGEMMA,
    "qwen2_vl_text": LLAMA,
    "qwen2_5_vl_text": LLAMA,
    "qwen3_vl_text": LLAMA,
    "layoutlm": BERT,
    "rembert": REMBERT,
    "roformer": replace(BERT, lacks=frozenset({"left padding"}), classes=BY_HIDDEN),
    "xlm-roberta-xl": ROBERTA_XL,
    "nomic_bert": NOMIC,
    "modernbert-decoder": replace(
        MODERNBERT,
        head=HeadPaths("decoder", "lm_head.dense", "lm_head.act", "lm_head.norm"),
        classes=ClassPaths(MODERN_STEPS),
    ),
    "gpt_bigcode": GPT2,
    "biogpt": BIOGPT,
    "persimmon": replace(GPT_NEOX, head=HeadPaths("lm_head"), final_norm="final_layernorm", classes=SCORE),
    "arcee": PLAIN,
    "jais2": PLAIN,
    "nemotron": replace(PLAIN, norm_offset=1.0),
    "apertus": replace(
        PLAIN,
        attention=Around(before="attention_layernorm"),
        feed_forward=Around(before="feedforward_layernorm"),
    ),
    "nanochat": replace(
        LLAMA,
        mlp=Mlp("mlp.fc1", "mlp.activation_fn", "mlp.fc2"),
        head=HeadPaths("lm_head", softcap="final_logit_softcapping"),
    ),
    "glm4": replace(
        PHI3,
        attention=Around(before="input_layernorm", inside="post_self_attn_layernorm"),
        feed_forward=Around(before="post_attention_layernorm", inside="post_mlp_layernorm"),
    ),
    "esm": ESM,
    "align_text_model": BERT,
    "chinese_clip_text_model": BERT,
    "big_bird": replace(BERT, classes=BY_HIDDEN),
    "roc_bert": BERT,
    "splinter": BERT,
    "tapas": BERT,
    "visual_bert": BERT,
    "bert-generation": BERT,
    "git": BERT,
    "dpr": replace(BERT, lacks=frozenset({"left padding"})),
    "altclip_text_model": ROBERTA,
    "bridgetower_text_model": ROBERTA,
    "clap_text_model": ROBERTA,
    "luke": ROBERTA,
    "markuplm": ROBERTA,
    "evolla": LLAMA,
    "chameleon": LLAMA,
    "emu3_text_model": LLAMA,
    "molmo2_text": LLAMA,
    "granite4_vision_text": GRANITE,
    "phi4_multimodal": PHI3,
    "gte": NOMIC,
    # stacks of encoder-decoders, alone or together
    "blenderbot": PEGASUS_LIKE,
    "mbart": PEGASUS_LIKE,
    "pegasus": PEGASUS_LIKE,
    "m2m_100": _two_stacks(BART_BEFORE, CROSS_BEFORE, HeadPaths("lm_head")),
    "whisper": _two_stacks(BART_BEFORE, CROSS_BEFORE, HeadPaths("proj_out")),
    "bart": BART_LIKE,
    "blenderbot-small": BART_LIKE,
    "marian": BART_LIKE,
    "plbart": BART_LIKE,
    # text encoders of image-text models, without an LM head
    "clip_text_model": CLIP,
    "clipseg_text_model": CLIP,
    "metaclip_2_text_model": CLIP,
    "owlvit_text_model": replace(CLIP, lacks=frozenset({"left padding"})),
    "owlv2_text_model": replace(CLIP, lacks=frozenset({"left padding"})),
    "xclip_text_model": CLIP,
    "siglip_text_model": CLIP,
    "siglip2_text_model": CLIP,
    "tipsv2_text_model": CLIP,
    # pictures and sounds
    "vit": VIT,
    "deit": VIT,
    "vit_msn": VIT,
    "ijepa": replace(VIT, classes=replace(OF_FIRST, pooled="mean")),
    "dinov2": DINOV2_EITHER,
    "dinov2_with_registers": DINOV2_EITHER,
    "dinov3_vit": DINOV3_EITHER,
    "beit": BEIT_EITHER,
    "clip_vision_model": replace(CLIP, final_norm=None, classes=OF_PATCHES),
    "metaclip_2_vision_model": replace(CLIP, final_norm=None, classes=OF_PATCHES),
    "siglip_vision_model": replace(CLIP, final_norm="post_layernorm", classes=replace(OF_PATCHES, pooled="mean")),
    "wav2vec2": WAV2VEC2,
    "hubert": WAV2VEC2,
    # mixtures of experts
    "mixtral": EXPERTS,
    "qwen2_moe": EXPERTS,
    "qwen3_moe": EXPERTS,
    "qwen3_vl_moe_text": EXPERTS,
    "olmoe": EXPERTS,
    "phimoe": EXPERTS,
    "deepseek_v2": EXPERTS,
    "deepseek_v3": EXPERTS,
    "glm4_moe": EXPERTS,
    "ernie4_5_moe": EXPERTS,
    "hunyuan_v1_moe": EXPERTS,
    "minimax_m2": EXPERTS,
    "solar_open": EXPERTS,
    "flex_olmo": replace(OLMO2, mlp=Whole("mlp")),
    "llama4_text": replace(EXPERTS, mlp=Whole("feed_forward")),
    "granitemoe": replace(GRANITE, mlp=Whole("block_sparse_moe")),
    "aria_text": EXPERTS,
    "cosmos3_edge_text": EXPERTS,
    "deepseek_ocr2_text": EXPERTS,
    "dots1": EXPERTS,
    "ernie4_5_vl_moe_text": EXPERTS,
    "exaone_moe": EXPERTS,
    "hy_v3": EXPERTS,
    "mellum": EXPERTS,
    "moshi": EXPERTS,
    "qwen3_omni_moe_text": EXPERTS,
    "granitemoeshared": replace(GRANITE, mlp=Whole("block_sparse_moe")),
    "gpt_oss": SINKS,
    "flint": SINKS,
    "mimo_v2_flash": SINKS,
    "openai_privacy_filter": SINKS,
}


@dataclass(frozen=True)
class Ending:
    """Final norm and LM head of a family whose blocks have no row: state-space models and hybrids."""

    final_norm: str
    head: HeadPaths = field(default_factory=lambda: HeadPaths("lm_head"))
    norm_offset: float = 0.0
    final_norm_in: str = "owner"
    narrowing: None = None


ENDINGS = {
    "mamba": Ending("norm_f"),
    "mamba2": Ending("norm_f"),
    "falcon_mamba": Ending("norm_f"),
    "rwkv": Ending("ln_out", HeadPaths("head")),
    "xlstm": Ending("out_norm", HeadPaths("lm_head", softcap="output_logit_soft_cap")),
    "jamba": Ending("final_layernorm"),
    "bamba": Ending("final_layernorm"),
    "lfm2": Ending("embedding_norm"),
    "lfm2_moe": Ending("embedding_norm"),
    "minimax": Ending("norm"),
    "nemotron_h": Ending("norm_f"),
    "olmo_hybrid": Ending("norm"),
    "qwen3_next": Ending("norm", norm_offset=1.0),
    "qwen3_5_text": Ending("norm", norm_offset=1.0),
    "qwen3_5_moe_text": Ending("norm", norm_offset=1.0),
    "recurrent_gemma": Ending("final_norm", HeadPaths("lm_head", softcap="logits_soft_cap"), norm_offset=1.0),
    "granitemoehybrid": Ending("norm", HeadPaths("lm_head", divisor="logits_scaling")),
}

# LM heads of models around a family's model, by their own type
HEADS = {
    "modernvbert": HeadPaths("lm_head", "projection_head.dense", "projection_head.act", "projection_head.norm"),
}
# class heads that are not those of the family's row, by the classifier's own name
CLASSES = {
    "DeiTForImageClassificationWithTeacher": ClassPaths(
        (Averaged(("cls_classifier", "distillation_classifier")),), "first two"
    ),
    "Wav2Vec2ForCTC": ClassPaths(of_tokens=("lm_head",)),
    "HubertForCTC": ClassPaths(of_tokens=("lm_head",)),
}


def row_of(family: str, config) -> Family | None:
    """The family's row, of the table or of another package (entry points `whence.families`); None if nobody has it."""
    row = FAMILIES.get(family) or plugins("whence.families", Family).get(family)
    return row.rows.get(row.which(config)) if isinstance(row, Either) else row
