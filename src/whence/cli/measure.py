"""whence measure: a corpus into tables."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from whence.cli.shared import Reading, Several, Source, asked_for, going_on, reading
from whence.errors import BadInput

if TYPE_CHECKING:
    from whence.measures.options import Options
    from whence.text.readers import Corpus

SMALL = 16_000_000  # bytes of a file that is counted before it is measured


def measure(
    corpus: str,
    *,
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    measures: str = "mixing",
    layers: Several = None,
    options: str | None = None,
    maps: Annotated[bool, Parameter(negative=())] = False,
    neighbours: int = 1,
    by: str = "class,upos",
    too_long: Literal["refuse", "truncate", "skip"] = "refuse",
    read: Reading = None,
    skip_bad: Annotated[bool, Parameter(negative=())] = False,
    limit: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    threads: int | None = None,
    part_size: int = 256,
    batch_tokens: int = 2048,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Measure every sentence of a corpus into tables. The same command resumes a run that was stopped.

    Parameters
    ----------
    corpus
        A file (.txt .tsv .csv .jsonl .conllu, also compressed), mrpc:FILE, hf:DATASET and so on; - is standard input.
    out
        The folder of the run, or an address such as s3://bucket/run.
    measures
        Names with commas between; `whence measures` lists them. Or why: what clozes and answers rest on.
    layers
        Keep these layers only: --layers 1 6; all when not given, and of why 0, the embeddings' output.
    options
        Options of the measures, as in norm=spectral,error=0.05; the page of a measure lists its own.
    maps
        Keep whole maps too. They are large.
    neighbours
        How far apart the words of the table of neighbours may be.
    by
        What the moments are grouped by: class, upos, xpos, deprel, ner.
    too_long
        What to do with sentences that are longer than the model takes.
    read
        How to read the corpus: options of its format, as in text=review,label=stars or header=no.
    skip_bad
        Leave out and count malformed records instead of stopping at the first.
    limit
        Stop after this many sentences.
    engine
        Where the work is done: in this process, or on a Ray cluster.
    address
        The address of the Ray cluster; without one, Ray is started here.
    workers
        How many Ray workers; by default as many as there is room for.
    gpus_per_worker
        GPUs of each Ray worker: 0.5 for two workers on one, 4 for one model over four (with --device-map).
    threads
        Threads of the process or of each worker. The last digits of the numbers depend on it.
    part_size
        Sentences per part: what is lost at most when a run is stopped.
    batch_tokens
        Tokens that are measured together.
    """
    from whence.corpus.run import run
    from whence.text import readers

    requested = _requested(_listed(measures), options)
    sentences = readers.read(corpus, skip_bad=skip_bad, limit=limit, **reading(read))
    model = source.load()
    with going_on(out), _progress() as report:
        run(
            model,
            sentences,
            requested,
            out,
            engine=engine,
            address=address,
            workers=workers,
            gpus_per_worker=gpus_per_worker,
            threads=threads,
            layers=layers,
            maps=maps,
            neighbours=neighbours,
            by=_listed(by),
            too_long=too_long,
            part_size=part_size,
            batch_tokens=batch_tokens,
            total=_count(sentences) if sys.stderr.isatty() else None,
            progress=report,
        )
    _summary(out, sentences)


def _requested(names: list[str], options: str | None) -> "list[str | Options]":
    """Measures with their options; what is about predictions has none."""
    from whence.corpus.plan import PREDICTIONS

    if not PREDICTIONS.keys() & set(names):
        return asked_for(names, options)
    if options is not None:
        raise BadInput(f"{names[0]!r} takes no --options; leave them out.")
    return [*names]


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _count(corpus: "Corpus") -> int | None:
    """How many sentences there are, for the time left, where counting takes a moment."""
    paths = [Path(file) for file in corpus.files]
    small = all(path.is_file() for path in paths) and sum(path.stat().st_size for path in paths) <= SMALL
    return sum(1 for _ in corpus) if small else None


def _summary(out: str, sentences: "Corpus") -> None:
    from whence.corpus.open_run import open_run

    corpus = open_run(out).manifest["corpus"]
    if not corpus["sentences"]:
        raise BadInput(f"Nothing was measured: {sentences.name} has no sentences.")
    plural = "" if corpus["sentences"] == 1 else "s"
    print(f"{corpus['sentences']:,} sentence{plural}, {corpus['tokens']:,} tokens in {out}.")
    if corpus["skipped"]:
        print(f"Too long for the model: {corpus['skipped']:,} left out.")
    if sentences.skipped.count:
        print(f"Of the corpus: {sentences.skipped}.")


@contextmanager
def _progress() -> Iterator[Callable[[int, int | None], None]]:
    """Sentences done, how many per second, and the time left where the corpus knows its length."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sentences, {task.fields[rate]} a second,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", total=None, rate="…")

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, rate=f"{bar.tasks[0].speed or 0:.0f}")

        yield report
