"""What the benchmarks printed, as a record with the facts of the machine; no name of the machine or of a person."""

import contextlib
import io
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import psutil
import torch

LIBRARIES = ("whence", "torch", "transformers", "numpy", "xarray")


class Echo(io.StringIO):
    """Keeps what is printed, and shows it at once."""

    def __init__(self, shown: TextIO):
        super().__init__()
        self.shown = shown

    def write(self, text: str) -> int:
        self.shown.write(text)
        self.shown.flush()
        return super().write(text)


@contextlib.contextmanager
def rows() -> Iterator[list[list[str]]]:
    """The rows that are printed inside, each cut where two spaces stand."""
    found: list[list[str]] = []
    with contextlib.redirect_stdout(Echo(sys.stdout)) as printed:
        yield found
    lines = (line.strip() for line in printed.getvalue().splitlines())
    found += [re.split(r"\s{2,}", line) for line in lines if line and not line.startswith("==")]


def machine() -> dict[str, Any]:
    """What a figure depends on, and whether the machine was busy."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "load_per_core": round(os.getloadavg()[0] / (os.cpu_count() or 1), 1),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def written(path: Path, names: list[str], run: Callable[[str], None]) -> None:
    """Runs the benchmarks and writes the record; what was recorded of others before stays."""
    before = json.loads(path.read_text())["benchmarks"] if path.exists() else {}
    facts = machine()
    versions = {library: version(library) for library in LIBRARIES}
    found = {}
    for name in names:
        with rows() as printed:
            run(name)
        found[name] = {"when": f"{datetime.now(UTC):%Y-%m-%d}", "machine": facts, "versions": versions, "rows": printed}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    record = {"whence": versions["whence"], "commit": commit, "benchmarks": before | found}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
