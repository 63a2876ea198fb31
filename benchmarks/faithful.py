"""Beside FlashTrace: what an answer's explanation costs, and whether the tokens that it names are those that matter.

FlashTrace (PyPI flashtrace 0.1.1) runs in an environment of its own, whose Python WHENCE_FLASHTRACE names:
    python -m venv .peers/flashtrace && .peers/flashtrace/bin/pip install -c constraints.txt flashtrace==0.1.1
SmolLM2, one thread, everything in turns. Faithfulness is the log-probability of the answer that is lost when the tenth
of the prompt's tokens that a ranking puts first is removed, over prompts of Wikipedia.
"""

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray

import whence
from benchmarks.clock import one_thread, seconds
from benchmarks.memory import grown, resident, smollm2
from benchmarks.norms import row
from whence.models.load import Model

PYTHON = Path(os.environ.get("WHENCE_FLASHTRACE", ".peers/flashtrace/bin/python"))
DATA = Path(__file__).parents[2] / "shared" / "data"
TEXTS = ("wikitext103/wiki.valid.tokens", "enwiki/excerpt_5MB.txt")
PROMPT, ANSWER, ROUNDS = 500, 10, 3  # tokens of the text whose explanation is timed
PROMPTS, SHORT, REMOVED = 30, 120, 0.1  # prompts whose tokens are removed, their length, and how many of them go
GOALS = {"share, the answer as one": 3, "share, each token": 1.6 * ANSWER}
RESAMPLED = 10_000
THEIRS = "FlashTrace, the answer as one"
WAYS: dict[str, dict[str, Any]] = {
    "share, the answer as one": {"measures": "share", "together": True},
    "share, each token": {"measures": "share"},
    "dependence, the answer as one": {"measures": "dependence", "together": True},
    "dependence, each token": {"measures": "dependence"},
}
ROUNDS_OF = {"share, each token": 2, "dependence, each token": 1}  # they take many passes


@dataclass(frozen=True)
class Asked:
    """A prompt and its answer, as ids and as the texts that give these ids."""

    prompt: list[int]
    answer: list[int]
    texts: tuple[str, str]


class Peer:
    """FlashTrace in a process of its own."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process

    def __call__(self, asked: Asked, method: str = "ifr-span") -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        prompt, answer = asked.texts
        line = {"prompt": prompt, "answer": answer, "tokens": len(asked.answer), "method": method}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert found["tokens"] == [len(asked.prompt), len(asked.answer)], "both explain the same tokens"
        return found


@contextmanager
def flashtrace(model: Model) -> Iterator[Peer]:
    """With the same weights, saved for it; GGUF is not what it reads."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {key: value for key, value in model.model.config.to_dict().items() if key != "quantization_config"}
        copy = type(model.model)(type(model.model.config)(**settings))
        copy.load_state_dict(model.model.state_dict())
        copy.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        del copy
        program = [str(PYTHON), str(Path(__file__).with_name("flashtrace_peer.py")), folder]
        quiet = {
            "text": True,
            "stderr": subprocess.DEVNULL,
            "env": os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
        }
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **quiet) as process:
            yield Peer(process)
            process.stdin.close()


@contextmanager
def beside(model: Model) -> Iterator[Peer | None]:
    """FlashTrace where there is one."""
    if not PYTHON.exists():
        print(f"FlashTrace is left out: there is no {PYTHON} (see benchmarks/faithful.py).")
    with flashtrace(model) if PYTHON.exists() else nullcontext() as peer:
        yield peer


def main() -> None:
    torch.set_num_threads(1)
    model = smollm2()
    resident(model)
    with one_thread(), beside(model) as peer:
        cost(model, peer)
        faithfulness(model, peer)


def cost(model: Model, peer: Peer | None) -> None:
    """Seconds in plain passes of prompt and answer, with logits; bytes on top of the loaded model."""
    asked, short = texts(model, PROMPT, ANSWER, 1)[0], texts(model, 12, 2, 1)[0]
    jobs = {name: partial(explained, model, asked, options) for name, options in WAYS.items()}
    most = {name: grown(job, partial(explained, model, short, WAYS[name])).bytes for name, job in jobs.items()}
    if peer is not None:
        peer(short)  # sets up what is set up once
        most[THEIRS] = peer(asked)["bytes"]  # the first time: later ones find memory that the process has kept
    taken: dict[str, list[float]] = {name: [] for name in most}
    for number in range(ROUNDS):
        plain = seconds(lambda: passed(model, [asked.prompt + asked.answer]))
        for name, job in jobs.items():
            if number < ROUNDS_OF.get(name, ROUNDS):
                taken[name].append(seconds(job) / plain)
        if peer is not None:
            taken[THEIRS].append(peer(asked)["seconds"] / plain)
    for name, times in taken.items():
        goal = f"at most {GOALS[name]:g}" if name in GOALS else ""
        row(name, f"{statistics.median(times):.1f} passes, {most[name] / 1e6:.0f} MB", goal)


def explained(model: Model, asked: Asked, options: dict[str, Any]) -> xarray.Dataset:
    return whence.why(model, asked.prompt, answer=asked.answer, **options)


def faithfulness(model: Model, peer: Peer | None) -> None:
    found = [lost(model, asked, number, peer) for number, asked in enumerate(texts(model, SHORT, ANSWER, PROMPTS))]
    for name in found[0]:
        values = np.array([each[name] for each in found])
        low, high = bootstrapped(values)
        row(f"removed by {name}", f"{values.mean():.1f} nats lost", f"{low:.1f} to {high:.1f}, {len(values)} prompts")
    for name in [name for name in found[0] if "FlashTrace" in name]:
        values = np.array([each["share, by size"] - each[name] for each in found])
        low, high = bootstrapped(values)
        row(f"share, by size, less {name}", f"{values.mean():+.1f}", f"{low:+.1f} to {high:+.1f}")


def lost(model: Model, asked: Asked, seed: int, peer: Peer | None) -> dict[str, float]:
    """How many nats of the answer's log-probability each ranking's first tokens are worth."""
    scores = rankings(model, asked, seed, peer)
    count = int(REMOVED * len(asked.prompt))
    left = [np.sort(np.argsort(-values, kind="stable")[count:]) for values in scores.values()]
    rows = [[asked.prompt[place] for place in places] + asked.answer for places in left]
    whole, rest = said(model, [asked.prompt + asked.answer], asked), said(model, rows, asked)
    return {name: float(whole[0] - after) for name, after in zip(scores, rest, strict=True)}


def rankings(model: Model, asked: Asked, seed: int, peer: Peer | None) -> dict[str, np.ndarray]:
    """A score for every token of the prompt, by every method."""
    found = whence.why(model, asked.prompt, answer=asked.answer, together=True)
    count = len(asked.prompt)
    share, dependence = (found[name].values[0, 0, :count] for name in ("share", "dependence"))
    scores = {"share": share, "share, by size": np.abs(share), "dependence": dependence}
    if peer is not None:
        scores["FlashTrace"] = np.array(peer(asked)["scores"])
        scores["FlashTrace, one hop"] = np.array(peer(asked, "flashtrace")["scores"])
    return scores | {"chance": np.random.default_rng(seed).random(count), "being last": np.arange(count, dtype=float)}


@torch.no_grad()
def said(model: Model, rows: list[list[int]], asked: Asked) -> np.ndarray:
    """The log-probability of the answer at the end of each row; all are of one length."""
    count = len(asked.answer)
    logs = passed(model, rows)[:, -count - 1 : -1].log_softmax(dim=-1)
    return logs.gather(-1, torch.tensor(asked.answer)[None, :, None].expand(len(rows), -1, -1)).sum(dim=(1, 2)).numpy()


@torch.no_grad()
def passed(model: Model, rows: list[list[int]]) -> torch.Tensor:
    return model.model(torch.tensor(rows), use_cache=False).logits


def texts(model: Model, prompt: int, answer: int, count: int) -> list[Asked]:
    """From the shared data by turns, each from another place; only where the texts give the same ids again."""
    found: list[Asked] = []
    for name in TEXTS:
        paragraphs = [
            line.strip() for line in (DATA / name).read_text().splitlines() if len(line) > 6 * (prompt + answer)
        ]
        every = (asked for asked in (_asked(model, line, prompt, answer) for line in paragraphs[::3]) if asked)
        found += [asked for asked, _ in zip(every, range((count + 1) // len(TEXTS)), strict=False)]
    return found[:count]


def _asked(model: Model, text: str, prompt: int, answer: int) -> Asked | None:
    ids = _ids(model, text)[: prompt + answer]
    first, rest = ids[:prompt], ids[prompt:]
    written = model.tokenizer.decode(first), model.tokenizer.decode(rest)
    same = len(rest) == answer and _ids(model, written[0]) == first and _ids(model, written[1]) == rest
    return Asked(first, rest, written) if same and written[1].startswith(" ") else None


def _ids(model: Model, text: str) -> list[int]:
    return model.tokenizer(text, add_special_tokens=False)["input_ids"]


def bootstrapped(values: np.ndarray) -> tuple[float, float]:
    """95 % of the means of as many prompts drawn again."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLED, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
