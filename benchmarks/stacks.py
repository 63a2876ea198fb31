"""What an encoder-decoder costs: mixing and norms of both stacks against the plain forward pass.

T5 and BART at base size with six layers in each stack, random weights, a source of 128 tokens and a prefix of 64.
Medians of interleaved repeats, one thread.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from transformers import BartConfig, BartModel, PreTrainedModel, T5Config, T5Model

from benchmarks.clock import medians, one_thread
from benchmarks.norms import row
from whence.measures.norms import crossed
from whence.measures.norms import maps as norms
from whence.models.anatomy import Anatomy
from whence.models.block import Batch, Block
from whence.models.capture import walk
from whence.models.locate import locate

SOURCE, PREFIX = 128, 64
Visit = Callable[[Block], object]


def nothing(block: Block) -> None:
    """What is kept of a block when nothing is asked."""


def main() -> None:
    with one_thread():
        for model in (t5(), bart()):
            forward(type(model).__name__, locate(model))


def forward(name: str, anatomy: Anatomy) -> None:
    ids = torch.randint(4, 1000, (1, SOURCE + PREFIX), generator=torch.Generator().manual_seed(0))
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), split=SOURCE)

    def plain() -> None:
        with torch.no_grad():
            anatomy.model(input_ids=batch.source.ids, decoder_input_ids=batch.prefix.ids, use_cache=False)

    def of_encoder(block: Block) -> Tensor:
        return norms.mixing(block, batch.source.mask)

    def all_of_encoder(block: Block) -> object:
        return norms.maps_and_mixing(block, batch.source.mask)

    def all_of_decoder(block: Block) -> object:
        return crossed.maps(block), crossed.mixing(block), crossed.mixing(block, "from_source")

    times = medians(
        {
            "plain": plain,
            "capture alone": lambda: through(anatomy, batch, nothing, nothing),
            "mixing": lambda: through(anatomy, batch, of_encoder, crossed.mixing),
            "maps and mixing": lambda: through(anatomy, batch, all_of_encoder, all_of_decoder),
        }
    )
    for what, spent in times.items():
        row(f"{name}, {what}", f"{spent / times['plain']:.2f} x the forward pass", 1.6 if "mixing" in what else "")


def through(anatomy: Anatomy, batch: Batch, of_encoder: Visit, of_decoder: Visit) -> None:
    """As `whence.measure` does it: the encoder by itself, then the decoder on what the encoder gave."""
    assert anatomy.encoder is not None
    encoded = walk(anatomy.encoder, batch.source, of_encoder).output
    walk(anatomy, replace(batch, encoded=encoded), of_decoder)


def t5() -> PreTrainedModel:
    torch.manual_seed(0)
    return T5Model(T5Config(vocab_size=1000, d_model=768, d_kv=64, d_ff=3072, num_layers=6, num_heads=12)).eval()


def bart() -> PreTrainedModel:
    torch.manual_seed(0)
    return BartModel(BartConfig(vocab_size=1000, d_model=768, **LAYERS)).eval()


LAYERS = {"encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12, "decoder_attention_heads": 12}
LAYERS |= {"encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
