"""Work on a corpus that resumes where it stopped: which parts are done, which are pending, and how it is finished."""

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

from whence.corpus.manifest import RECORD, begun, run_id
from whence.corpus.parts import Part, cut
from whence.corpus.store import (
    JOURNAL,
    MANIFEST,
    Store,
    checksum,
    damaged,
    part_numbers,
    read_record,
    record_name,
)
from whence.errors import BadInput, WhenceError
from whence.sealed import Damaged, Shape, digest, sealed

Progress = Callable[[int, int | None], None]


@dataclass(eq=False)
class Resumable:
    """A folder, the corpus it is made from, and its progress."""

    store: Store
    manifest: Mapping[str, Any]
    limit: int | None
    corpus: Iterable[object]
    total: int | None
    progress: Progress | None
    totals: Counter[str] = field(default_factory=lambda: Counter(sentences=0, tokens=0, skipped=0))
    hashes: list[str] = field(default_factory=list)
    "One for every part that was read."

    def pending(self) -> Iterator[Part]:
        """The parts that are damaged or not done, in order; the corpus is read lazily."""
        self._say()
        for part in cut(self.corpus, self.manifest["plan"]["part_size"]):
            self.hashes.append(part.sha256)
            self._check_end(part)
            record = self._record(part)
            if record is None or damaged(self.store, record["files"]):
                yield part
            else:
                self.count(record)

    def count(self, record: Mapping[str, Any]) -> None:
        skipped = len(record.get("skipped", ()))
        self.totals.update(sentences=record["sentences"], tokens=record.get("tokens", 0), skipped=skipped)
        self._say()

    def finish(self, merged: Callable[[list[int]], Mapping[str, bytes]] = lambda numbers: {}) -> None:
        """Writes what is `merged` from the parts, and the manifest with the corpus's hash and totals."""
        numbers, count = part_numbers(self.store), len(self.hashes)
        if odd := sorted(set(numbers) ^ set(range(count))):
            raise self._other(
                f"{self.store.root!r} has {len(numbers)} parts and the corpus now gives {count}, without"
                f" {record_name(odd[0])}"
            )
        files = merged(numbers)
        for name, data in files.items():
            self.store.write(name, data)
        read = {"limit": self.limit, "sha256": digest(self.hashes), "parts": count, **self.totals}
        about = {
            **self.manifest,
            "finished": True,
            "corpus": self.manifest["corpus"] | read,
            "files": {name: checksum(data) for name, data in files.items()},
        }
        self.store.write(MANIFEST, sealed(about))
        self.store.tidy()

    def _record(self, part: Part) -> dict[str, Any] | None:
        """The part's record; None if there is none or it is damaged, and the part is done again."""
        record = None
        with contextlib.suppress(Damaged):
            record = read_record(self.store, part.number, RECORD)
        if record is not None and record["sha256"] != part.sha256:
            raise self._other(
                f"Part {part.number} of {self.store.root!r} was made from other sentences than those at"
                f" {part.first:,} of the corpus now"
            )
        return record

    def _check_end(self, part: Part) -> None:
        if part.number >= self.manifest["corpus"].get("parts", part.number + 1):
            raise self._other(
                f"{self.store.root!r} was finished after {part.first:,} sentences, and the corpus now has more"
            )

    def _other(self, why: str) -> BadInput:
        """The error for a corpus that changed; it names the limit if that changed."""
        limit = self.manifest["corpus"]["limit"]
        if limit != self.limit:
            return BadInput(
                f"{self.store.root!r} was begun with {_limited(limit)}, and {_limited(self.limit)} was given;"
                " name another folder, or give the same limit."
            )
        return BadInput(f"{why}; name another folder, or give the corpus as it was.")

    def _say(self) -> None:
        if self.progress is not None:
            self.progress(self.totals["sentences"] + self.totals["skipped"], self.total)


@contextlib.contextmanager
def resumed(
    store: Store,
    requested: dict[str, Any],
    shape: Shape,
    corpus: Iterable[object],
    progress: Progress | None = None,
    total: int | None = None,
    engine: str = "local",
) -> Iterator[Resumable]:
    """The work that this manifest describes, begun or resumed in a locked folder and logged in its journal.

    The journal has two lines per attempt: when it began and by which command, when and how it ended. A killed attempt
    has only the first.
    """
    store = replace(store, run=run_id(requested))
    length = len(corpus) if total is None and isinstance(corpus, Sized) else total
    work = Resumable(store, begun(store, requested, shape), requested["corpus"]["limit"], corpus, length, progress)
    _note(store, {"began": _now(), "engine": engine, "command": sys.argv})
    outcome = "finished"
    try:
        yield work
    except BaseException as error:
        outcome = "stopped" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        raise
    finally:
        with contextlib.suppress(WhenceError):  # where the disk is full, the first error is the one to hear of
            _note(store, {"ended": _now(), "outcome": outcome})


def _limited(limit: int | None) -> str:
    return "no limit" if limit is None else f"the limit {limit}"


def _note(store: Store, line: Mapping[str, Any]) -> None:
    written = json.dumps(line, ensure_ascii=False) + "\n"
    store.write(JOURNAL, (store.read(JOURNAL) or b"") + written.encode(errors="backslashreplace"))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
