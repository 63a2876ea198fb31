"""Where the parts of a corpus are measured: a table of engines, each with `work(worker, parts, cluster) -> records`."""

import importlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from whence.errors import BadInput

ENGINES = {"local": "whence.corpus.engines.local", "ray": "whence.corpus.engines.ray"}


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is, how many workers it has, the GPUs of each, and the description of the model they measure."""

    address: str | None = None
    workers: int | None = None
    gpus_per_worker: int | float | None = None
    model: Mapping[str, Any] | None = None


def engine(name: str) -> Callable[..., Generator[dict[str, Any], None, None]]:
    if name not in list(ENGINES):
        raise BadInput(f"There is no engine {name!r}; there are: {', '.join(ENGINES)}.")
    return importlib.import_module(ENGINES[name]).work
