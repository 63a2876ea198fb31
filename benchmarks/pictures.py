"""What measuring costs where a model reads pictures: ViT-base in size, random weights, one picture of 196 patches.

Medians of interleaved repeats, one thread, against the plain forward pass (SDPA).
"""

import torch
from transformers import ViTConfig, ViTModel

from benchmarks.clock import medians, one_thread
from benchmarks.norms import row
from whence.measures.norms import maps as norms
from whence.models.capture import run, walk
from whence.models.inputs import random_input
from whence.models.locate import locate

REPEATS = 5


def main() -> None:
    torch.manual_seed(0)
    anatomy = locate(ViTModel(ViTConfig(), add_pooling_layer=False).eval())
    batch = random_input(anatomy.model, 0)

    def plain() -> None:
        with torch.no_grad():
            run(anatomy.model, batch)

    with one_thread():
        times = medians(
            {
                "plain": plain,
                "mixing": lambda: walk(anatomy, batch, lambda block: norms.mixing(block, batch.mask)),
                "maps and mixing": lambda: walk(anatomy, batch, lambda block: norms.maps_and_mixing(block, batch.mask)),
            },
            REPEATS,
        )
    for name, limit in {"mixing": "", "maps and mixing": 1.6}.items():
        row(f"{name}, {batch.ids.shape[1]} tokens", f"{times[name] / times['plain']:.2f} x the forward pass", limit)
