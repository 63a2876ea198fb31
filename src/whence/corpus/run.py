"""Measures a corpus: cut into parts, each measured once and written as tables, resumable at any time."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from whence._arguments import real, whole
from whence.corpus.engines import Cluster
from whence.corpus.engines import engine as engine_named
from whence.corpus.manifest import manifest
from whence.corpus.part_moments import MOMENTS, all_moments
from whence.corpus.plan import KIND, SHAPE, WHY, planned
from whence.corpus.predictions import Explainer
from whence.corpus.resume import Progress, resumed
from whence.corpus.run_tables import as_parquet
from whence.corpus.store import Store, at, read_manifest
from whence.corpus.worker import Worker
from whence.errors import BadInput
from whence.measures.options import Options
from whence.models.load import Model, loaded
from whence.models.several import several
from whence.text.sentence import sentences

WORKERS = 2**16  # more than any cluster has


def run(
    model: Model | list[Any] | tuple[Any, ...],
    corpus: Iterable[object],
    measures: str | Options | Iterable[str | Options] = ("mixing",),
    out: str | Path = "run",
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    gpus_per_worker: int | float | None = None,
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
) -> str:
    """Measures every sentence of a corpus into tables in a folder.

    Started again with the same parameters, a run that was stopped resumes, and damaged parts are measured again.

    Args:
        model: a loaded model; or a list of models and of names, as `whence.study` takes them, each with a run in a
            folder of its own, loaded one at a time, for `whence.open_runs`
        corpus: any iterable of texts, pairs or sentences, or of files where the model reads pictures or sounds;
            `whence.read` gives one. An encoder-decoder takes pairs of a source and its answer
        measures: names or options, as `whence.measure` takes them; or "why" alone, for what clozes and answers rest on
        out: the folder of the run
        engine: "local", or "ray"
        address: of a Ray cluster; one on this machine when None
        workers: how many Ray workers; as many as the cluster has room for when None
        gpus_per_worker: GPUs of each Ray worker: 0.5 for two workers on one, 4 for a model over four (a device_map)
        threads: of the process or of each worker; the last digits depend on it
        layers: only these; 1 is the first. Of "why", those from which parts are counted, 0 unless named
        maps: keep whole maps too; they are large
        neighbours: how far apart the words of the table of pairs may be
        by: what moments are grouped by: class, upos, xpos, deprel, ner
        too_long: "refuse", "truncate" or "skip" sentences longer than the model takes
        part_size: sentences per part, which is what is lost at most when a run is stopped
        batch_tokens: tokens that are measured together
        total: how many sentences there are, for the bar; the corpus's length when None
        progress: progress(done, total) counts sentences, and may end the run by raising

    Returns:
        The folder, for `whence.open_run`.

    Examples:
        >>> folder = whence.run(whence.load(), ["Paris is a city.", "A cat sat."], ["mixing"], out="run")
        >>> whence.open_run(folder).tokens.groupby("layer")["mixing_attn_w"].mean().size
        6
    """
    if isinstance(model, list | tuple):
        options: dict[str, Any] = {"engine": engine, "address": address, "workers": workers, "threads": threads}
        options["gpus_per_worker"] = gpus_per_worker
        options |= {"layers": layers, "maps": maps, "neighbours": neighbours, "by": by, "too_long": too_long}
        options |= {"part_size": part_size, "batch_tokens": batch_tokens, "total": total, "progress": progress}
        return _each(model, corpus, measures, out, options)
    model = loaded(model, two_stacks=True)
    sentences(corpus)
    measure_parts = engine_named(engine)
    store = at(out)
    workers = None if workers is None else whole("workers", workers, 1, WORKERS)
    gpus = None if gpus_per_worker is None else _gpus(gpus_per_worker)
    total = None if total is None else whole("total", total, 0)
    parameters = {"layers": layers, "maps": maps, "neighbours": neighbours, "by": by, "too_long": too_long}
    parameters |= {"part_size": part_size, "batch_tokens": batch_tokens}
    with store.locked():
        if threads is None:
            threads = _threads_before(store) or (1 if engine == "ray" else torch.get_num_threads())
        plan = planned(model, measures, threads=threads, **parameters)
        requested = manifest(KIND, model, asdict(plan), corpus)
        with resumed(store, requested, SHAPE, corpus, progress, total, engine) as work:
            explains = WHY in plan.measures
            worker = (Explainer if explains else Worker)(model, plan, work.store)
            done = measure_parts(worker, work.pending(), Cluster(address, workers, gpus, requested["model"]))
            with closing(done) as records:  # so that the engine releases its workers at once
                for record in records:
                    work.count(record)
            work.finish(lambda numbers: {} if explains else {MOMENTS: as_parquet(all_moments(store, numbers))})
    return str(out)


def _each(
    models: list[Any] | tuple[Any, ...],
    corpus: Iterable[object],
    measures: Any,
    out: str | Path,
    options: dict[str, Any],
) -> str:
    """A run for each model, in a folder of its name; the models are loaded one at a time."""
    texts = list(corpus) if isinstance(sentences(corpus), Iterator) else corpus  # it is read once for each model
    for named in several(models):
        run(named.load(), texts, measures, f"{str(out).rstrip('/')}/{named.folder}", **options)
    return str(out)


def _gpus(count: int | float) -> float:
    """As Ray takes them: a part of one, or a whole number."""
    number = real(count)
    if not 0 <= number <= 1 and not (number > 1 and number.is_integer()):
        raise BadInput(f"gpus_per_worker is a part of 1 or a whole number, and {count!r:.40} was given.")
    return number


def _threads_before(store: Store) -> int | None:
    """How many threads an unfinished run was started with; the last digits depend on it."""
    before = read_manifest(store, (KIND,), SHAPE)
    return None if before is None else before["plan"]["threads"]
