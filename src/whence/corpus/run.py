"""A corpus, measured: cut into parts that are measured once, whatever happens, and written as tables."""

from collections.abc import Iterable, Sized
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from whence._arguments import whole
from whence.corpus.engines import engine as engine_named
from whence.corpus.plan import KIND, RECORD, SHAPE, TOO_LONG, differs, identity, manifest, planned
from whence.corpus.resume import Course, Progress, journal, limit_of
from whence.corpus.store import MANIFEST, OtherRun, Store, at, part_numbers, read_manifest, read_record
from whence.corpus.worker import Worker
from whence.errors import BadInput
from whence.models.load import Model, loaded
from whence.sealed import Damaged, sealed
from whence.text.sentence import sentences

WORKERS = 2**16  # more than any cluster has


def run(
    model: Model,
    corpus: Iterable[object],
    measures: str | Iterable[str] = ("mixing",),
    out: str | Path = "run",
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    layers: int | Iterable[int] | None = None,
    maps: bool = False,
    neighbours: int = 1,
    by: Iterable[str] = ("class", "upos"),
    too_long: str = "refuse",
    part_size: int = 256,
    batch_tokens: int = 2048,
    total: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> str:
    """Measures every sentence of a corpus into tables in the folder `out`; gives back its name for `whence.open_run`.

    The corpus is any iterable of texts, pairs or sentences. Started again with the same parameters, a run that was
    stopped goes on where it was, and damaged parts are measured again. `progress(done, of)` counts sentences; `of` is
    `total`, or the corpus's length, or None. Other keywords are options of the measures.
    """
    loaded(model)
    sentences(corpus)
    work = engine_named(engine)
    store = at(out)
    workers = None if workers is None else whole("workers", workers, 1, WORKERS)
    total = None if total is None else whole("total", total, 0)
    asked = {"layers": layers, "maps": maps, "neighbours": neighbours, "by": by, "too_long": too_long}
    asked |= {"part_size": part_size, "batch_tokens": batch_tokens}
    with store.locked():
        if threads is None:
            threads = _threads_before(store) or (1 if engine == "ray" else torch.get_num_threads())
        plan = planned(model, measures, options, threads=threads, **asked)
        named = {"name": str(getattr(corpus, "name", type(corpus).__name__)), "limit": limit_of(corpus)}
        wanted = manifest(model, plan, named)
        store = replace(store, run=identity(wanted))
        about = _begun(store, wanted)
        with journal(store, engine):
            length = _length(corpus) if total is None else total
            course = Course(store, plan, corpus, length, progress, about["corpus"])
            found = work(Worker(model, plan, store), course.pending(), address=address, workers=workers)
            with closing(found) as records:  # an engine lets go of its workers at once
                for record in records:
                    course.count(record)
            course.finish(about)
    return str(out)


def _length(corpus: Iterable[object]) -> int | None:
    return len(corpus) if isinstance(corpus, Sized) else None


def _threads_before(store: Store) -> int | None:
    """How many threads an unfinished run was started with; the last digits depend on it."""
    before = read_manifest(store, (KIND,), SHAPE)
    return None if before is None else before["plan"]["threads"]


def _begun(store: Store, wanted: dict[str, Any]) -> dict[str, Any]:
    """The manifest, written if the folder is new or has lost it, compared if a run was begun there."""
    found = read_manifest(store, (KIND,), SHAPE)
    if found is None:
        _check_parts(store, wanted["plan"]["too_long"])
        store.write(MANIFEST, sealed(wanted))
        return wanted
    if (why := differs(found, wanted)) is not None:
        raise BadInput(f"{store.root!r} holds another run: {why}; name another folder, or ask for the same.")
    return found | {"plan": wanted["plan"]}


def _check_parts(store: Store, too_long: str) -> None:
    """Parts without a manifest are this run's, or it does not go on here; damaged ones are measured again anyway."""
    for number in part_numbers(store):
        with suppress(Damaged):
            try:
                record = read_record(store, number, RECORD)
                same = record is None or record["too_long"] in (too_long, TOO_LONG[0])
            except OtherRun:
                same = False
            if not same:
                raise BadInput(f"{store.root!r} has parts of another run, and no {MANIFEST}; name another folder.")
