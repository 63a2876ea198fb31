"""How the benchmarks take time: in turns, in CPU seconds of one thread; what else the machine does matters less so."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

REPEATS = 7


def medians(jobs: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Seconds each takes, turn by turn, so that a busy moment falls on all alike."""
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            spent[name].append(seconds(job))
    return {name: statistics.median(times) for name, times in spent.items()}


def seconds(job: Callable[[], object]) -> float:
    """CPU seconds of one run: waiting is left out."""
    began = time.process_time()
    job()
    return time.process_time() - began


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
