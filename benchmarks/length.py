"""Long texts: time beside the plain forward pass, and memory beyond the loaded model, by length."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import whence
from benchmarks.clock import one_thread, seconds
from benchmarks.memory import grown, resident, smollm2
from benchmarks.norms import row
from whence.models.load import Model

TOKENS = 4096
LENGTHS = (2048, 4096, 8192, 16384)
ROWS = ("attention", "norms_heads", "norms", "effective", "null", "alti")  # all that is read off the attention part
WIDTH = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "max_position_embeddings": max(LENGTHS),
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def main() -> None:
    with one_thread():
        times(smollm2(), TOKENS)
        by_length(two_layers())


def times(model: Model, tokens: int) -> None:
    """Everything in one run, in CPU seconds; memory in processes of their own."""
    resident(model)
    ids = text(tokens)
    jobs = {
        "mixing of all tokens": lambda: whence.measure(model, ids, ["mixing"]),
        f"{', '.join(ROWS)} of one target": lambda: whence.measure(model, ids, ROWS, targets=[-1]),
    }

    def plain() -> None:
        with torch.no_grad():
            model.anatomy.stack(input_ids=ids)

    took, most = seconds(plain), grown(plain)
    row(f"plain pass, {tokens:,} tokens", f"{most.bytes / 1e6:.0f} MB", "1.00")
    for name, job in jobs.items():
        ratio, taken = seconds(job) / took, grown(job)
        row(name, f"{taken.bytes / 1e6:.0f} MB", f"{ratio:.2f}")


def by_length(model: Model) -> None:
    resident(model)
    for tokens in LENGTHS:
        ids = text(tokens)
        taken = grown(lambda ids=ids: whence.measure(model, ids, "mixing"))
        row(
            f"mixing, two layers, {tokens:,} tokens",
            f"{taken.bytes / 1e6:.0f} MB",
            f"{taken.bytes / tokens / 1e3:.0f} kB a token",
        )


def two_layers() -> Model:
    """Random weights, as wide as SmolLM2-135M, and its vocabulary cut off: a pass that shows what length costs."""
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **WIDTH)).eval()
    tokenizer = whence.load().tokenizer
    tokenizer.model_max_length = max(LENGTHS)
    return whence.load(net, tokenizer)


def text(tokens: int) -> torch.Tensor:
    """Random tokens, which no measure of time or memory depends on."""
    return torch.randint(5, 900, (1, tokens), generator=torch.Generator().manual_seed(0))
