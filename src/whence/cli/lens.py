"""whence lens: what hidden tokens are disposed to say; a lens is fitted on a corpus once, and read with any text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from whence.cli.examples import shown
from whence.cli.shared import (
    Address,
    Count,
    Engine,
    Out,
    Reading,
    Several,
    Shown,
    Source,
    Switch,
    check_file,
    going_on,
    reading,
    text_of,
)
from whence.errors import BadInput
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

    from whence.sentence.lens import Lens

ENDING = ".safetensors"
lens = App(
    name="lens",
    help="Fit the Jacobian lens of a model, and read in any text what each hidden token is disposed to say.",
    help_format="plaintext",
)


@lens.command(help_epilogue=shown("lens fit"))
def fit(
    corpus: str,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("lens"),
    layers: Several = None,
    skip: int | None = None,
    length: int = 128,
    texts: int = 100,
    error: float | None = None,
    read: Reading = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Count = None,
    threads: Count = None,
    part_size: Count = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Fit a lens: one matrix for each layer, with standard errors. A fit that was stopped resumes.

    Parameters
    ----------
    corpus
        A file of texts, such as texts.txt.
    out
        The folder for the lens and the parts it is made of.
    layers
        Fit only these layers: --layers 0 6. Layer 0 is the output of the embeddings. By default: all.
    skip
        Leave out this many tokens at the start of each text. By default: 16 for a decoder, none for an encoder.
    length
        Use at most this many tokens of a text.
    texts
        Use at most this many texts.
    error
        Stop early, once read-outs are this exact: 0.05 is 5 % of their length.
    read
        How to read the corpus, as options of its format: text=review,label=stars or header=no.
    engine
        Whether to work in this process or on a Ray cluster.
    address
        The address of the Ray cluster. Without one, Ray is started on this machine.
    workers
        How many Ray workers. By default: as many as there is room for.
    threads
        How many threads this process, or each worker, uses.
    part_size
        How many texts make a part. A fit that is stopped loses at most one part.
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


@lens.command(help_epilogue=shown("lens read"))
def read(
    text: str | None = None,
    *,
    lens: Annotated[Path, Parameter(name=["--lens", "-l"])] = Path("lens"),
    position: Several = None,
    layers: Several = None,
    top: int = 5,
    truncate: Switch = False,
    json: Shown = False,
    out: Out = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what each layer is disposed to say at a token, by the Jacobian lens, the logit lens and the tuned lens.

    Parameters
    ----------
    text
        The text. Without one, or with -, it is read from standard input.
    lens
        The folder of a fit, or the file of a lens. Published lenses are pickled and need --allow-pickle.
    position
        Show these tokens: --position 3 5. They count from 0, or from the end when negative. By default: every mask,
        or the last token of a decoder.
    layers
        Show only these layers: --layers 1 6. By default: all.
    top
        How many of the best tokens to keep.
    truncate
        Cut a text that is longer than the model can read.
    json
        Print all numbers as JSON, and nothing else.
    out
        Write a page (.html) or the numbers (.nc).
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
