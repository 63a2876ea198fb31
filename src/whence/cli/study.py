"""whence study: a study on any models and corpus, as a report."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from whence.cli.shared import Loading, Reading, Switch, going_on, reading
from whence.progress_bar import progress


def study(
    name: str,
    *,
    data: Annotated[tuple[str, ...], Parameter(name=["--data", "-d"], negative=(), show_default=False)] = (),
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    models: Annotated[tuple[str, ...], Parameter(name=["--models", "-m"], negative=(), show_default=False)] = (),
    quick: Switch = False,
    sample: int | None = None,
    text: str | None = None,
    frequency: str | None = None,
    read: Reading = None,
    loading: Loading = Loading(),  # noqa: B008  (frozen)
) -> None:
    """Repeat a published study on any models: measure, draw its figures, and check which findings hold.

    Parameters
    ----------
    name
        attention-identifiability, token-identifiability, attribution, mixing, correlates, lm-head, lens,
        referee or lost.
    data
        A corpus, as for `whence measure`. For several, repeat --data.
    out
        The folder for the report, its charts, tables and runs. A study that was stopped resumes with the same command.
    models
        A Hub id (a revision may follow after an @), a folder, a .gguf file, or a pattern in quotes. For several,
        repeat --models; they are loaded one at a time. By default: the built-in model.
    quick
        Take a small sample, for a first look in minutes.
    sample
        Take at most so many texts of each corpus, of as many of its documents as there are.
    text
        The sentence for the figures that show a single example.
    frequency
        A frequency list (rank, count, token id; or word and count), or wordfreq:LANGUAGE.
    read
        How to read the corpora, as options of their format: text=review or header=no.
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
        settings: dict[str, Any] = {"quick": quick, "sample": sample, "text": text, "frequency": frequency}
        page = studied(name, models or None, corpora, out, load=loading.load, progress=report, **settings)
    _summary(page)


def _summary(page: Path) -> None:
    import json

    findings = json.loads((page.parent / "findings.json").read_text(encoding="utf-8"))
    print(f"The sample: {findings['about']['sample']}.")
    for claim in findings["claims"]:
        print(f"{claim['verdict']:12}  {claim['says']} ({claim['statistic']})")
    for left in findings["left_out"]:
        print(f"left out      {left['what']}: {left['why']}.")
    print(f"\nThe report: {page.resolve()}")
