"""One model type tried in a process of its own, with a limit of time and memory; what was found is kept in a file."""

import json
import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.sweep.examine import CRASHED, examined

SECONDS, BYTES = 300, 8 * 2**30

# its server has imported everything once, and each trial is a fork of it
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def tried(
    kind: str, path: Path, state: str, seconds: float = SECONDS, examine: Callable[[str], dict[str, Any]] = examined
) -> dict[str, Any]:
    """The type's record, made in a process that may be ended; `state` says which sources it is of."""
    path.unlink(missing_ok=True)
    process = _processes.Process(target=_child, args=(kind, path, state, examine))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    if not path.exists():
        said = f"no answer within {seconds:g} seconds and {BYTES // 2**30} GB (exit code {process.exitcode})"
        verdict = {"outcome": CRASHED, "model": "", "gives": [], "said": said}
        _write(path, {"state": state, "type": kind, "verdict": verdict, "classes": [verdict]})
    return recorded(path)


def recorded(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _child(kind: str, path: Path, state: str, examine: Callable[[str], dict[str, Any]]) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    _write(path, {"state": state} | examine(kind))


def _write(path: Path, record: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1))
    part.rename(path)
