"""whence report: what a run says at a glance."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(run: str, *, out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None) -> None:
    """Write the report of a run: charts and tables by layer, kind of token, part of speech and pair of words.

    Parameters
    ----------
    run
        The folder that `whence measure` wrote.
    out
        The folder for the report. By default: `report` inside the run.
    """
    from whence.corpus.open_run import open_run
    from whence.studies.overview import overview

    page = overview(open_run(run), Path(run, "report") if out is None else out)
    print(f"The report: {page.resolve()}")
