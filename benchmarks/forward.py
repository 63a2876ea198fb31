"""What watching costs: the captured pass against the plain one, BERT-base-sized, 8 x 128 tokens."""

from collections.abc import Callable

import torch
from transformers import BertConfig, BertModel

from benchmarks.clock import medians, one_thread
from whence.models.block import Batch
from whence.models.capture import run, walk
from whence.models.locate import locate

REPEATS = 5


def main() -> None:
    torch.manual_seed(0)
    anatomy = locate(BertModel(BertConfig(), add_pooling_layer=False).eval())
    ids = torch.randint(1000, 30000, (8, 128))
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool))
    with torch.no_grad(), one_thread():
        ratio = ratios(
            lambda: run(anatomy.model, batch),
            {"every block watched, nothing kept": lambda: walk(anatomy, batch, lambda block: None)},
        )
    for name, value in ratio.items():
        print(f"{name:40s} {value:.2f} x the plain pass (SDPA)")


def ratios(plain: Callable[[], object], others: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median time of each over the median time of `plain`, taken in turns so that noise falls on all alike."""
    for job in (plain, *others.values()):
        job()
    middle = medians({"plain": plain, **others}, REPEATS)
    return {name: middle[name] / middle["plain"] for name in others}
