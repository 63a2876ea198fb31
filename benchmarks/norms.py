"""What the norm-based measures cost: against the plain forward pass, the naive computation, the machine's own matmul.

BERT-base in size, random weights, 8 x 128 tokens unless said otherwise. Medians of interleaved repeats, one thread.
"""

import resource
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, PreTrainedModel

from benchmarks.clock import medians, one_thread
from whence.measures.norms import block as feed_forward
from whence.measures.norms import maps as norms
from whence.measures.norms.vectors import anatomy_of
from whence.models.anatomy import Anatomy
from whence.models.block import Batch, Block
from whence.models.capture import trace, walk
from whence.models.locate import locate


def main() -> None:
    anatomy, batch = locate(bert()), tokens(8, 128)
    block = trace(anatomy, batch).blocks[0]
    with one_thread():
        forward(anatomy, batch)
        naive(block, batch)
        whole_block(block, batch)
    memory()


def forward(anatomy: Anatomy, batch: Batch) -> None:
    """The stack with measures on, over the stack as transformers runs it (SDPA)."""

    def plain() -> None:
        with torch.no_grad():
            anatomy.stack(input_ids=batch.ids, attention_mask=batch.mask.long())

    times = medians(
        {
            "plain": plain,
            "capture alone": lambda: walk(anatomy, batch, lambda block: None),
            "mixing": lambda: walk(anatomy, batch, lambda block: norms.mixing(block, batch.mask)),
            "maps and mixing": lambda: walk(anatomy, batch, lambda block: norms.maps_and_mixing(block, batch.mask)),
        }
    )
    limits = {"mixing": 1.35, "maps and mixing": 1.6}
    for name, spent in times.items():
        row(name, f"{spent / times['plain']:.2f} x the forward pass", limits.get(name, ""))


def naive(block: Block, batch: Batch) -> None:
    """Against every vector of every pair: a sequence in one einsum, as published code does, and target by target."""
    targets, sequences = 8, batch.ids.shape[0]
    weight = anatomy_of(block).projection.weight
    given = torch.einsum("h s d, h d m -> h s m", block.values[0], weight)
    times = medians(
        {
            "one einsum": lambda: every_pair(block),
            "target by target": lambda: [pair_lengths(block, given, target) for target in range(targets)],
            "maps": lambda: norms.maps(block, batch.mask),
            "mixing": lambda: norms.mixing(block, batch.mask),
        }
    )
    whole = {"one einsum": sequences, "target by target": batch.ids.numel() / targets}
    for name in ("maps", "mixing"):
        for way, times_over in whole.items():
            limit = "at least 5" if way == "one einsum" else ""
            row(f"{name}, {way}", f"{times[way] * times_over / times[name]:.1f} x slower", limit)


def every_pair(block: Block) -> list[Tensor]:
    """The maps of one sequence from a tensor of all its vectors, 't s m', made by one product."""
    parts = anatomy_of(block)
    given = torch.einsum("h s d, h d m -> h s m", block.values[0], parts.projection.weight)
    vectors = torch.einsum("h t s, h s m -> t s m", block.attention[0], given)
    joined, places = vectors.clone(), torch.arange(vectors.shape[0])
    joined[places, places] += block.input[0]
    after = parts.attention_norms.after
    assert after is not None
    past = after.linear(joined) * after.scale(block.before_norm[0])[:, None]
    others = [found.sum(dim=1) - found[places, places] for found in (vectors, joined, past)]
    return [found.norm(dim=-1) for found in (vectors, joined, past, *others)]


def pair_lengths(block: Block, given: Tensor, target: int) -> list[Tensor]:
    """The definitions taken literally: all vectors that reach one target of the first sequence, and their lengths."""
    vectors = (block.attention[0, :, target, :, None] * given).sum(dim=0)
    joined = vectors.clone()
    joined[target] += block.input[0, target]
    after = anatomy_of(block).attention_norms.after
    assert after is not None
    past = after.linear(joined) * after.scale(block.before_norm[0, target])
    others = [found.sum(dim=0) - found[target] for found in (vectors, joined, past)]
    return [found.norm(dim=-1) for found in (vectors, joined, past, *others)]


def whole_block(block: Block, batch: Batch) -> None:
    """block_n: the share of the machine's matmul rate it reaches, and what the sketch saves."""
    left, right = torch.randn(1024, 768), torch.randn(768, 3072)
    times = medians(
        {
            "matmul": lambda: [left @ right for _ in range(10)],
            "exact": lambda: feed_forward.block_norms(block, batch.mask),
            "sketched": lambda: feed_forward.sketched_block_norms(block, batch.mask, error=0.05),
        },
        repeats=3,
    )
    rate = 10 * left.numel() * right.shape[1] / times["matmul"]
    row("block_n, of the matmul rate", f"{products(block) / times['exact'] / rate:.0%}", "at least 40%")
    row("block_n, sketched at 5 %", f"{times['exact'] / times['sketched']:.1f} x faster", "at least 3")
    exact = feed_forward.block_norms(block, batch.mask)
    errors = [feed_forward.sketched_block_norms(block, batch.mask, 0.05, seed) / exact - 1 for seed in range(2)]
    row("its error, root mean square", f"{torch.stack(errors).square().mean().sqrt():.1%}")
    direct = medians({"direct": lambda: direct_norms(block, 4)}, repeats=3)["direct"] / 4 * batch.ids.numel()
    row("block_n, naive", f"{direct / times['exact']:.1f} x slower")


def products(block: Block) -> int:
    """Multiply-adds of block_n: one product with W_out per pair, heads summed, the maps by head, the diagonal."""
    batch, heads, targets, sources = block.attention.shape
    width, inner = anatomy_of(block).neurons.activated.weight.shape
    by_pair = batch * targets * sources * (inner * width + heads * (inner + width))
    return by_pair + batch * sources * 4 * width * inner + width * width * inner


def direct_norms(block: Block, targets: int) -> None:
    """The slopes known, every vector through both matrices of the feed-forward."""
    answer = feed_forward.response(block)
    weight = anatomy_of(block).projection.weight
    given = torch.einsum("h s d, h d m -> h s m", block.values[0], weight)
    for target in range(targets):
        vectors = torch.einsum("h s, h s m -> s m", block.attention[0, :, target], given)
        hidden = vectors @ answer.parts.neurons.activated.weight * answer.slope[0, target]
        (vectors + hidden @ answer.parts.neurons.down.weight).norm(dim=-1)


def memory() -> None:
    """Peaks of fresh processes after their model is built: with the five maps of every layer kept, less without."""
    for model, length, limit in (("bert", 512, "below 0.5"), ("llama", 2048, "")):
        added = peak(model, length, "maps") - peak(model, length, "nothing")
        row(f"five maps of all layers, {model}, {length} tokens", f"{added:.2f} GB more", limit)


def peak(model: str, length: int, keep: str) -> float:
    code = f"from benchmarks.norms import kept; kept({model!r}, {length}, {keep!r})"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def kept(model: str, length: int, keep: str) -> None:
    """Prints the peak of this process, in gigabytes, after one pass."""
    anatomy, batch = locate({"bert": bert, "llama": llama}[model]()), tokens(1, length)
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of building the model (Linux)
    found = walk(anatomy, batch, lambda block: norms.maps_and_mixing(block, batch.mask) if keep == "maps" else None)
    print(high_water() / 1e9)
    assert len(found.blocks) == anatomy.layers  # kept until here


def high_water() -> int:
    """The most bytes that were resident. Linux hands a parent's ru_maxrss down to its children, so not that."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def bert() -> PreTrainedModel:
    torch.manual_seed(0)
    return BertModel(BertConfig(), add_pooling_layer=False).eval()


def llama() -> PreTrainedModel:
    """As wide as SmolLM2, three layers."""
    torch.manual_seed(0)
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 3}
    return LlamaModel(LlamaConfig(hidden_size=576, intermediate_size=1536, vocab_size=1000, **heads)).eval()


def tokens(rows: int, length: int) -> Batch:
    ids = torch.randint(5, 1000, (rows, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))


def row(name: str, found: str, limit: object = "") -> None:
    print(f"{name:<52} {found:>26}   {limit}", flush=True)


if __name__ == "__main__":
    main()
