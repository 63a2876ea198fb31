"""What the norm-based measures cost: against the plain forward pass, a naive computation, and the machine's matmul."""

import dataclasses
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, PreTrainedModel

from whence.measures import feed_forward, norms
from whence.measures.vectors import anatomy_of, branched, settled
from whence.models.anatomy import Anatomy
from whence.models.capture import trace, walk
from whence.models.locate import locate
from whence.models.trace import Batch, Block

REPEATS = 5
LIMITS = {"mixing": 1.35, "maps and mixing": 1.6}


def main() -> None:
    anatomy, batch = locate(_bert()), _tokens(8, 128)
    block = trace(anatomy, batch).blocks[0]
    _forward_table(anatomy, batch)
    _naive_table(block, batch)
    _block_table(block, batch)
    print(f"\nmemory the five maps add at 512 tokens, BERT-base: {_peak('bert', 512, True) - _peak('bert', 512, False):.2f} GB (limit 0.5)")
    print(f"2,048 tokens, SmolLM2-sized, 3 layers: peak {_peak('llama', 2048, True):.2f} GB, {_peak('llama', 2048, False):.2f} without maps")


def _bert() -> PreTrainedModel:
    torch.manual_seed(0)
    return BertModel(BertConfig(), add_pooling_layer=False).eval()


def _llama() -> PreTrainedModel:
    shape = {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536}
    return LlamaModel(LlamaConfig(**shape, num_hidden_layers=3, vocab_size=1000, max_position_embeddings=2048)).eval()


def _tokens(rows: int, length: int) -> Batch:
    ids = torch.randint(5, 1000, (rows, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))
