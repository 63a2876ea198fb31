"""How far a reader has to walk: files visited, and calls from one file of the library into another.

A call is a crossing when caller and callee are written in different files of whence; comprehensions count where they
are written. Templates of pages are not counted, because a profiler takes every piece of text that they yield for a
call. Every walk is gone once before it is counted, so that imports are not. Nothing is timed.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import whence

ROOT = str(Path(whence.__file__).parent)
TEXTS = ["Paris is the capital of France.", "The old man who fed the pigeons was tired.", "A cat sat on the mat."]


def main() -> None:
    model = whence.load()
    with tempfile.TemporaryDirectory() as folder:
        walks: dict[str, Callable[[str], Any]] = {
            "measure mixing": lambda out: whence.measure(model, TEXTS[0], ["mixing"]),
            "run": lambda out: whence.run(model, TEXTS, ["mixing"], f"{out}-run"),
            "study": lambda out: whence.study("mixing", model, corpus(folder), f"{out}-study", quick=True),
        }
        for name, walk in walks.items():
            walk(f"{folder}/before")
            files, crossings, different = walked(lambda walk=walk: walk(f"{folder}/after"))
            print(f"{name:<16} {files:>4} files {crossings:>9,} crossings, {different:>4,} different ones")


def corpus(folder: str) -> str:
    path = Path(folder, "texts.txt")
    path.write_text("\n".join(TEXTS * 4))
    return str(path)


def own(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOT) and code.co_filename.endswith(".py")


def walked(work: Callable[[], Any]) -> tuple[int, int, int]:
    """Files, calls from one of them into another, and different pairs of functions among those."""
    files: set[str] = set()
    crossings: Counter[tuple[str, str, str, str]] = Counter()

    def called(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not own(code):
            return
        files.add(code.co_filename)
        caller = frame.f_back.f_code if frame.f_back else code
        if own(caller) and caller.co_filename != code.co_filename:
            crossings[caller.co_filename, caller.co_name, code.co_filename, code.co_name] += 1

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(files), crossings.total(), len(crossings)


if __name__ == "__main__":
    main()
