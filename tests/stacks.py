"""Tiny encoder-decoders of every family that is read, and their derivatives by the models' own code."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.func import jacrev
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedModel, WhisperForConditionalGeneration

import whence
from tests import tiny
from tests.families import scatter
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.capture import borrowed, run
from whence.models.load import Model

ENDS = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3}
T5 = {"vocab_size": 97, "d_model": 64, "d_kv": 12, "d_ff": 80, "num_layers": 3, "num_decoder_layers": 2} | ENDS
T5 |= {"num_heads": 4}
GATED = T5 | {"feed_forward_proj": "gated-gelu"}
BART = {"vocab_size": 97, "d_model": 64, "encoder_layers": 3, "decoder_layers": 2, "max_position_embeddings": 64}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 80, "decoder_ffn_dim": 72}
BART |= ENDS | {"bos_token_id": 2, "forced_eos_token_id": None, "scale_embedding": True}
# name -> (model type, configuration); Whisper, which reads sounds, apart
KINDS: dict[str, tuple[str, dict]] = {
    "t5": ("t5", T5),
    "t5-unscaled": ("t5", GATED | {"tie_word_embeddings": False}),
    "mt5": ("mt5", GATED),
    "umt5": ("umt5", GATED),
    "bart": ("bart", BART),
    "mbart": ("mbart", BART),
    "marian": ("marian", BART),
    "m2m_100": ("m2m_100", BART),
    "pegasus": ("pegasus", BART),
    "blenderbot": ("blenderbot", BART),
    "blenderbot-small": ("blenderbot-small", BART),
    "plbart": ("plbart", BART),
}
WHISPER = ("whisper", BART | {"max_source_positions": 6, "max_target_positions": 64, "num_mel_bins": 8})
DISTINCT = ("t5", "umt5", "bart", "pegasus", "m2m_100")  # the others are as one of these
PAIR = ("ada bo cy dee ed", "fay gus hal")


def build(name: str, seed: int = 0, **more) -> PreTrainedModel:
    """The named tiny model in eval mode, no weight or bias of it trivial."""
    kind, settings = WHISPER if name == "whisper" else KINDS[name]
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **(settings | more))
    model = WhisperForConditionalGeneration(config) if name == "whisper" else AutoModelForSeq2SeqLM.from_config(config)
    for buffer, values in model.named_buffers():
        if buffer == "final_logits_bias":
            values.normal_()
    return scatter(model).eval()


@cache
def loaded(name: str, **more) -> Model:
    """Verified once for all tests, which leave it as it is."""
    return whence.load(build(name, **more).double(), tiny.tokenizer())


def batch(source: int = 6, prefix: int = 4) -> Batch:
    """Random ordinary tokens."""
    ids = torch.randint(4, 90, (1, source + prefix), generator=torch.Generator().manual_seed(1))
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool), split=source)


def own_code(anatomy: Anatomy, given: Batch) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The decoder's last states as the model's own code makes them of what both first blocks read, and that."""
    assert anatomy.encoder is not None
    stacks, start, kept = (anatomy.encoder, anatomy), [], {}

    def last(joint: Tensor | None) -> Tensor:
        border = given.split

        def begin(number: int) -> Callable:
            def hook(block, args, kwargs):
                if joint is None:
                    start.append(args[0] if args else kwargs["hidden_states"])
                    return None
                own = (joint[:border], joint[border:])[number][None]
                return ((own, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": own})

            return hook

        def end(block, args, output):
            kept["last"] = output[0] if isinstance(output, tuple) else output

        handles = [
            stack.blocks[0].register_forward_pre_hook(begin(number), with_kwargs=True)
            for number, stack in enumerate(stacks)
        ]
        handles.append(anatomy.blocks[-1].register_forward_hook(end))
        with borrowed(anatomy.model, seam=None):
            run(anatomy.model, given)
        for handle in handles:
            handle.remove()
        return kept["last"][0]

    anatomy.model.set_attn_implementation("eager")  # the other has no batched derivative, and says so
    with torch.no_grad():
        last(None)
    return last, torch.cat([states[0] for states in start])


def derivative(anatomy: Anatomy, given: Batch) -> Tensor:
    """By reverse mode, t x s x m x m: of the decoder's last states by both layers 0."""
    last, start = own_code(anatomy, given)
    return jacrev(last)(start).transpose(1, 2)
