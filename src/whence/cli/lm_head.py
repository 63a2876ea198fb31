"""whence lm-head: which step of the LM head makes the prediction, in a text or over a cloze corpus."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from whence._spreadsheet import write_csv
from whence.cli.help import OUTPUT
from whence.cli.shared import (
    File,
    Limit,
    Out,
    Reading,
    Several,
    Source,
    Switch,
    check_chart,
    check_file,
    reading,
    table,
    text_of,
)
from whence.errors import BadInput
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

    from whence.text.readers import Corpus

Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
SHOWN = (1, 2, 5, 10, 20, 50, 100)
TOP = 10
LAYERS = "a text in several layers (--layer all)"
# what --chart can draw, first what it draws when --kind does not say
KINDS = {
    "a text": ("grid", "sorted", "norm"),
    LAYERS: ("lens", "grid", "sorted", "norm"),
    "a corpus": ("hits", "grid", "histograms"),
    "a corpus with recipes": ("histograms", "hits"),
}
TEXT, ANSWER = ("masked_sentence", "text", "sentence"), ("answer", "label")


def lm_head(
    text: str | None = None,
    *,
    position: Several = None,
    layer: Annotated[str | None, Parameter(name="--layer")] = None,
    top: int | None = None,
    recipe: Names = None,
    truncate: Switch = False,
    read: Reading = None,
    limit: Limit = None,
    out: Out = None,
    chart: File = None,
    kind: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what each step of the LM head predicts for a text, or how often it is right over a corpus of clozes.

    Parameters
    ----------
    text
        A text with [MASK] (for a decoder: a text to continue), or a file of clozes: lama:squad.jsonl, or any .jsonl
        with masked texts and answers. Without one, or with -, a text is read from standard input.
    position
        Look at these tokens instead of the masks: --position 3 5. They count from the end when negative.
    layer
        Send the states of this layer through the head: a number, several with commas between them, or all.
    top
        How many of the best tokens to show. By default: 10.
    recipe
        Change each text of the corpus and show what that does: no-period, no-end, mask-word.
    truncate
        Cut a text that is longer than the model can read.
    read
        How to read the corpus, as options of its format: text=review,label=stars or header=no.
    limit
        Read only this many sentences of the corpus.
    out
        For a text, a file (.csv or .nc). For a corpus, a folder, in which a run that was stopped resumes.
    chart
        Draw a chart: .svg, .png, .pdf, .html or .json.
    kind
        Which chart. For a text: grid, sorted, norm or lens. For a corpus: hits, grid or histograms.
    """
    if chart is not None:
        check_chart(chart)
    elif kind is not None:
        raise BadInput(f"{kind!r} is a kind of chart; say where to draw it: --chart.")
    corpus = _corpus(text, limit, reading(read))
    of_text = {"--position": position, "--layer": layer, "--top": top, "--truncate": truncate or None}
    of_corpus = {"--recipe": recipe, "--read": read, "--limit": limit}
    if corpus is not None:
        _refuse(of_text, "one text", "a corpus was given")
        drawn = _kind(kind, "a corpus" if recipe is None else "a corpus with recipes")
        dataset = _over(corpus, recipe, out, source)
    else:
        _refuse(of_corpus, "a corpus", "a text was given; name a file of clozes")
        content, layers = text_of(text), _layer(layer)
        drawn = _kind(kind, LAYERS if layers == "all" or isinstance(layers, list) else "a text")
        if out is not None:
            check_file(out, (".csv", ".nc"))
        dataset = _text(content, position, layers, TOP if top is None else top, truncate, source)
        _write(dataset, out)
    if chart is not None:
        _draw(dataset, drawn, chart)


def _refuse(options: Mapping[str, object], of: str, reason: str) -> None:
    """Refuses options that would be ignored."""
    for name, value in options.items():
        if value is not None:
            raise BadInput(f"{name} is for {of}, and {reason}.")


def _kind(kind: str | None, of: str) -> str:
    """The kind of chart, checked before the work."""
    if kind is not None and kind not in KINDS[of]:
        others = " or ".join(repr(name) for name, kinds in KINDS.items() if kind in kinds)
        hint = f"; it is drawn of {others}" if others else ""
        raise BadInput(f"There is no chart {kind!r} of {of}; there are: {', '.join(KINDS[of])}{hint}.")
    return kind or KINDS[of][0]


def _corpus(name: str | None, limit: int | None, options: dict[str, Any]) -> "Corpus | None":
    """The corpus a file or a prefix names; None for a text."""
    from whence.text.readers import read
    from whence.text.readers.formats import formats

    if name is None or "\n" in name:
        return None
    if name.partition(":")[0] in formats() and ":" in name:
        return read(name, limit=limit, **options)
    if len(name) > 4096 or not Path(name).is_file():
        if name.endswith(".jsonl") and " " not in name:
            raise BadInput(f"There is no file {name!r}.")
        return None
    return _clozes(name, limit, options) if Path(name).suffix == ".jsonl" else read(name, limit=limit, **options)


def _clozes(path: str, limit: int | None, options: dict[str, Any]) -> "Corpus":
    """A .jsonl by what its first record has: LAMA's members, or a masked text and an answer."""
    import json

    from whence.text.readers import read

    with open(path, encoding="utf-8-sig") as file:
        try:
            members = json.loads(next((line for line in file if line.strip()), "{}"))
        except ValueError:
            members = {}
    if "obj_label" in members:
        return read(f"lama:{path}", limit=limit, **options)
    names = {"text": TEXT, "label": ANSWER}
    matched = {role: next((name for name in candidates if name in members), None) for role, candidates in names.items()}
    columns: dict[str, Any] = {role: name for role, name in matched.items() if name is not None}
    return read(path, limit=limit, **columns | options)


def _text(
    text: str,
    position: list[int] | None,
    layer: str | int | list[int] | None,
    top: int,
    truncate: bool,
    source: Source,
) -> "xarray.Dataset":
    from rich.console import Console

    from whence.plot.predictions import predictions
    from whence.plot.terminal import stages
    from whence.sentence.lm_head import lm_head as stages_of_text

    dataset = stages_of_text(source.load(), text, position, layer, top, truncate=truncate)
    console = Console(highlight=False)
    for prediction in predictions(dataset):
        for line in stages(prediction, console.width):
            console.print(line, soft_wrap=True)
        console.print()
    if dataset.sizes["layer"] > 1:
        _print_lens(dataset)
    else:
        _print_grid(dataset)
    return dataset


def _layer(value: str | None) -> str | int | list[int] | None:
    if value is None or value == "all":
        return value
    try:
        layers = [int(layer) for layer in value.split(",")]
    except ValueError:
        raise BadInput(f"A layer is a number, several with commas, or all, and {value!r} was given.") from None
    return layers if len(layers) > 1 else layers[0]


def _print_grid(dataset: "xarray.Dataset") -> None:
    for place in range(dataset.sizes["position"]):
        prediction = dataset.isel(layer=0, position=place)
        names = [str(name) for name in prediction.stage.values]
        print("Spearman correlation of the scores over the vocabulary")
        rows = [(name, *(f"{value:.2f}" for value in prediction.spearman.sel(stage=name).values)) for name in names]
        table(("", *names), rows, right=tuple(range(1, len(names) + 1)))


def _print_lens(dataset: "xarray.Dataset") -> None:
    """The best token of every layer and stage."""
    from whence.plot import legible

    names = [str(name) for name in dataset.stage.values]
    for place in range(dataset.sizes["position"]):
        prediction = dataset.isel(position=place)
        print("Best token by layer (rows) and step (columns)")
        rows = [
            (str(layer), *(legible(str(word)) for word in prediction.top.sel(layer=layer, best=1).values))
            for layer in prediction.layer.values[::-1]
        ]
        table(("layer", *names), rows)


def _over(corpus: "Corpus", recipe: list[str] | None, out: Path | None, source: Source) -> "xarray.Dataset":
    from whence.corpus.cloze import cloze
    from whence.corpus.perturb import perturb, recipes_of

    if recipe is not None:
        recipes_of(recipe)
    model = source.load()
    with progress() as report:
        if recipe is None:
            dataset = cloze(model, corpus, out=out, progress=report)
        else:
            dataset = perturb(model, corpus, recipe, out=out, progress=report)
    _print_counts(dataset)
    if not dataset.attrs["scored"]:
        raise BadInput("No answer could be looked for; a sentence needs a mask, and a label that is one token.")
    _print_hits(dataset) if recipe is None else _print_recipes(dataset)
    return dataset


def _print_counts(dataset: "xarray.Dataset") -> None:
    import json

    from whence.corpus.questions import FIRST, SCORED

    print(f"{dataset.attrs['scored']:,} of {dataset.attrs['sentences']:,} answers looked for")
    for outcome, count in json.loads(dataset.attrs["outcomes"]).items():
        if outcome == FIRST:
            print(f"  {count:,} of them at the first of several masks")
        elif outcome != SCORED:
            print(f"  {count:,} left out: {outcome}")


def _print_hits(dataset: "xarray.Dataset") -> None:
    last = dataset.spearman.isel(other_stage=-1).mean("sentence")
    rows = [
        (
            str(stage),
            *(f"{int(dataset.hits.sel(stage=stage, k=k)):,}" for k in SHOWN),
            f"{float(last.sel(stage=stage)):.2f}",
        )
        for stage in dataset.stage.values
    ]
    head = ("stage", *(f"@{k}" for k in SHOWN), "Spearman with the last")
    table(head, rows, right=tuple(range(1, len(head))))


def _print_recipes(dataset: "xarray.Dataset") -> None:
    stage = dataset.stage.values[-1]
    rows = [("as it is", f"{dataset.attrs['scored']:,}", *_counts(dataset.hits.sel(stage=stage)), "")]
    for recipe in dataset.recipe.values:
        changed = dataset.sel(recipe=recipe, stage=stage)
        rows.append(
            (
                str(recipe),
                f"{int(changed.applied):,}",
                *_counts(changed.hits_after),
                f"{float(changed.spearman.mean()):.2f}",
            )
        )
    head = ("recipe", "sentences", *(f"@{k}" for k in SHOWN), "Spearman with before")
    table(head, rows, right=tuple(range(1, len(head))))


def _counts(hits: "xarray.DataArray") -> list[str]:
    return [f"{int(hits.sel(k=k)):,}" for k in SHOWN]


def _write(dataset: "xarray.Dataset", out: Path | None) -> None:
    if out is None:
        return
    if out.suffix == ".nc":
        dataset.to_netcdf(out)
    else:
        names = ["top", "top_id", "top_score"]
        write_csv(dataset[names].to_dataframe()[names].reset_index(), out)
    print(f"Written: {out}")


def _draw(dataset: "xarray.Dataset", kind: str, chart: Path) -> None:
    from whence.plot import lm_head as charts
    from whence.plot.charts import write

    write(charts.drawn(dataset, kind), chart)
    print(f"Drawn: {chart}")
