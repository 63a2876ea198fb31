"""whence measure: a corpus into tables."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from whence.cli.help import CORPUS, WORK
from whence.cli.shared import (
    Address,
    Count,
    Engine,
    Limit,
    Reading,
    Several,
    Source,
    Switch,
    asked_for,
    going_on,
    reading,
)
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
    maps: Switch = False,
    neighbours: int = 1,
    by: str = "class,upos",
    too_long: Literal["refuse", "truncate", "skip"] = "refuse",
    read: Reading = None,
    skip_bad: Annotated[Switch, Parameter(group=CORPUS)] = False,
    limit: Limit = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Count = None,
    gpus_per_worker: Annotated[float | None, Parameter(group=WORK)] = None,
    threads: Count = None,
    part_size: Annotated[int, Parameter(group=WORK)] = 256,
    batch_tokens: Annotated[int, Parameter(group=WORK)] = 2048,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Measure every sentence of a corpus and write tables. A run that was stopped resumes with the same command.

    Parameters
    ----------
    corpus
        A file (.txt .tsv .csv .jsonl .conllu, also compressed), mrpc:FILE, hf:DATASET, 'photos/*.jpg' and so on; - is
        standard input.
    out
        The folder of the run, or an address such as s3://bucket/run.
    measures
        What to measure, as names with commas between them; `whence measures` lists them. Or "why": what the answers
        of clozes and prompts rest on.
    layers
        Keep only these layers: --layers 1 6. By default: all, and for "why" layer 0, the embeddings.
    options
        Options of the measures: norm=spectral,error=0.05. The page of each measure lists its own.
    maps
        Keep whole maps as well. They are large.
    neighbours
        How far apart two words in the table of neighbours may be.
    by
        What the tables group tokens by: class, upos, xpos, deprel, ner.
    too_long
        What to do with a sentence that is longer than the model can read.
    read
        How to read the corpus, as options of its format: text=review,label=stars or header=no.
    skip_bad
        Count malformed records and leave them out, instead of stopping at the first.
    limit
        Read only this many sentences.
    engine
        Whether to work in this process or on a Ray cluster.
    address
        The address of the Ray cluster. Without one, Ray is started on this machine.
    workers
        How many Ray workers. By default: as many as there is room for.
    gpus_per_worker
        How many GPUs each Ray worker gets: 0.5 puts two workers on one, 4 spreads a model over four (with
        --device-map).
    threads
        How many threads this process, or each worker, uses. The last digits of the numbers depend on it.
    part_size
        How many sentences make a part. A run that is stopped loses at most one part.
    batch_tokens
        How many tokens are measured together.
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
