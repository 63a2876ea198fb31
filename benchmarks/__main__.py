"""python -m benchmarks [NAME ...]: every figure is a ratio measured in one run, never an absolute time."""

import importlib
import sys

BENCHMARKS = (
    "forward",
    "call",
    "norms",
    "pictures",
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
)


def main(names: list[str]) -> None:
    wrong = [name for name in names if name not in BENCHMARKS]
    if wrong:
        sys.exit(f"There is no benchmark {wrong[0]!r}; there are: {', '.join(BENCHMARKS)}.")
    for name in names or BENCHMARKS:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


main(sys.argv[1:])
