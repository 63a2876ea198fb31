"""What a corpus costs: a run with `mixing` against the bare model on the same batches, Ray, memory.

Random weights and real sentences' lengths; every figure is a ratio or a growth, measured in this run.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator

import psutil
import torch
from transformers import BertConfig, BertModel

from benchmarks.clock import one_thread
from benchmarks.clock import seconds as processor_seconds
from whence.corpus.annotate import coded
from whence.corpus.run import run
from whence.models import capture
from whence.models.batching import batches, padded, padding_id
from whence.models.encode import encode
from whence.models.load import Model, load

WORDS = (
    "the",
    "a",
    "of",
    "keys",
    "cabinet",
    "table",
    "are",
    "on",
    "is",
    "capital",
    "she",
    "he",
    "said",
    "that",
    "left",
)
REPEATS = 3


def main() -> None:
    builtin = load()
    large = load(BertModel(BertConfig(), add_pooling_layer=False).eval(), builtin.tokenizer)
    with one_thread():
        throughput("the built-in model", builtin, texts(1200))
        throughput("BERT-base in size", large, texts(96))
    memory()
    cluster(builtin, texts(448))


def texts(count: int, longest: int = 45, seed: int = 0) -> list[str]:
    """Lengths spread as in running text."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(4, longest))) + " ." for _ in range(count)]


def throughput(name: str, model: Model, corpus: list[str]) -> None:
    """CPU seconds of the whole run, from text to tables on the disk, over those of the bare passes."""
    together = _batches(model, corpus)
    spent: dict[str, list[float]] = {"bare": [], "run": []}
    for _ in range(REPEATS + 1):
        spent["bare"].append(processor_seconds(lambda: bare(model, together)))
        with tempfile.TemporaryDirectory() as folder:
            spent["run"].append(
                processor_seconds(lambda folder=folder: run(model, corpus, "mixing", f"{folder}/run", threads=1))
            )
    plain, whole = (statistics.median(times[1:]) for times in spent.values())
    tokens = sum(int(batch.mask.sum()) for batch in together)
    row(f"{name}, {tokens:,} tokens", f"{plain / whole:.0%} of the bare model's", "at least 70%")


def _batches(model: Model, corpus: list[str]) -> list:
    from whence.text.sentence import Sentence

    found = [encode(model.anatomy, model.tokenizer, Sentence(text)) for text in corpus]
    every, padding = [], padding_id(model.anatomy, model.tokenizer)
    for start in range(0, len(found), 256):
        part = [coded(model, 0, each) for each in found[start : start + 256]]
        for places in batches([len(each) for each in part], lambda longest: 2048 // longest, longest_first=True):
            every.append(padded([part[place].encoded.batch for place in places], padding))
    return every


def bare(model: Model, together: list) -> None:
    with torch.no_grad():
        for batch in together:
            capture.run(model.anatomy.stack, batch)


def memory() -> None:
    """A tiny model and short sentences, so that anything kept of each would show."""
    settings = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    builtin = load()
    tiny = load(BertModel(BertConfig(**settings), add_pooling_layer=False).eval(), builtin.tokenizer)
    used: dict[int, float] = {}

    def watch(done: int, total: int | None) -> None:
        used[done] = psutil.Process().memory_info().rss / 2**20

    with tempfile.TemporaryDirectory() as folder:
        spent = seconds(lambda: run(tiny, short(100_096), "mixing", f"{folder}/run", part_size=1000, progress=watch))
    for sentences in (1000, 10_000, 50_000, 100_000):
        row(f"resident after {sentences:,} sentences", f"{used[sentences]:.0f} MB")
    row("growth from 1,000 to 100,000", f"{used[100_000] - used[1000]:.0f} MB", f"flat; took {spent:.0f} s")


def short(count: int) -> Iterator[str]:
    chance = random.Random(0)
    return (" ".join(chance.choices(WORDS, k=chance.randint(2, 6))) for _ in range(count))


def cluster(model: Model, corpus: list[str]) -> None:
    """Two workers with a thread each, and one with one, against this process with one and with two."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=300 * 2**20)
    jobs = {
        "here, one thread": {"engine": "local", "threads": 1},
        "here, two threads": {"engine": "local", "threads": 2},
        "Ray, one worker": {"engine": "ray", "workers": 1, "threads": 1},
        "Ray, two workers": {"engine": "ray", "workers": 2, "threads": 1},
    }
    spent = {name: steady(model, corpus, **asked) for name, asked in jobs.items()}
    ray.shutdown()
    for name, each in spent.items():
        row(f"{name}: a part of 32 sentences", f"{each * 1000:.0f} ms")
    row("two Ray workers against one thread here", f"{spent['here, one thread'] / spent['Ray, two workers']:.2f} x")
    row("two Ray workers against two threads here", f"{spent['here, two threads'] / spent['Ray, two workers']:.2f} x")
    lost = spent["Ray, one worker"] - spent["here, one thread"]
    row("Ray's overhead per part", f"{lost * 1000:.0f} ms")


def steady(model: Model, corpus: list[str], **asked) -> float:
    """Seconds per part once every worker has its model: from the third part to the last."""
    when: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        progress = lambda done, total: when.append(time.perf_counter())  # noqa: E731
        run(model, corpus, "mixing", f"{folder}/run", part_size=32, progress=progress, **asked)
    first = 4
    return (when[-1] - when[first]) / (len(when) - 1 - first)


def seconds(job) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def row(name: str, found: str, limit: object = "") -> None:
    print(f"{name:<52} {found:>26}   {limit}", flush=True)


if __name__ == "__main__":
    main()
