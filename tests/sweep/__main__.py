"""python -m tests.sweep [TYPE ...]: does whence read every model type that transformers can build?

What was found is kept in `families/`, one file a type, and a type is tried again only when whence or this tool has
changed. The table goes into docs/models.md; with names given, only those are tried, and nothing is written there.
"""

import hashlib
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import transformers

from tests.sweep.examine import OUTCOMES
from tests.sweep.table import write
from tests.sweep.trial import recorded, tried

ROOT = Path(__file__).parents[2]
RECORDS, PAGE = ROOT / "families", ROOT / "docs/models.md"
SOURCES = ("src/whence/**/*.py", "tests/sweep/*.py", "tests/families.py")
WORKERS = int(os.environ.get("WORKERS", "2"))


def main(names: list[str]) -> None:
    kinds, state = names or sorted(transformers.CONFIG_MAPPING.keys()), _state()
    RECORDS.mkdir(exist_ok=True)
    due = [kind for kind in kinds if names or recorded(_path(kind)).get("state") != state]
    print(f"{len(kinds)} types, {len(due)} of them to try", flush=True)
    with ThreadPoolExecutor(WORKERS) as pool:
        for number, record in enumerate(pool.map(lambda kind: tried(kind, _path(kind), state), due), start=1):
            print(f"{number:4} {_line(record)}", flush=True)
    records = [recorded(_path(kind)) for kind in kinds]
    counts = Counter(record["verdict"]["outcome"] for record in records)
    print(", ".join(f"{outcome} {counts[outcome]}" for outcome in OUTCOMES))
    if not names:
        write(records, PAGE)


def _path(kind: str) -> Path:
    return RECORDS / f"{kind}.json"


def _line(record: dict[str, Any]) -> str:
    verdict = record["verdict"]
    said = verdict["said"] or ", ".join(verdict["gives"])
    return f"{verdict['outcome']:9} {record['type']:28} {verdict['model']}: {said}"


def _state() -> str:
    """Of all that a verdict depends on."""
    files = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))
    content = b"".join(path.read_bytes() for path in files) + transformers.__version__.encode()
    return hashlib.sha256(content).hexdigest()[:16]


if __name__ == "__main__":
    main(sys.argv[1:])
