"""whence study: a study on any models and corpus, as a report."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from whence.cli.shared import Loading, Reading, going_on, reading
from whence.progress_bar import progress


def study(
    name: str,
    *,
    data: Annotated[tuple[str, ...], Parameter(name=["--data", "-d"], negative=(), show_default=False)] = (),
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    models: Annotated[tuple[str, ...], Parameter(name=["--models", "-m"], negative=(), show_default=False)] = (),
    read: Reading = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    text: str | None = None,
    frequency: str | None = None,
    loading: Loading = Loading(),  # noqa: B008  (frozen)
) -> None:
    """Repeat a study: measure, draw its figures, and hold its findings against one model or many.

    whence study mixing --data text:wikipedia.txt --out mixing --models 'ckpt/*' --models org/model@step1000

    Parameters
    ----------
    name
        attention-identifiability, token-identifiability, attribution, mixing, correlates, lm-head, lens,
        referee or lost.
    data
        A corpus, as for `whence measure`; several may be given, each with a --data of its own.
    out
        The folder of the report, its charts, tables and runs. The same command resumes where it was stopped.
    models
        Hub ids, ids with a revision behind an @, folders, .gguf files or globs in quotes, each with a --models of its
        own; the built-in model when not given. They are loaded one at a time.
    read
        How to read the corpora: options of their format, as in text=review or header=no.
    quick
        A small sample, in minutes.
    text
        The sentence that single examples are drawn from.
    frequency
        A frequency list (rank, count, token id; or word and count), or wordfreq:LANGUAGE.
    """
    from whence.errors import BadInput
    from whence.studies import find
    from whence.studies import study as studied
    from whence.text import readers

    if not data:
        raise BadInput(f"The study {name!r} needs data: {find(name).data}.")
    find(name)
    corpora = [readers.read(corpus, **reading(read)) for corpus in data]
    with going_on(out), progress() as report:
        settings: dict[str, Any] = {"quick": quick, "text": text, "frequency": frequency, "progress": report}
        page = studied(name, models or None, corpora, out, load=loading.load, **settings)
    _summary(page)


def _summary(page: Path) -> None:
    import json

    findings = json.loads((page.parent / "findings.json").read_text(encoding="utf-8"))
    if findings["about"]["quick"]:
        print("A quick sample; without --quick it is the paper's.")
    for claim in findings["claims"]:
        print(f"{claim['verdict']:12}  {claim['says']} ({claim['statistic']})")
    for left in findings["left_out"]:
        print(f"left out      {left['what']}: {left['why']}.")
    print(f"\nThe report: {page.resolve()}")
