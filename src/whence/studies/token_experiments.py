"""The experiments of the study of token identifiability: their size, and a file for each, so that none runs twice."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from whence.corpus.identify import identify
from whence.models.fingerprint import weights_sha256
from whence.models.load import Model
from whence.sealed import Damaged, digest, parsed, sealed, unsealed
from whence.stats.estimate import Estimate, paired
from whence.studies.frame.context import Context, called, trend
from whence.studies.frame.sentences import Prepare, at_most
from whence.studies.frame.study import Absent, Encoding
from whence.text.readers import Corpus
from whence.text.sentence import Sentence

log = logging.getLogger("whence")

# what is kept of an experiment: a digest of its settings, and the dictionary that xarray reads a Dataset from
STORED = {"made": str, "dataset": {"coords": dict, "attrs": dict, "dims": dict, "data_vars": dict}}
Kind = tuple[str, str]
Experiment = xarray.Dataset
# probe and distance -> their name in legends, in the order of the colours
KINDS: dict[Kind, str] = {
    ("linear", "cosine"): "linear, cosine",
    ("linear", "l2"): "linear, L2",
    ("mlp", "cosine"): "MLP, cosine",
    ("mlp", "l2"): "MLP, L2",
    ("naive", "cosine"): "naive, cosine",
    ("naive", "l2"): "naive, L2",
}
MAIN: Kind = ("linear", "cosine")
WORDS = 120  # of a text, at most
LEAST = 4  # tokens of a text, so that there is a neighbour three places away
SAMPLE = {"mnli": 500}  # as in the paper; other corpora are used whole


@dataclass(frozen=True)
class Size:
    """How large an experiment is. Intervals go by fold, so there are five at least."""

    sentences: int
    folds: int
    layers: int
    network_layers: int
    "For the MLP, which takes longest."


QUICK, FULL = Size(60, 5, 6, 2), Size(10**9, 10, 10**9, 10**9)


def folds_of(context: Context, kind: Kind) -> int:
    """Five for the MLP with L2, where each fit takes half a minute."""
    return min(5, size(context).folds) if kind == ("mlp", "l2") else size(context).folds


def size(context: Context) -> Size:
    return QUICK if context.quick else FULL


def layers_of(context: Context, probe: str) -> list[int]:
    """All layers, or as many as the sample allows, evenly spread from the first to the last."""
    count = context.model.anatomy.layers
    most = size(context).network_layers if probe == "mlp" else size(context).layers
    return sorted({round(layer) for layer in np.linspace(1, count, min(most, count)).tolist()})


def identified(
    context: Context,
    kind: Kind,
    *,
    corpus: Corpus | None = None,
    layers: Sequence[int] | None = None,
    folds: int = 1,
    **options: Any,
) -> xarray.Dataset:
    """An experiment, read from the study's folder if it ran before."""
    model, (probe, loss) = context.model, kind
    corpus = corpus or context.corpus
    most = min(size(context).sentences, SAMPLE.get(corpus.format, FULL.sentences))
    sentences = context.texts(most, most, long_enough(model), corpus)
    settings: dict[str, Any] = {"layers": list(layers or layers_of(context, probe)), "folds": folds} | options
    identity = digest([model.id, weights_sha256(model), sentences.sha256, probe, loss, settings, version("whence")])
    path = context.out / "runs" / f"identify-{probe}-{loss}-{identity[:12]}.json"
    if (before := _read(path, identity)) is not None:
        return before
    progress = context.progress_of(f"{KINDS[kind]}: {called(corpus)}")
    options = settings | {"truncate": True, "cache": context.out, "progress": progress}
    experiment = identify(model, sentences, probe, loss=loss, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(sealed({"made": identity, "dataset": experiment.to_dict()}))
    fresh.replace(path)
    return experiment


def _read(path: Path, identity: str) -> xarray.Dataset | None:
    """The experiment in a file; None if it is not there, damaged or another one, and has to run again."""
    try:
        content = unsealed(parsed(path.read_bytes(), str(path)), STORED, str(path)) if path.exists() else None
    except Damaged as error:
        log.warning("%s; it is computed again", error)
        return None
    return None if content is None or content["made"] != identity else xarray.Dataset.from_dict(content["dataset"])


def long_enough(model: Model) -> Prepare:
    """Cuts a text after WORDS words and leaves out those of fewer than LEAST tokens."""
    cut = at_most(WORDS)

    def kept(sentence: Sentence) -> Sentence | None:
        shortened = cut(sentence)
        if shortened is None or len(model.tokenizer(*shortened.texts, verbose=False)["input_ids"]) < LEAST:
            return None
        return shortened

    return kept


def spans(experiment: Experiment, name: str, variable: str = "rate") -> pandas.DataFrame:
    """The mean, the lowest and the highest rate of the folds, by layer, and the rate of guessing."""
    rate = experiment[variable]
    columns = {"layer": experiment.layer, "rate": rate.mean("fold"), "low": rate.min("fold"), "high": rate.max("fold")}
    table = pandas.DataFrame({key: column.values for key, column in columns.items()})
    return table.assign(probe=name, guessing=guessing(experiment))


def mean_rate(
    experiment: Experiment, variable: str = "rate", read: Callable[[np.ndarray], float] = np.mean
) -> Estimate:
    """`read` of the rates (their mean, unless given), with folds drawn again."""
    rates = experiment[variable].transpose("fold", ...).values
    read_mean = partial(_read_mean, read)
    return replace(paired(rates, experiment["fold"].values.tolist(), read_mean), unit="folds")


def _read_mean(read: Callable[[np.ndarray], float], rates: np.ndarray) -> float:
    return float(read(rates.mean(axis=0)))


def last_rate(experiment: Experiment, variable: str = "rate") -> Estimate:
    """The mean rate of the deepest layer measured."""
    return mean_rate(experiment, variable, lambda rates: rates[-1])


def worst_rate(experiment: Experiment) -> Estimate:
    """That of the layer where it is lowest."""
    return mean_rate(experiment, "rate", np.min)


def trend_of(experiment: Experiment) -> Estimate:
    """Spearman's correlation of layer and rate."""
    if experiment.sizes["layer"] < 3:
        raise Absent("two layers make no trend")
    layers = experiment["layer"].values
    return mean_rate(experiment, "rate", lambda rates: trend(pandas.Series(rates, layers)))


def guessing(experiment: Experiment) -> float:
    return float(experiment["chance"].mean())


def sample(experiment: Experiment) -> str:
    """How many sentences, tokens and folds, for subtitles."""
    folds = experiment.sizes["fold"]
    split = f"{folds} folds" if folds > 1 else "one split"
    return f"{experiment.attrs['sentences']:,} sentences, {experiment.attrs['tokens']:,} tokens, {split}"


def points(share: float) -> str:
    return f"{100 * share:.1f} points"


LINES: Encoding = {"kind": "lines", "x": "layer", "y": "rate", "color": "probe", "limits": (0.0, 1.0)}
LINES = {**LINES, "y_title": "tokens recognised", "order": lambda table: tuple(dict.fromkeys(table["probe"]))}
LINES = {**LINES, "rule": lambda table: (table["guessing"].mean(), f"guessing {table['guessing'].mean():.1%}")}
