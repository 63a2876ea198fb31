"""python -m benchmarks [NAME ...] [--json FILE]: figures are ratios measured in one run, never an absolute time."""

import argparse
import importlib
import sys
from pathlib import Path

BENCHMARKS = (
    "forward",
    "call",
    "norms",
    "pictures",
    "stacks",
    "effective",
    "jacobian",
    "targets",
    "length",
    "why",
    "faithful",
    "needles",
    "corpus",
    "head",
    "identity",
    "lens",
    "explorer",
    "scale",
    "peers",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures there, with the machine's facts"
    )
    asked = parser.parse_args()
    if wrong := [name for name in asked.names if name not in BENCHMARKS]:
        sys.exit(f"There is no benchmark {wrong[0]!r}; there are: {', '.join(BENCHMARKS)}.")
    names = asked.names or list(BENCHMARKS)
    if asked.json is None:
        for name in names:
            run(name)
        return
    from benchmarks.record import written

    written(asked.json, names, run)


def run(name: str) -> None:
    print(f"\n== {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()


main()
