"""whence explain: one text, in the terminal and as a page."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whence.cli.shared import Source, check_file, text_of
from whence.progress_bar import progress

# what is measured when the model gives what they need
EXPLAINED = ("mixing", "attention", "effective", "null", "norms")
LARGE = 20  # MB; browsers take seconds to open more


def explain(
    text: str | None = None,
    pair: str | None = None,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("whence.html"),
    truncate: Annotated[bool, Parameter(negative=())] = False,
    contribution: Annotated[bool, Parameter(negative=())] = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show where the information in a text went: a picture in the terminal and a page that opens offline.

    Parameters
    ----------
    text
        The text; without one, or with -, it is read from standard input.
    pair
        A second text that the model reads together with the first.
    out
        Where to write the page.
    truncate
        Cut off what is longer than the model takes.
    contribution
        Show as well how much each input token has to do with each hidden token; takes seconds to minutes.
    """
    from rich.console import Console

    from whence.measures.registry import given_by
    from whence.page.report import report
    from whence.plot.terminal import picture
    from whence.sentence.lm_head import predictions
    from whence.sentence.measure import measure
    from whence.text.sentence import sentence

    parsed = sentence(text_of(text) if pair is None else (text_of(text), pair))
    check_file(out, (".html", ".htm"))
    model = source.load()
    contribution |= "attention throughout" not in model.gives  # else there would be little to see
    names = given_by(model.gives, (*EXPLAINED, "contribution") if contribution else EXPLAINED)
    with progress() as report_progress:
        dataset = measure(model, parsed, names, truncate=truncate, progress=report_progress)
    dataset = dataset.assign(predictions(model, parsed, truncate=truncate))
    page = report(dataset, out)
    console = Console(highlight=False)
    console.print(picture(dataset, console.width, console.color_system is not None))
    console.print(f"\nThe page: {page.resolve()}", soft_wrap=True, markup=False)
    size = page.stat().st_size / 1e6
    if size > LARGE:
        print(_large(size, dataset.sizes["target"]), file=sys.stderr)


def _large(size: float, tokens: int) -> str:
    why = f"every head has a map of {tokens} times {tokens} tokens"
    return f"whence: the page is {size:.0f} MB because {why}; a shorter text makes a smaller one."
