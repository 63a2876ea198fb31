"""whence lm-head: which step of the LM head makes the prediction, in a text or over a cloze corpus."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from whence._spreadsheet import write_csv
from whence.cli.shared import Reading, Several, Source, check_chart, check_file, reading, table, text_of
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
    read: Reading = None,
    limit: int | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    chart: Path | None = None,
    kind: str | None = None,
    truncate: Annotated[bool, Parameter(negative=())] = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what every step of the LM head predicts, or how often over a corpus of clozes.

    Parameters
    ----------
    text
        A text with [MASK] (for a decoder: one that goes on), or a file of clozes such as lama:squad.jsonl or any .jsonl
        with a masked text and an answer; without one, or with -, a text is read from standard input.
    position
        Look at these tokens instead of the masks: --position 3 5; from the end when negative.
    layer
        Send this layer's states through the head: a number, several with commas, or all.
    top
        How many of the best tokens to show; 10 unless given.
    recipe
        Over a corpus, what a change does: no-period, no-end, mask-word.
    read
        How to read the corpus: options of its format, as in text=review,label=stars or header=no.
    limit
        Read the first sentences of a corpus only.
    out
        For a text a file, .csv or .nc; for a corpus a folder, in which a run that was stopped goes on.
    chart
        Where to draw: .svg, .png, .pdf, .html or .json.
    kind
        What to draw: grid, sorted, norm or lens of a text; hits, grid or histograms of a corpus.
    truncate
        Cut off what is longer than the model takes.
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
        found = _over(corpus, recipe, out, source)
    else:
        _refuse(of_corpus, "a corpus", "a text was given; name a file of clozes")
        given, asked = text_of(text), _layer(layer)
        drawn = _kind(kind, LAYERS if asked == "all" or isinstance(asked, list) else "a text")
        if out is not None:
            check_file(out, (".csv", ".nc"))
        found = _text(given, position, asked, TOP if top is None else top, truncate, source)
        _write(found, out)
    if chart is not None:
        _draw(found, drawn, chart)


def _refuse(options: Mapping[str, object], of: str, given: str) -> None:
    """Before an option is left aside in silence."""
    for name, value in options.items():
        if value is not None:
            raise BadInput(f"{name} is for {of}, and {given}.")


def _kind(asked: str | None, of: str) -> str:
    """Before the work, not after it."""
    if asked is not None and asked not in KINDS[of]:
        others = " or ".join(repr(name) for name, kinds in KINDS.items() if asked in kinds)
        hint = f"; it is drawn of {others}" if others else ""
        raise BadInput(f"There is no chart {asked!r} of {of}; there are: {', '.join(KINDS[of])}{hint}.")
    return asked or KINDS[of][0]


def _corpus(given: str | None, limit: int | None, options: dict[str, Any]) -> "Corpus | None":
    """The corpus a file or a prefix names; None for a text."""
    from whence.text.readers import read
    from whence.text.readers.formats import formats

    if given is None or "\n" in given:
        return None
    if given.partition(":")[0] in formats() and ":" in given:
        return read(given, limit=limit, **options)
    if len(given) > 4096 or not Path(given).is_file():
        if given.endswith(".jsonl") and " " not in given:
            raise BadInput(f"There is no file {given!r}.")
        return None
    return _clozes(given, limit, options) if Path(given).suffix == ".jsonl" else read(given, limit=limit, **options)


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
    found = {role: next((name for name in wanted if name in members), None) for role, wanted in names.items()}
    columns: dict[str, Any] = {role: name for role, name in found.items() if name is not None}
    return read(path, limit=limit, **columns | options)


def _text(
    given: str,
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

    found = stages_of_text(source.load(), given, position, layer, top, truncate=truncate)
    console = Console(highlight=False)
    for prediction in predictions(found):
        for line in stages(prediction, console.width):
            console.print(line, soft_wrap=True)
        console.print()
    if found.sizes["layer"] > 1:
        _print_lens(found)
    else:
        _print_grid(found)
    return found


def _layer(given: str | None) -> str | int | list[int] | None:
    if given is None or given == "all":
        return given
    try:
        layers = [int(layer) for layer in given.split(",")]
    except ValueError:
        raise BadInput(f"A layer is a number, several with commas, or all, and {given!r} was given.") from None
    return layers if len(layers) > 1 else layers[0]


def _print_grid(found: "xarray.Dataset") -> None:
    for place in range(found.sizes["position"]):
        one = found.isel(layer=0, position=place)
        names = [str(name) for name in one.stage.values]
        print("Spearman correlation of the scores over the vocabulary")
        rows = [(name, *(f"{value:.2f}" for value in one.spearman.sel(stage=name).values)) for name in names]
        table(("", *names), rows, right=tuple(range(1, len(names) + 1)))


def _print_lens(found: "xarray.Dataset") -> None:
    """The best token of every layer and stage."""
    from whence.plot import legible

    names = [str(name) for name in found.stage.values]
    for place in range(found.sizes["position"]):
        one = found.isel(position=place)
        print("Best token by layer (rows) and step (columns)")
        rows = [
            (str(layer), *(legible(str(word)) for word in one.top.sel(layer=layer, best=1).values))
            for layer in one.layer.values[::-1]
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
            found = cloze(model, corpus, out=out, progress=report)
        else:
            found = perturb(model, corpus, recipe, out=out, progress=report)
    _print_counts(found)
    if not found.attrs["scored"]:
        raise BadInput("No answer could be looked for; a sentence needs a mask, and a label that is one token.")
    _print_hits(found) if recipe is None else _print_recipes(found)
    return found


def _print_counts(found: "xarray.Dataset") -> None:
    import json

    from whence.corpus.questions import FIRST, SCORED

    print(f"{found.attrs['scored']:,} of {found.attrs['sentences']:,} answers looked for")
    for outcome, count in json.loads(found.attrs["outcomes"]).items():
        if outcome == FIRST:
            print(f"  {count:,} of them at the first of several masks")
        elif outcome != SCORED:
            print(f"  {count:,} left out: {outcome}")


def _print_hits(found: "xarray.Dataset") -> None:
    last = found.spearman.isel(other_stage=-1).mean("sentence")
    rows = [
        (
            str(stage),
            *(f"{int(found.hits.sel(stage=stage, k=k)):,}" for k in SHOWN),
            f"{float(last.sel(stage=stage)):.2f}",
        )
        for stage in found.stage.values
    ]
    head = ("stage", *(f"@{k}" for k in SHOWN), "Spearman with the last")
    table(head, rows, right=tuple(range(1, len(head))))


def _print_recipes(found: "xarray.Dataset") -> None:
    stage = found.stage.values[-1]
    rows = [("as it is", f"{found.attrs['scored']:,}", *_counts(found.hits.sel(stage=stage)), "")]
    for recipe in found.recipe.values:
        one = found.sel(recipe=recipe, stage=stage)
        rows.append(
            (str(recipe), f"{int(one.applied):,}", *_counts(one.hits_after), f"{float(one.spearman.mean()):.2f}")
        )
    head = ("recipe", "sentences", *(f"@{k}" for k in SHOWN), "Spearman with before")
    table(head, rows, right=tuple(range(1, len(head))))


def _counts(hits: "xarray.DataArray") -> list[str]:
    return [f"{int(hits.sel(k=k)):,}" for k in SHOWN]


def _write(found: "xarray.Dataset", out: Path | None) -> None:
    if out is None:
        return
    if out.suffix == ".nc":
        found.to_netcdf(out)
    else:
        names = ["top", "top_id", "top_score"]
        write_csv(found[names].to_dataframe()[names].reset_index(), out)
    print(f"Written: {out}")


def _draw(found: "xarray.Dataset", kind: str, chart: Path) -> None:
    from whence.plot import lm_head as charts
    from whence.plot.charts import write

    write(charts.drawn(found, kind), chart)
    print(f"Drawn: {chart}")
