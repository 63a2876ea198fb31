"""whence lens: what hidden tokens are disposed to say; a lens is fitted on a corpus once, and read with any text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from whence.cli.shared import Reading, Several, Source, check_file, going_on, reading, text_of
from whence.errors import BadInput
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

    from whence.sentence.lens import Lens

ENDING = ".safetensors"
lens = App(
    name="lens",
    help="What every hidden token is disposed to say: fit the Jacobian lens of a model, and read it with a text.",
    help_format="plaintext",
)


@lens.command
def fit(
    corpus: str,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("lens"),
    layers: Several = None,
    skip: int | None = None,
    length: int = 128,
    texts: int = 100,
    error: float | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    part_size: int | None = None,
    read: Reading = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Fit a lens: one matrix per layer, with standard errors over texts. The same command resumes where it stopped.

    Parameters
    ----------
    corpus
        A file of texts, such as texts.txt.
    out
        A folder for the parts and the lens.
    layers
        Only these; 0 is the output of the embeddings.
    skip
        Leave out so many leading tokens of every text; 16 in a decoder, none in an encoder.
    length
        Use no more tokens of a text than these.
    texts
        Use no more texts than these.
    error
        Stop before, once read-outs are as exact as this: 0.05 is 5 % of their length.
    engine
        local, or ray for a cluster.
    address
        Of the Ray cluster; one is started here when not given.
    workers
        How many Ray workers; as many as there is room for when not given.
    threads
        Of the process, or of each worker.
    part_size
        Texts per part, which is what is lost at most when a fit is stopped.
    read
        How to read the corpus: options of its format, as in text=review,label=stars or header=no.
    """
    from whence.corpus.lens import FILE
    from whence.corpus.lens import lens as fitted
    from whence.text import readers

    sentences = readers.read(corpus, **reading(read))
    model = source.load()
    with going_on(out), progress() as report:
        lens = fitted(
            model,
            sentences,
            layers,
            skip=skip,
            length=length,
            texts=texts,
            error=error,
            out=out,
            engine=engine,
            address=address,
            workers=workers,
            threads=threads,
            part_size=part_size,
            progress=report,
        )
    _print_fit(lens, out / FILE)


@lens.command
def read(
    text: str | None = None,
    *,
    lens: Annotated[Path, Parameter(name=["--lens", "-l"])] = Path("lens"),
    position: Several = None,
    layers: Several = None,
    top: int = 5,
    json: Annotated[bool, Parameter(negative=())] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    truncate: Annotated[bool, Parameter(negative=())] = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what each layer is disposed to say at a token, by the Jacobian lens, the logit lens and the tuned lens.

    Parameters
    ----------
    text
        The text; without one, or with -, it is read from standard input.
    lens
        The folder of a fit, or a file with a lens; a published one is a pickle, and needs --allow-pickle.
    position
        Show these tokens, counted from 0, from the end when negative; every mask, or the last token of a decoder,
        when not given.
    layers
        Only these layers.
    top
        How many of the best tokens to keep.
    json
        Write all numbers to standard output as JSON, and nothing else.
    out
        Where to write a page, .html, or the numbers, .nc.
    truncate
        Cut off what is longer than the model takes.
    """
    from whence.sentence.lens_file import load_lens

    if out is not None:
        check_file(out, (".html", ".htm", ".nc"))
    content = text_of(text, "lens read")
    loaded = load_lens(lens, allow_pickle=source.loading.allow_pickle)
    model = source.load()
    dataset = loaded.read(model, content, top, layers=layers, truncate=truncate)
    chosen = _positions(dataset, position, model)
    _write(dataset, out)
    _print_json(dataset, chosen) if json else _print(dataset, chosen, out)


def _positions(dataset: "xarray.Dataset", position: list[int] | None, model: Any) -> list[int]:
    count = dataset.sizes["token"]
    if position is None:
        masks = (dataset["token_id"].values == model.tokenizer.mask_token_id).nonzero()[0].tolist()
        return [count - 1] if model.anatomy.causal else masks or list(range(count))
    if wrong := [place for place in position if not -count <= place < count]:
        raise BadInput(f"The text has positions 0 to {count - 1}, and {wrong[0]} was asked for.")
    return [place % count for place in position]


def _print_fit(lens: "Lens", path: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    tokens = f"{sum(lens.texts):,} texts"
    worst = max(lens.error)
    sure = f"; read-outs to {100 * worst:.1f} % of their length at the worst layer" if worst == worst else ""
    console.print(f"Fitted to {tokens}, layers {lens.layers[0]} to {lens.layers[-1]}{sure}.", soft_wrap=True)
    console.print(f"The lens: {path}", soft_wrap=True, markup=False)


def _print(dataset: "xarray.Dataset", tokens: list[int], page: Path | None) -> None:
    from rich.console import Console

    from whence.plot.terminal_lens import picture

    console = Console(highlight=False)
    console.print(picture(dataset, tokens, console.width, console.color_system is not None))
    if page is not None:
        console.print(f"\nWritten: {page.resolve()}", soft_wrap=True, markup=False)


def _print_json(dataset: "xarray.Dataset", tokens: list[int]) -> None:
    import json

    from whence.plot.lens import record

    print(json.dumps(record(dataset.sel(token=tokens)), ensure_ascii=False, allow_nan=False))


def _write(dataset: "xarray.Dataset", out: Path | None) -> None:
    if out is None:
        return
    if out.suffix == ".nc":
        dataset.to_netcdf(out)
        return
    from whence.page.report import report

    report(dataset, out)
