"""How far a run has come: which parts are still to be done, how many sentences are, and what is written at the end."""

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas
import pyarrow.parquet

from whence.corpus.moments import merged
from whence.corpus.part_moments import KEYS, NONE, as_table
from whence.corpus.parts import Part, cut
from whence.corpus.plan import RECORD, Plan
from whence.corpus.store import JOURNAL, MANIFEST, Store, checksum, damaged, part_numbers, read_record, record_name
from whence.corpus.tables import as_parquet
from whence.errors import BadInput, WhenceError
from whence.sealed import Damaged, digest, sealed

Progress = Callable[[int, int | None], None]
MOMENTS = "moments.parquet"


@dataclass(eq=False)
class Course:
    store: Store
    plan: Plan
    corpus: Iterable[object]
    total: int | None
    progress: Progress | None
    before: Mapping[str, Any]
    "What the manifest says of the corpus: its limit, and how many parts there are if the run was finished once."
    done: int = 0
    _hashes: list[str] = field(default_factory=list)

    def pending(self) -> Iterator[Part]:
        """The parts that are not done or damaged, in order; the corpus is read as they are asked for."""
        self._say()
        for part in cut(self.corpus, self.plan.part_size):
            self._hashes.append(part.sha256)
            self._check_end(part)
            record = self._record(part.number)
            if record is not None and record["sha256"] != part.sha256:
                raise self._other(
                    f"Part {part.number} of {self.store.root!r} was made from other sentences than those at"
                    f" {part.first:,} of the corpus now"
                )
            if record is not None and not damaged(self.store, record["files"]):
                self.count(record)
            else:
                yield part

    def _record(self, number: int) -> dict[str, Any] | None:
        """None also for one that is damaged: its part is measured again."""
        with contextlib.suppress(Damaged):
            return read_record(self.store, number, RECORD)
        return None

    def _check_end(self, part: Part) -> None:
        if part.number >= self.before.get("parts", part.number + 1):
            raise self._other(
                f"{self.store.root!r} was finished after {part.first:,} sentences, and the corpus now has more"
            )

    def _other(self, why: str) -> BadInput:
        """The corpus is not what it was: because of its limit, if that is not what it was."""
        limit, now = self.before.get("limit"), limit_of(self.corpus)
        if "limit" in self.before and limit != now:
            return BadInput(
                f"{self.store.root!r} was begun with {_limited(limit)}, and {_limited(now)} was given;"
                " name another folder, or give the same limit."
            )
        return BadInput(f"{why}; name another folder, or give the corpus as it was.")

    def count(self, record: Mapping[str, Any]) -> None:
        self.done += record["sentences"] + len(record["skipped"])
        self._say()

    def finish(self, about: Mapping[str, Any]) -> None:
        """All parts are there: their moments merged, and the manifest with what the corpus was."""
        numbers = part_numbers(self.store)
        count = len(self._hashes)
        if odd := sorted(set(numbers) ^ set(range(count))):
            raise self._other(
                f"{self.store.root!r} has {len(numbers)} parts and the corpus now gives {count}, without"
                f" {record_name(odd[0])}"
            )
        moments = as_parquet(all_moments(self.store, numbers))
        self.store.write(MOMENTS, moments)
        found = {"limit": limit_of(self.corpus), "sha256": digest(self._hashes), "parts": count}
        corpus = about["corpus"] | found | _totals(self.store, numbers)
        files = {MOMENTS: checksum(moments)}
        self.store.write(MANIFEST, sealed({**about, "finished": True, "corpus": corpus, "files": files}))
        self.store.tidy()

    def _say(self) -> None:
        if self.progress is not None:
            self.progress(self.done, self.total)


def limit_of(corpus: object) -> int | None:
    """After how many sentences a corpus was told to stop."""
    limit = getattr(corpus, "limit", None)
    return limit if isinstance(limit, int) else None


def _limited(limit: int | None) -> str:
    return "no limit" if limit is None else f"the limit {limit}"


@contextlib.contextmanager
def journal(store: Store, engine: str) -> Iterator[None]:
    """Two lines per attempt: when it began and by which command, when and how it ended. A kill leaves the first."""
    _note(store, {"began": _now(), "engine": engine, "command": sys.argv})
    outcome = "finished"
    try:
        yield
    except BaseException as error:
        outcome = "stopped" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        raise
    finally:
        with contextlib.suppress(WhenceError):  # where the disk is full, the first error is the one to hear of
            _note(store, {"ended": _now(), "outcome": outcome})


def _note(store: Store, line: Mapping[str, Any]) -> None:
    written = json.dumps(line, ensure_ascii=False) + "\n"
    store.write(JOURNAL, (store.read(JOURNAL) or b"") + written.encode(errors="backslashreplace"))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _totals(store: Store, numbers: list[int]) -> dict[str, int]:
    totals = {"sentences": 0, "tokens": 0, "skipped": 0}
    for number in numbers:
        record = read_record(store, number, RECORD)
        assert record is not None
        totals["sentences"] += record["sentences"]
        totals["tokens"] += record["tokens"]
        totals["skipped"] += len(record["skipped"])
    return totals


def all_moments(store: Store, numbers: list[int]) -> pyarrow.Table:
    """The moments of several parts merged, read one after the other."""
    found = merged((_moments(store, number) for number in numbers), KEYS)
    return as_table({name: found[name].to_numpy() for name in found.columns})


def _moments(store: Store, number: int) -> pandas.DataFrame:
    """A part's moments with -1 for no head and nothing for no source, which merge as any other value."""
    name = f"moments/{number:05d}.parquet"
    data = store.read(name)
    if data is None:
        raise Damaged(f"{store.path(name)} is gone; start the same run again, and that part alone is measured again.")
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pandas().fillna({"head": -1, "source": NONE})
