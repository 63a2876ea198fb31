"""Where the parts of a corpus are measured: a table of engines, each with `work(worker, parts, ...) -> records`."""

import importlib
from collections.abc import Callable, Generator
from typing import Any

from whence.errors import BadInput

ENGINES = {"local": "whence.corpus.engines.local", "ray": "whence.corpus.engines.ray"}


def engine(name: str) -> Callable[..., Generator[dict[str, Any], None, None]]:
    if name not in ENGINES:
        raise BadInput(f"There is no engine {name!r}; there are: {', '.join(ENGINES)}.")
    return importlib.import_module(ENGINES[name]).work
