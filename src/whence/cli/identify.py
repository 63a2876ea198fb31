"""whence identify: how often a token is still recognised from its hidden vector, layer by layer."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from whence._spreadsheet import write_csv
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
)
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

OUT = (".nc", ".csv")


def identify(
    corpus: str,
    *,
    probe: str = "linear",
    loss: Literal["cosine", "l2"] = "cosine",
    solver: Literal["fast", "adam"] = "fast",
    folds: int = 10,
    layers: Several = None,
    test_layers: Several = None,
    target: Literal["input", "previous"] = "input",
    offset: int = 0,
    train_share: float = 1.0,
    seed: int = 0,
    embeddings: Literal["output", "sum"] = "output",
    learning_rate: float = 1e-4,
    truncate: Switch = False,
    cache: Path | None = None,
    read: Reading = None,
    limit: Limit = None,
    out: Out = None,
    chart: File = None,
    tokens: File = None,
    save: File = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Print how often a token can still be told from its hidden vector, layer by layer.

    Each vector is compared with the input embeddings of all tokens of its sentence.

    Parameters
    ----------
    corpus
        A file of sentences, such as mrpc:dev.tsv or text.txt.
    probe
        naive (the vector as it is), linear, mlp, or a .safetensors file that --save wrote.
    loss
        What the probe is fitted by, and what the nearest embedding is found by.
    solver
        fast (closed form) or adam (as published, and slow).
    folds
        How often the sentences are split into 70 % for training, 15 % for validation and 15 % for testing.
    layers
        Probe only these layers: --layers 1 6. By default: all.
    test_layers
        Test each probe on these layers too.
    target
        What the probe recovers: the input embedding, or the state of the previous layer.
    offset
        Recover the token this many positions to the right, or to the left when negative.
    train_share
        Fit on this share of the training sentences.
    seed
        The seed for the folds and for whatever else is drawn.
    embeddings
        The output of the embedding layer, or the sum before its norm.
    learning_rate
        The learning rate of the solver adam. The paper tried 3e-3 to 3e-6 and took 1e-4.
    truncate
        Cut sentences that are longer than the model can read.
    cache
        The folder in which hidden states are kept. By default: the cache folder of the user.
    read
        How to read the corpus, as options of its format: text=review,label=stars or header=no.
    limit
        Read only this many sentences.
    out
        Write the rate of each layer and fold: .nc or .csv.
    chart
        Draw the rates: .svg, .png, .pdf, .html or .json.
    tokens
        Write the outcome for each tested token: .csv.
    save
        Write the probes: .safetensors.
    """
    from whence.corpus.identify import identify as identified
    from whence.text import readers

    for path, endings in ((out, OUT), (tokens, (".csv",)), (save, (".safetensors",))):
        if path is not None:
            check_file(path, endings)
    if chart is not None:
        check_chart(chart)
    sentences = readers.read(corpus, limit=limit, **reading(read))
    model = source.load()
    with progress() as report:
        dataset = identified(
            model,
            sentences,
            probe,
            loss=loss,
            solver=solver,
            folds=folds,
            layers=layers,
            test_layers=test_layers,
            target=target,
            offset=offset,
            train_share=train_share,
            seed=seed,
            embeddings=embeddings,
            learning_rate=learning_rate,
            tokens=tokens is not None,
            save=save,
            truncate=truncate,
            cache=cache,
            progress=report,
        )
    _print(dataset)
    _write(dataset, out, chart, tokens)
    if save is not None:
        print(f"Written: {save}")


def _print(dataset: "xarray.Dataset") -> None:
    about = dataset.attrs
    print(
        f"{about['probe']} probe, {about['loss']}: {about['tokens']:,} tokens in {about['sentences']:,} sentences,"
        f" {dataset.sizes['fold']} folds; guessing finds {100 * float(dataset.chance.mean()):.1f} %"
    )
    means, spread = dataset.mean("fold"), dataset.rate.std("fold")
    columns = {"found": means.rate, "± folds": spread, "same piece": means.type_rate, "in training": means.train_rate}
    rows = [
        (str(layer), *(_percent(float(column.sel(layer=layer))) for column in columns.values()))
        for layer in dataset.layer.values
    ]
    table(("layer", *columns), rows, right=tuple(range(len(columns) + 1)))
    if "transfer" in dataset:
        _print_transfer(means.transfer)


def _percent(share: float) -> str:
    """Saved probes have no training sentences here."""
    return "–" if share != share else f"{100 * share:.1f} %"


def _print_transfer(transfer: "xarray.DataArray") -> None:
    layers = [str(layer) for layer in transfer.tested_on.values]
    rows = [
        (str(layer), *(f"{100 * float(share):.0f} %" for share in transfer.sel(trained_on=layer).values))
        for layer in transfer.trained_on.values
    ]
    print("\nTrained on (rows), tested on (columns)")
    table(("", *layers), rows, right=tuple(range(len(layers) + 1)))


def _write(dataset: "xarray.Dataset", out: Path | None, chart: Path | None, tokens: Path | None) -> None:
    by_token = [name for name in dataset.data_vars if "place" in dataset[name].dims]
    if tokens is not None:
        write_csv(dataset[by_token].to_dataframe().reset_index(), tokens)
    rates = dataset.drop_dims("place", errors="ignore")
    if out is not None and out.suffix == ".nc":
        rates.to_netcdf(out)
    elif out is not None:
        write_csv(rates.drop_dims(["trained_on"], errors="ignore").to_dataframe().reset_index(), out)
    if chart is not None:
        from whence.plot import identity
        from whence.plot.charts import write

        write((identity.grid if "transfer" in dataset else identity.rates)(dataset), chart)
    for path in (out, chart, tokens):
        if path is not None:
            print(f"Written: {path}")
