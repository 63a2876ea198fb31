"""whence explain: one text, in the terminal and as a page."""

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from whence.cli.help import OUTPUT
from whence.cli.shared import (
    File,
    Opened,
    Several,
    Source,
    Switch,
    check_chart,
    check_file,
    check_prefix,
    text_of,
)
from whence.errors import BadInput, WhenceError
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

    from whence.models.load import Model

# what is measured when the model gives what they need
EXPLAINED = ("mixing", "attention", "effective", "null", "norms")
ANSWERED = 40  # tokens of an answer that a model gives itself, at most
LARGE = 20  # MB; browsers take seconds to open more
MOST, SHOWN = 2_000_000_000, 400_000_000  # bytes that are taken unasked, and those of results, which the page holds


def explain(
    text: str | None = None,
    *,
    pair: str | None = None,
    prefix: str | None = None,
    measures: str | None = None,
    layers: Several = None,
    targets: Several = None,
    contribution: Switch = False,
    truncate: Switch = False,
    out: Annotated[Path, Parameter(name=["--out", "-o"], group=OUTPUT)] = Path("whence.html"),
    chart: File = None,
    open_page: Opened = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what a model predicts and where each token's information comes from.

    The picture appears in the terminal and in a page that works offline. For an encoder-decoder it has both stacks.

    Parameters
    ----------
    text
        The text. Without one, or with -, it is read from standard input. A model that reads pictures or sounds takes
        the file of one.
    pair
        A second text, which the model reads together with the first.
    prefix
        How the answer of an encoder-decoder begins. Without it, the model writes the answer itself.
    measures
        What to measure, as names with commas between them; `whence measures` lists them. By default: whatever takes
        one forward pass and fits into 2 GB.
    layers
        Measure only these layers: --layers 1 6. By default: all.
    targets
        Measure only the rows of these tokens: --targets 3 5. They count from 0, or from the end when negative.
    contribution
        Also show how much each input token contributes to each hidden token. This takes seconds to minutes.
    truncate
        Cut a text that is longer than the model can read.
    out
        Where to write the page.
    chart
        Draw the terminal's picture into a file: .svg, .png, .pdf, .html or .json.
    open_page
        Open the page in the browser.
    """
    from whence.models.given import encoded_of, facing
    from whence.models.inputs import TEXT
    from whence.page.report import report
    from whence.sentence.lm_head import predictions
    from whence.sentence.measure import of_text as measure
    from whence.text.sentence import sentence

    item: Any = text_of(text) if pair is None else (text_of(text), pair)
    sentence(item)
    check_file(out, (".html", ".htm"))
    if chart is not None:
        check_chart(chart)
    model = facing(source.load(), item)
    check_prefix(model, prefix)
    names = _names(model, measures, contribution)
    if model.encoder is not None:
        tree, reasons = _of_both(model, item, prefix, names, layers, targets, truncate)
        _finish(tree, report(tree, out, reasons), chart, open_page)
        return
    if measures is None:
        names = _fitting(model, names, len(encoded_of(model, item, truncate).tokens), layers, targets)
    with progress() as report_progress:
        dataset = measure(
            model, item, names, layers=layers, targets=targets, truncate=truncate, progress=report_progress
        )
    if model.reads == TEXT:
        dataset = dataset.assign(predictions(model, item, truncate=truncate))
    _finish(dataset, report(dataset, out, _reasons(model, item, dataset, truncate)), chart, open_page)


def _finish(dataset: "xarray.Dataset | xarray.DataTree", page: Path, chart: Path | None, open_page: bool) -> None:
    _show(dataset, page, chart)
    if open_page:
        webbrowser.open(page.resolve().as_uri())


def _of_both(
    model: "Model",
    item: Any,
    prefix: str | None,
    names: list[str],
    layers: Several,
    targets: Several,
    truncate: bool,
) -> "tuple[xarray.DataTree, xarray.Dataset]":
    """An encoder-decoder's measures, and why it says what comes next, or each token of its own answer."""
    from whence.models.encode import limit
    from whence.models.inputs import TEXT
    from whence.sentence.two_stacks import measure_both
    from whence.sentence.why import why

    assert model.encoder is not None
    answers = prefix is None and model.encoder.reads == TEXT
    longest = limit(model.anatomy, model.tokenizer) or 2 * ANSWERED
    options: dict[str, Any] = {"generate": min(ANSWERED, longest // 2)} if answers else {}
    options |= {"spans": "word"} if model.encoder.reads == TEXT else {}
    with progress() as report_progress:
        reasons = why(model, (item, prefix or ""), measures=["share"], truncate=truncate, **options)
        ids = reasons["source_token_id"].values[reasons["source_stack"].values == "decoder"].tolist()
        tree = measure_both(model, (item, ids), names, layers, targets, None, truncate, None, report_progress)
    return tree, reasons


def _reasons(model: "Model", item: Any, dataset: "xarray.Dataset", truncate: bool) -> "xarray.Dataset | None":
    """Why each prediction is made, where there is one and the model tells."""
    from whence.models.inputs import TEXT
    from whence.models.verify import CLASSES
    from whence.sentence.rather import measures_given, rather
    from whence.sentence.why import why

    if model.reads != TEXT:
        return why(model, item) if CLASSES in model.gives else None
    if "top" not in dataset or not measures_given(model):
        return None
    try:
        return rather(model, item, dataset["position"].values.tolist(), truncate)
    except WhenceError:  # the page begins with where tokens came from
        return None


def _names(model: "Model", measures: str | None, contribution: bool) -> list[str]:
    """What is measured: what was asked for, or all that a forward pass gives."""
    from whence.measures.registry import given_by

    if measures is not None:
        names = [name.strip() for name in measures.split(",") if name.strip()]
        if not names:
            raise BadInput("No measure was asked for; `whence measures` lists them.")
        return [*names, *(["contribution"] if contribution and "contribution" not in names else [])]
    contribution |= "attention throughout" not in model.gives  # else there would be little to see
    more = (*["decomposition"] * (model.encoder is not None), *["contribution"] * contribution)
    return given_by(model.gives, (*EXPLAINED, *more))


def _fitting(model: "Model", names: list[str], tokens: int, layers: Several, targets: Several) -> list[str]:
    """As many of them, from the first, as fit into what is taken unasked; says what is left out and how to have it."""
    from whence.models.memory import gigabytes
    from whence.sentence.measure import taken

    kept: list[str] = names[:1]
    for name in names[1:]:
        total, results = taken(model, [*kept, name], tokens, layers, targets)
        if total <= MOST and results <= SHOWN:
            kept.append(name)
    if left := [name for name in names if name not in kept]:
        size = gigabytes(taken(model, names, tokens, layers, targets)[0])
        rows = "--targets -1 shows the last token's" if targets is None else "ask for fewer --targets or --layers"
        print(
            f"whence: {', '.join(left)} of {tokens:,} tokens would take {size} and were left out; {rows}.",
            file=sys.stderr,
        )
    return kept


def _show(dataset: "xarray.Dataset | xarray.DataTree", page: Path, chart: Path | None) -> None:
    from rich.console import Console

    from whence.plot.stacks import is_tree, joined
    from whence.plot.terminal import picture
    from whence.plot.terminal_pair import both_stacks

    console = Console(highlight=False)
    look = console.width, console.color_system is not None
    console.print(both_stacks(dataset, *look) if is_tree(dataset) else picture(cast("xarray.Dataset", dataset), *look))
    flat = joined(dataset) if is_tree(dataset) else cast("xarray.Dataset", dataset)
    if chart is not None:
        from whence.plot.charts import overview, write

        write(overview(flat), chart)
        console.print(f"\nThe chart: {chart.resolve()}", soft_wrap=True, markup=False)
    console.print(f"\nThe page: {page.resolve()}", soft_wrap=True, markup=False)
    size = page.stat().st_size / 1e6
    if size > LARGE:
        print(_large(size, flat.sizes["target"]), file=sys.stderr)


def _large(size: float, tokens: int) -> str:
    why = f"every head has a map of {tokens} times {tokens} tokens"
    return f"whence: the page is {size:.0f} MB because {why}; a shorter text makes a smaller one."
