"""What happens to the prediction when the period, the end token or the mask is removed? (Podkorytov et al. 2021)"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pandas
import xarray

from whence.corpus.perturb import RECIPES, perturb
from whence.plot.drawing import Drawing
from whence.studies.frame.context import Context, called
from whence.studies.frame.study import Beside, Finding, Item, Left, Shown, concluded
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


def changes(context: Context) -> Iterator[Item]:
    if context.model.anatomy.causal:
        yield Left(
            f"{PAPER}, Figs 3 and 7: final period, [SEP] and [MASK] taken away",
            "a decoder reads only what stands before the gap: it has no mask, and period and end token come after it",
        )
        return
    sentences = sentences_of(context)
    progress = context.progress_of(f"changes: {called(sentences.corpus)}")
    dataset = perturb(context.model, sentences, RECIPES, out=folder(context, "perturb", sentences), progress=progress)
    applied = [name for name in RECIPES if int(dataset["applied"].sel(recipe=name))]
    for name in RECIPES:
        if name not in applied:
            yield Left(f"{PAPER}, Figs 3 and 7: {CHANGES[name][0]}", "no sentence has one, as this model reads it")
    if applied:
        names = [CHANGES[name][0] for name in applied]
        dataset = dataset.isel(stage=-1).sel(recipe=applied).assign_coords(recipe=names)
        yield from _correlations(context, dataset)
        if dataset.attrs["scored"]:
            yield from _answers(context, dataset, applied)


def _correlations(context: Context, dataset: xarray.Dataset) -> Iterator[Item]:
    middle = dataset["spearman"].median("sentence").to_series()
    low = float(np.floor(10 * dataset["spearman"].min()) / 10)
    yield Shown(
        "head_changes",
        f"{PAPER}, Figs 3 and 7",
        Drawing(
            "steps",
            _histograms(dataset["spearman"], low),
            "correlation",
            "sentences",
            f"The prediction changes most with the {middle.idxmin()}: median Spearman {middle.min():.2f}",
            f"correlation of the logits before and after, sentence by sentence; {sample(dataset, context)}",
            by="change",
            x_title="Spearman",
            share=False,
            limits=(low, 1.0),
        ),
    )
    medians = ", ".join(f"{name} {value:.2f}" for name, value in middle.items())
    yield _order("logits", middle, f"median Spearman of the logits before and after: {medians}")


def _histograms(values: xarray.DataArray, low: float) -> pandas.DataFrame:
    edges, tables = np.linspace(low, 1, BARS + 1), []
    for name in values["recipe"].values:
        correlations = values.sel(recipe=name).values
        counts, _ = np.histogram(correlations[np.isfinite(correlations)], edges)
        rows = {"change": str(name), "correlation": edges[:-1], "correlation_end": edges[1:], "sentences": counts}
        tables.append(pandas.DataFrame(rows))
    return pandas.concat(tables, ignore_index=True)


def _order(what: str, values: pandas.Series, statistic: str) -> Finding:
    """Whether the changes do harm in the order of the paper, which is the order of CHANGES."""
    falling = all(first > second for first, second in pairwise(values))
    return concluded(
        f"The period's loss changes the {what} least, the end token's more, the mask's most.",
        falling if len(values) == len(CHANGES) else None,
        statistic,
    )


def _answers(context: Context, dataset: xarray.Dataset, recipes: Sequence[str]) -> Iterator[Item]:
    """Hits without a change and after each, as shares of the sentences with an answer that the change applies to."""
    before = (dataset["hits"] / dataset.attrs["scored"]).expand_dims(recipe=["as it is"])
    after = dataset["hits_after"] / dataset["place_after"].notnull().sum("sentence")
    shares = xarray.concat([before, after], "recipe").sel(k=list(RANKS))
    table = shares.to_dataframe("found")[["found"]].reset_index().rename(columns={"recipe": "change"})
    ten = table[table["k"] == 10].set_index("change")["found"]
    yield Shown(
        "head_changes_hits",
        f"{PAPER}, hits@k after each change",
        Drawing(
            "lines",
            table,
            "k",
            "found",
            f"{ten.iloc[0]:.0%} of the answers are among the ten best; with the {ten.idxmin()}, {ten.min():.0%}",
            f"share of the answers that are among the k best; {sample(dataset, context)}",
            color="change",
            order=tuple(ten.index),
            y_title="hits@k",
        ),
    )
    yield Beside(
        "head_changes_published",
        "the published hits@k after each change, as shares",
        _beside(table.pivot(index="change", columns="k", values="found").loc[list(ten.index)], recipes),
        f"Ours: {sample(dataset, context)}. {THEIRS}",
    )
    shares_of_ten = ", ".join(f"{name} {value:.1%}" for name, value in ten.items())
    yield _order("answers", ten.iloc[1:], f"answers among the ten best: {shares_of_ten}")


def _beside(ours: pandas.DataFrame, recipes: Sequence[str]) -> pandas.DataFrame:
    whole, changed = printed("hits_lama_conceptnet_of_29774")["lmhead-out"], printed("hits_perturbed")
    theirs = [whole, *(changed[CHANGES[name][1]] for name in recipes)]
    counts = [QUESTIONS, *(WITH_PERIOD if name == "no-period" else QUESTIONS for name in recipes)]
    table = pandas.DataFrame({"change": ours.index})
    for k in SHORT:
        table[f"ours @{k}"] = [f"{share:.1%}" for share in ours[k]]
    for k in SHORT:
        hits = [row[RANKS.index(k)] / count for row, count in zip(theirs, counts, strict=True)]
        table[f"{BASE} @{k}"] = [f"{share:.1%}" for share in hits]
    return table
