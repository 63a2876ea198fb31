"""What happens to the prediction when the period, the end token or the mask is removed? (Podkorytov et al. 2021)"""

from functools import partial
from itertools import pairwise

import numpy as np
import pandas
import xarray

from whence.corpus.perturb import RECIPES, perturb
from whence.stats.estimate import Estimate, paired
from whence.studies.frame.context import Context, called
from whence.studies.frame.study import Absent, Claim, Figure, Items, Table
from whence.studies.frame.verdict import MORE
from whence.studies.lm_head_stages import (
    BASE,
    PAPER,
    QUESTIONS,
    RANKS,
    SHORT,
    THEIRS,
    WITH_PERIOD,
    folder,
    printed,
    sample,
    sentences_of,
)

BARS = 25
# our recipes -> their names on the page and in published.json
CHANGES = {
    "no-period": ("final period removed", "final period removed (n=29714)"),
    "no-end": ("end token removed", "[SEP] removed"),
    "mask-word": ("mask replaced by “cat”", "[MASK] -> cat"),
}


def _changed(context: Context) -> xarray.Dataset:
    """The last stage before and after each change that applies to a sentence."""
    if context.model.anatomy.causal:
        raise Absent(
            "a decoder reads only what stands before the gap: it has no mask, and period and end token come after it"
        )
    sentences = sentences_of(context)
    progress = context.progress_of(f"changes: {called(sentences.corpus)}")
    dataset = perturb(context.model, sentences, RECIPES, out=folder(context, "perturb", sentences), progress=progress)
    applied = [name for name in RECIPES if int(dataset["applied"].sel(recipe=name))]
    if not applied:
        raise Absent("no sentence has a final period, an end token or a mask, as this model reads it")
    return dataset.isel(stage=-1).sel(recipe=applied)


def correlations(context: Context) -> pandas.DataFrame:
    """Histograms of the correlation of the logits before and after, by change."""
    dataset = context.kept(_changed)
    low = float(np.floor(10 * dataset["spearman"].min()) / 10)
    edges, tables = np.linspace(low, 1, BARS + 1), []
    for name in dataset["recipe"].values:
        values = dataset["spearman"].sel(recipe=name).values
        values = values[np.isfinite(values)]
        counts, _ = np.histogram(values, edges)
        rows = {"correlation": edges[:-1], "correlation_end": edges[1:], "sentences": counts}
        tables.append(pandas.DataFrame(rows).assign(change=CHANGES[name][0], median=np.median(values)))
    table = pandas.concat(tables, ignore_index=True)
    table.attrs["sample"] = sample(dataset)
    return table


def _most_changed(table: pandas.DataFrame) -> str:
    if "median" not in table:
        return "How much the prediction changes"
    middle = table.groupby("change", sort=False)["median"].first()
    return f"The prediction changes most with the {middle.idxmin()}: median Spearman {middle.min():.2f}"


def _in_order(values: np.ndarray, read) -> dict[str, Estimate]:
    """Each change less the next in the order of the paper, which is that of CHANGES; rows are sentences."""
    if values.shape[1] < len(CHANGES):
        raise Absent("not every change applies to a sentence of this corpus")
    complete = values[np.isfinite(values).all(axis=1)]

    def less(first: int, second: int, rows: np.ndarray) -> float:
        of = read(rows)
        return float(of[first] - of[second])

    names = ("period less end token", "end token less mask")
    pairs = pairwise(range(len(CHANGES)))
    return {
        name: paired(complete, range(len(complete)), partial(less, *pair))
        for name, pair in zip(names, pairs, strict=True)
    }


def logits_in_order(context: Context) -> dict[str, Estimate]:
    values = context.kept(_changed)["spearman"].transpose("sentence", "recipe").values
    return _in_order(values, partial(np.median, axis=0))


def answers_in_order(context: Context) -> dict[str, Estimate]:
    places = _answered(context)["place_after"].transpose("sentence", "recipe").values
    return _in_order(np.where(np.isfinite(places), places <= 10, np.nan), partial(np.mean, axis=0))


def _answered(context: Context) -> xarray.Dataset:
    dataset = context.kept(_changed)
    if not dataset.attrs["scored"]:
        raise Absent("no sentence has an answer of one token")
    return dataset


def hits(context: Context) -> pandas.DataFrame:
    """Hits without a change and after each, as shares of the sentences with an answer that the change applies to."""
    dataset = _answered(context)
    before = (dataset["hits"] / dataset.attrs["scored"]).expand_dims(recipe=["as it is"])
    after = dataset["hits_after"] / dataset["place_after"].notnull().sum("sentence")
    shares = xarray.concat([before, after], "recipe").sel(k=list(RANKS))
    table = shares.to_dataframe("found")[["found"]].reset_index().rename(columns={"recipe": "change"})
    table["change"] = table["change"].map(lambda name: CHANGES[name][0] if name in CHANGES else name)
    table.attrs["sample"] = sample(dataset)
    return table


def _worst(table: pandas.DataFrame) -> str:
    ten = table[table["k"] == 10].set_index("change")["found"]
    return f"{ten.iloc[0]:.0%} of the answers are among the ten best; with the {ten.idxmin()}, {ten.min():.0%}"


def hits_beside(context: Context) -> pandas.DataFrame:
    table, recipes = hits(context), context.kept(_changed)["recipe"].values
    ours = table.pivot(index="change", columns="k", values="found").loc[list(dict.fromkeys(table["change"]))]
    whole, changed = printed("hits_lama_conceptnet_of_29774")["lmhead-out"], printed("hits_perturbed")
    theirs = [whole, *(changed[CHANGES[name][1]] for name in recipes)]
    counts = [QUESTIONS, *(WITH_PERIOD if name == "no-period" else QUESTIONS for name in recipes)]
    rows = pandas.DataFrame({"change": ours.index})
    for k in SHORT:
        rows[f"ours @{k}"] = [f"{share:.1%}" for share in ours[k]]
    for k in SHORT:
        shares = [row[RANKS.index(k)] / count for row, count in zip(theirs, counts, strict=True)]
        rows[f"{BASE} @{k}"] = [f"{share:.1%}" for share in shares]
    return rows


CHANGED: Items = (
    Figure(
        "head_changes",
        f"{PAPER}, Figs 3 and 7",
        correlations,
        {"kind": "steps", "x": "correlation", "y": "sentences", "by": "change", "x_title": "Spearman", "share": False}
        | {"limits": lambda table: (float(table["correlation"].min()), 1.0)},
        _most_changed,
        "correlation of the logits before and after, sentence by sentence",
    ),
    Claim("The period's loss changes the logits least, the end token's more, the mask's most.", logits_in_order, MORE),
    Figure(
        "head_changes_hits",
        f"{PAPER}, hits@k after each change",
        hits,
        {"kind": "lines", "x": "k", "y": "found", "color": "change", "y_title": "hits@k"}
        | {"order": lambda table: tuple(dict.fromkeys(table["change"]))},
        _worst,
        "share of the answers that are among the k best",
    ),
    Table("head_changes_published", "the published hits@k after each change, as shares", hits_beside, THEIRS),
    Claim(
        "The period's loss changes the answers least, the end token's more, the mask's most.",
        answers_in_order,
        MORE,
        form=".1%",
    ),
)
