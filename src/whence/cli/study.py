"""whence study: a published study on any model and corpus, as a report."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whence.cli.shared import Reading, Source, going_on, reading
from whence.progress_bar import progress


def study(
    name: str,
    *,
    data: Annotated[tuple[str, ...], Parameter(name=["--data", "-d"], negative=(), show_default=False)] = (),
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    read: Reading = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    other: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    text: str | None = None,
    frequency: str | None = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Repeat a published study: measure, draw its figures, and hold its findings against this model.

    Parameters
    ----------
    name
        attention-identifiability, token-identifiability, attribution, mixing, correlates or lm-head.
    data
        A corpus, as for `whence measure`; several may be given, each with a --data of its own.
    out
        The folder of the report, its charts, tables and runs. The same command resumes where it was stopped.
    read
        How to read the corpora: options of their format, as in text=review or header=no.
    quick
        A small sample, in minutes.
    other
        A second model to set beside the first; several may be given, each with an --other of its own.
    text
        The sentence that single examples are drawn from.
    frequency
        A frequency list (rank, count, token id; or word and count), or wordfreq:LANGUAGE.
    """
    from dataclasses import replace

    from whence.errors import BadInput
    from whence.studies import find
    from whence.studies import study as studied
    from whence.text import readers

    if not data:
        raise BadInput(f"The study {name!r} needs data: {find(name).data}.")
    find(name)
    corpora = [readers.read(each, **reading(read)) for each in data]
    model = source.load()
    beside = [replace(source, model=each).load() for each in other]
    with going_on(out), progress() as report:
        page = studied(
            name, model, corpora, out, quick=quick, other=beside, text=text, frequency=frequency, progress=report
        )
    _summary(page)


def _summary(page: Path) -> None:
    import json

    findings = json.loads((page.parent / "findings.json").read_text(encoding="utf-8"))
    words = {True: "confirmed    ", False: "not confirmed", None: "not decided  "}
    for claim in findings["claims"]:
        print(f"{words[claim['confirmed']]}  {claim['says']} ({claim['statistic']})")
    for left in findings["left_out"]:
        print(f"left out       {left['what']}: {left['why']}.")
    print(f"\nThe report: {page.resolve()}")
