"""What effective attention costs: all heads and layers against the plain pass and against SVDs.

BERT-base-sized and SmolLM2-sized models with random weights, batch 8 x 128 tokens, one run, taken in turns. The
baseline is what one would write: a batched thin SVD of the values, under a causal mask one batch for each row. Beside
it the published way, a full SVD of T = V W_O, one head (and row) after the other.
"""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, PreTrainedModel

from benchmarks.clock import medians, one_thread
from benchmarks.forward import REPEATS, ratios
from whence.measures.attention.effective import effective
from whence.models.block import Batch, Block
from whence.models.capture import run, trace, walk
from whence.models.locate import locate

BATCH, TOKENS = 8, 128
# heads the naive computation is timed on; the rest would take as long each
SAMPLED = REPEATS + 1
SMOLLM2 = {
    "vocab_size": 2000,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
}


def main() -> None:
    torch.manual_seed(0)
    compare("BERT-base, 12 layers", BertModel(BertConfig(), add_pooling_layer=False).eval(), thin_heads, full_heads)
    compare("SmolLM2-135M, 6 layers, causal", LlamaModel(LlamaConfig(**SMOLLM2)).eval(), thin_rows, full_rows)


def compare(name: str, model: PreTrainedModel, thin: Callable[[Block], float], full: Callable[[Block], float]) -> None:
    anatomy = locate(model)
    ids = torch.randint(1000, 2000, (BATCH, TOKENS))
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool))

    def watched() -> object:
        return walk(anatomy, batch, lambda block: None)

    def measured() -> object:
        return walk(anatomy, batch, lambda block: effective(block, batch.mask))

    with torch.no_grad(), one_thread():
        found = ratios(lambda: run(model, batch), {"watched": watched, "effective": measured})
        block = trace(anatomy, batch).blocks[1]
        ours = median(lambda: effective(block, batch.mask))
        slow = {
            "batched thin SVD of the values": thin(block) / ours,
            "one full SVD after the other": full(block) / ours,
        }
    print(f"{name}, {BATCH} x {TOKENS} tokens")
    print(f"  watched, nothing measured          {found['watched']:6.2f} x the plain pass (SDPA)")
    print(f"  effective attention of all heads   {found['effective']:6.2f} x the plain pass (SDPA)")
    for way, times in slow.items():
        print(f"  {way:<34} {times:6.1f} x as long as effective attention")


def thin_heads(block: Block) -> float:
    """Seconds for one layer: one batched thin SVD of the values of all heads and sequences, A U U^T."""
    return median(lambda: project_all(block.attention, block.values))


def thin_rows(block: Block) -> float:
    """The same for each row over what it sees, in a batch; rows no longer than a head is wide stay as they are.

    Timed at a few lengths and scaled.
    """
    width = block.values.shape[-1]
    lengths = range(width + 1, TOKENS + 1, 9)
    each = [
        median(lambda row=row: project_all(block.attention[..., row - 1 : row, :row], block.values[..., :row, :]))
        for row in lengths
    ]
    return statistics.mean(each) * (TOKENS - width)


def project_all(weights: Tensor, values: Tensor) -> Tensor:
    left, singular, _ = torch.linalg.svd(values, full_matrices=False)
    spanned = left * (singular > 1e-5 * singular[..., :1])[..., None, :]
    return weights @ spanned @ spanned.mT


def full_heads(block: Block) -> float:
    """Seconds for one layer: T = V W_O of each head and sequence, its full SVD, A U U^T."""
    heads = iter(range(SAMPLED))
    each = median(lambda: project(block.attention[0, head := next(heads)], outputs(block, 0, head)))
    return each * BATCH * block.attention.shape[1]


def full_rows(block: Block) -> float:
    """The same under a causal mask: one SVD for each row, over what it sees; timed at rows of middling length."""
    values, row = outputs(block, 0, 0), TOKENS // 2
    each = median(lambda: project(block.attention[0, 0, row, : row + 1], values[: row + 1]))
    return each * TOKENS * BATCH * block.attention.shape[1]


def outputs(block: Block, sequence: int, head: int) -> Tensor:
    assert block.parts is not None
    return block.values[sequence, head] @ block.parts.projection.weight[head]


def project(weights: Tensor, values: Tensor) -> Tensor:
    left, singular, _ = torch.linalg.svd(values)
    spanned = left[:, : len(singular)][:, singular > 1e-5 * singular[0]]
    return weights @ spanned @ spanned.T


def median(function: Callable[[], object]) -> float:
    """CPU seconds, of a few runs after one to warm up."""
    function()
    return medians({"": function}, REPEATS)[""]
