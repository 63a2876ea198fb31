"""The experiments of the study of token identifiability: how many, how large, kept so that none is made twice."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from whence.corpus.identify import identify
from whence.models.fingerprint import weights_sha256
from whence.models.load import Model
from whence.plot.drawing import Drawing
from whence.sealed import Damaged, digest, parsed, sealed, unsealed
from whence.studies.frame.context import Context, called, spearman
from whence.studies.frame.sentences import Prepare, at_most
from whence.text.readers import Corpus
from whence.text.sentence import Sentence

log = logging.getLogger("whence")

# what is kept of an experiment: all that it was asked, as a digest, and what xarray reads a Dataset from
STORED = {"made": str, "dataset": {"coords": dict, "attrs": dict, "dims": dict, "data_vars": dict}}
Kind = tuple[str, str]
# probe and distance, and how they are called; the order is that of the colours
KINDS: dict[Kind, str] = {
    ("linear", "cosine"): "linear, cosine",
    ("linear", "l2"): "linear, L2",
    ("mlp", "cosine"): "MLP, cosine",
    ("mlp", "l2"): "MLP, L2",
    ("naive", "cosine"): "naive, cosine",
    ("naive", "l2"): "naive, L2",
}
MAIN: Kind = ("linear", "cosine")
WORDS = 120  # of a text
LEAST = 4  # of its tokens: the neighbour three places away has to be among them
SAMPLE = {"mnli": 500}  # as in the paper; all of any other corpus


@dataclass(frozen=True)
class Size:
    """How much is asked: ten folds for the first figure and one split for the others, as in the paper."""

    sentences: int
    folds: int
    layers: int
    network_layers: int
    "Of the MLP, which takes longest."


QUICK, FULL = Size(60, 2, 6, 2), Size(10**9, 10, 10**9, 10**9)


def folds_of(context: Context, kind: Kind) -> int:
    """One split where each fit takes half a minute."""
    return 1 if kind == ("mlp", "l2") else size(context).folds


def size(context: Context) -> Size:
    return QUICK if context.quick else FULL


def layers_of(context: Context, probe: str, model: Model | None = None) -> list[int]:
    """All of them, or as many as are asked for, evenly spread from the first to the last."""
    count = (model or context.model).anatomy.layers
    most = size(context).network_layers if probe == "mlp" else size(context).layers
    return sorted({round(layer) for layer in np.linspace(1, count, min(most, count)).tolist()})


def identified(
    context: Context,
    kind: Kind,
    *,
    corpus: Corpus | None = None,
    model: Model | None = None,
    layers: Sequence[int] | None = None,
    folds: int = 1,
    **options: Any,
) -> xarray.Dataset:
    """An experiment, from the study's folder if it was made before."""
    of, (probe, loss) = model or context.model, kind
    most = min(size(context).sentences, SAMPLE.get((corpus or context.corpus).format, FULL.sentences))
    sentences = context.sentences(most, corpus, long_enough(of))
    asked: dict[str, Any] = {"layers": list(layers or layers_of(context, probe, of)), "folds": folds} | options
    made = [of.id, weights_sha256(of), sentences.sha256, probe, loss, asked, version("whence")]
    path = context.out / "runs" / f"identify-{probe}-{loss}-{digest(made)[:12]}.json"
    if (before := _read(path, digest(made))) is not None:
        return before
    told = context.telling(f"{KINDS[kind]}: {called(corpus or context.corpus)}")
    found = identify(of, sentences, probe, loss=loss, truncate=True, cache=context.out, progress=told, **asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(sealed({"made": digest(made), "dataset": found.to_dict()}))
    fresh.replace(path)
    return found


def _read(path: Path, made: str) -> xarray.Dataset | None:
    """None when it is not there, or not as it was written: then it is computed again."""
    try:
        content = unsealed(parsed(path.read_bytes(), str(path)), STORED, str(path)) if path.exists() else None
    except Damaged as error:
        log.warning("%s; it is computed again", error)
        return None
    return None if content is None or content["made"] != made else xarray.Dataset.from_dict(content["dataset"])


def long_enough(model: Model) -> Prepare:
    """The first words of texts that have tokens enough, as the model reads them."""
    cut = at_most(WORDS)

    def kept(given: Sentence) -> Sentence | None:
        found = cut(given)
        if found is None or len(model.tokenizer(*found.texts, verbose=False)["input_ids"]) < LEAST:
            return None
        return found

    return kept


def spans(found: xarray.Dataset, name: str, variable: str = "rate") -> pandas.DataFrame:
    """Mean, lowest and highest fold by layer."""
    rate = found[variable]
    columns = {"layer": found.layer, "rate": rate.mean("fold"), "low": rate.min("fold"), "high": rate.max("fold")}
    return pandas.DataFrame({key: column.values for key, column in columns.items()}).assign(probe=name)


def last(found: xarray.Dataset, variable: str = "rate") -> float:
    """The mean rate of the deepest layer that was asked for."""
    return float(found[variable].isel(layer=-1).mean())


def trend(found: xarray.Dataset) -> float:
    """Spearman's correlation of layer and rate."""
    rate = found["rate"].mean("fold")
    return spearman(pandas.Series(rate.layer.values), pandas.Series(rate.values))


def guessing(found: xarray.Dataset) -> float:
    return float(found["chance"].mean())


def sample(found: xarray.Dataset, context: Context, corpus: Corpus | None = None) -> str:
    """For subtitles."""
    folds = found.sizes["fold"]
    split = f"{folds} folds" if folds > 1 else "one split"
    about = f"{found.attrs['sentences']:,} sentences, {found.attrs['tokens']:,} tokens, {split}"
    return f"{about}; {context.model.id} · {called(corpus or context.corpus)}"


def by_layer(table: pandas.DataFrame, title: str, subtitle: str, found: xarray.Dataset, **more: Any) -> Drawing:
    """Lines of rates over the layers, with what guessing would give."""
    chance = (guessing(found), f"guessing {guessing(found):.1%}")
    settings = {"color": "probe", "order": tuple(KINDS.values()), "y_title": "tokens recognised", "limits": (0.0, 1.0)}
    return Drawing("lines", table, "layer", "rate", title, subtitle, rule=chance, **settings | more)


def points(share: float) -> str:
    return f"{100 * share:.1f} points"
