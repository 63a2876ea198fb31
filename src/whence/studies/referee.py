"""Which measure tells the truth on this model? Interventions on the same predictions are the referee."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas
import xarray

from whence.corpus import rankings, subjects
from whence.corpus.referee import ALONE, BLOCKS, referee
from whence.errors import BadInput, Unsupported
from whence.sealed import digest
from whence.stats.estimate import Estimate, paired
from whence.studies.frame.context import Context, called
from whence.studies.frame.sentences import Chosen, at_most
from whence.studies.frame.study import Absent, Claim, Figure, Section, Study, Table
from whence.studies.frame.verdict import MORE, interval

WORDS, LEAST = 40, 8  # of a text; a quick one is cut after QUICK_WORDS
QUICK_WORDS = 24
PREDICTIONS = (12, 100)  # of each task, quick and full
PLACELESS = (subjects.PLANTED,)  # tasks in which the place says nothing
SHOWN = 12  # variables in one picture
COMPREHENSIVE, SUFFICIENT, ALONE_LOST, UNREAD, BEYOND = (
    "comprehensiveness",
    "sufficiency",
    "leave-one-out",
    "value zeroing",
    "beyond position",
)
FAMILIES = {
    "derivatives": ("gradient", "jacobian", "dependence", "contribution"),
    "the pass taken apart": ("share", "decomposition"),
}
# criterion -> what it asks of a ranking, larger is better
TRUSTED = {
    COMPREHENSIVE: "which tokens the prediction cannot do without",
    SUFFICIENT: "which tokens are enough for it",
    ALONE_LOST: "how much each token matters by itself",
    UNREAD: "whose values the model reads",
}


def _judged(context: Context, task: str) -> xarray.Dataset:
    """Every ranking of the task's predictions before the referee, read from the study's folder if judged before."""
    words, count = context.amount(QUICK_WORDS, WORDS), context.texts(*PREDICTIONS).most
    corpus: Iterable[Any] = context.corpus
    if task != subjects.PLANTED:
        corpus = Chosen(context.corpus, subjects.POOL * count, at_most(words, LEAST))
    try:
        texts = subjects.prepared(context.model, task, corpus, count)
    except BadInput as error:
        raise Absent(str(error).rstrip(".")) from error
    without = sorted(rankings.SLOW) if context.quick else []
    blocks = context.amount(2, BLOCKS)
    identity = [context.model.id, context.model.revision, [text.text for text in texts], without, blocks]
    folder = context.out / "runs" / f"referee-{task.replace(' ', '-')}-{digest(identity)[:8]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    progress = context.progress_of(f"{task}: {called(context.corpus)}")
    return referee(context.model, texts, blocks=blocks, without=without, out=folder, progress=progress)


def _tasks(context: Context) -> dict[str, xarray.Dataset]:
    """The tasks of this model that the corpus has texts for."""
    judged, reasons = {}, []
    for task in subjects.tasks(context.model):
        try:
            judged[task] = context.kept(_judged, task)
        except Unsupported as error:
            reasons.append(str(error).rstrip("."))
    if not judged:
        raise Absent("; ".join(reasons))
    return judged


def criteria(dataset: xarray.Dataset) -> xarray.Dataset:
    """What each criterion says of each ranking and prediction, areas over the shares; larger is better throughout.

    Areas and leave-one-out correlations are means over the edits that the model can be given. Sufficiency counts what
    is not lost: with its sign turned.
    """
    edits = dataset.edit.isel(edit=dataset["removed"].notnull().any(("prediction", "ranking", "share")).values).values
    areas = {name: dataset[name].sel(edit=edits).mean("share") for name in ("removed", "kept")}
    return xarray.Dataset(
        {
            COMPREHENSIVE: areas["removed"].mean("edit"),
            SUFFICIENT: -areas["kept"].mean("edit"),
            ALONE_LOST: dataset["agreement"].sel(alone=edits).mean("alone"),
            UNREAD: dataset["agreement"].sel(alone=ALONE[-1]),
            BEYOND: dataset["beyond"].sel(alone=edits).mean("alone"),
        }
    )


def _estimates(values: xarray.DataArray, less: str | None = None) -> dict[str, Estimate]:
    """The mean of every ranking over predictions, or how much more it is than another's of the same predictions."""
    values = values if less is None else values - values.sel(ranking=less)
    documents = values["document"].values.tolist()
    return {str(name): paired(values.sel(ranking=name).values, documents, _mean) for name in values["ranking"].values}


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def _limits(estimate: Estimate) -> dict[str, float]:
    limits = interval([estimate])
    return {"value": limits.value, "low": limits.low, "high": limits.high}


def verdicts(context: Context) -> pandas.DataFrame:
    """The one table: a row for each task and ranking, by every criterion, with what it adds to the place alone."""
    tables = [_verdicts(task, dataset) for task, dataset in _tasks(context).items()]
    table = pandas.concat(tables, ignore_index=True)
    table.attrs["sample"] = _sample(context)
    return table


def _verdicts(task: str, dataset: xarray.Dataset) -> pandas.DataFrame:
    judged = criteria(dataset)
    table = pandas.DataFrame({"task": task, "measure": dataset["ranking"].values})
    trusted = pandas.Series([[] for _ in range(len(table))], dtype=object)
    for name in TRUSTED:
        estimates = _estimates(judged[name])
        table[name] = [each.value for each in estimates.values()]
        for row, good in enumerate(_best(judged[name])):
            trusted[row] = [*trusted[row], *([name] if good else [])]
    more = {name: interval([each]) for name, each in _estimates(judged[COMPREHENSIVE], rankings.POSITION).items()}
    table["more than position"] = [each.value for each in more.values()]
    table["from"], table["to"] = ([getattr(each, end) for each in more.values()] for end in ("low", "high"))
    table["with the place held"] = [each.value for each in _estimates(judged[BEYOND]).values()]
    table["trust it for"] = [", ".join(names) for names in trusted]
    return table


def _best(values: xarray.DataArray) -> list[bool]:
    """Which rankings are better than chance, and not worse than the best one: paired differences, by document."""
    means = values.mean("prediction")
    if means.isnull().all():
        return [False] * means.sizes["ranking"]
    best = str(means["ranking"].values[int(np.nanargmax(means.values))])
    above = {name: interval([each]) for name, each in _estimates(values, rankings.RANDOM).items()}
    below = {name: interval([each]) for name, each in _estimates(values, best).items()}
    return [above[name].low > 0 and below[name].high >= 0 for name in above]


def _sample(context: Context) -> str:
    counts = [
        f"{task}: {dataset.sizes['prediction']} predictions, median probability"
        f" {float(dataset.probability.median()):.0%}"
        for task, dataset in _tasks(context).items()
    ]
    return "; ".join(counts)


def by_criterion(context: Context, criterion: str) -> pandas.DataFrame:
    """One criterion: the mean of every ranking and its interval by document, best of the first task first."""
    rows = [
        {"task": task, "measure": name, "of": _kind(name), **_limits(each)}
        for task, dataset in _tasks(context).items()
        for name, each in _estimates(criteria(dataset)[criterion]).items()
    ]
    table = pandas.DataFrame(rows).dropna(subset="value")
    if table.empty:
        raise Absent("this model has no attention whose values could be zeroed")
    order = table[table["task"] == table["task"].iloc[0]].sort_values("value", ascending=False)["measure"].tolist()
    table = table.sort_values("measure", key=lambda names: names.map(order.index), kind="stable")
    table = table.sort_values(
        "task", key=lambda names: names.map(list(dict.fromkeys(table["task"])).index), kind="stable"
    )
    table.attrs["sample"] = _sample(context)
    return table.reset_index(drop=True)


def _kind(name: str) -> str:
    """What is drawn in one colour: baselines, and the families of measures."""
    if name in (rankings.POSITION, rankings.RANDOM):
        return "baseline"
    return next((kind for kind, names in FAMILIES.items() if name.startswith(names)), "attention and norms")


def by_edit(context: Context) -> pandas.DataFrame:
    """Comprehensiveness and sufficiency of every ranking, edit by edit and share by share."""
    tables = []
    for task, dataset in _tasks(context).items():
        for kind, variable in ((COMPREHENSIVE, "removed"), (SUFFICIENT, "kept")):
            means = dataset[variable].mean("prediction").to_dataframe("lost")["lost"].dropna().reset_index()
            tables.append(means.assign(task=task, criterion=kind))
    table = pandas.concat(tables, ignore_index=True).rename(columns={"ranking": "measure"})
    table.attrs["sample"] = _sample(context)
    return table[["task", "criterion", "edit", "share", "measure", "lost"]]


def _edits_shown(table: pandas.DataFrame) -> pandas.DataFrame:
    """The first task, the mean over shares of what is lost without the first sources."""
    rows = table[(table["task"] == table["task"].iloc[0]) & (table["criterion"] == COMPREHENSIVE)]
    means = rows.groupby(["measure", "edit"], as_index=False, sort=False)["lost"].mean()
    best = means.groupby("measure")["lost"].mean().sort_values(ascending=False).index.tolist()
    return means.sort_values("measure", key=lambda names: names.map(best.index), kind="stable").reset_index(drop=True)


def by_layer(context: Context) -> pandas.DataFrame:
    """How every layer's scores agree with leave-one-out by deletion, and with values zeroed in their block."""
    tables = []
    for task, dataset in _tasks(context).items():
        for name, along in (("layered", "layer"), ("zeroed", "block")):
            documents = dataset["document"].values.tolist()
            for variable in dataset["variable"].values:
                for place in dataset[along].values:
                    values = dataset[name].sel({"variable": variable, along: place}).values
                    if np.isfinite(values).any():
                        row = {"task": task, "measure": variable, "layer": int(place), "with": _WITH[name]}
                        tables.append(row | _limits(paired(values, documents, _mean)))
    table = pandas.DataFrame(tables)
    table.attrs["sample"] = _sample(context)
    return table


_WITH = {"layered": "leave-one-out by deletion", "zeroed": "values zeroed in that block"}


def _layers_shown(table: pandas.DataFrame, which: str) -> pandas.DataFrame:
    """The last task, in which the place says nothing where there is one; measures best in any layer first."""
    rows = table[(table["task"] == table["task"].iloc[-1]) & (table["with"] == which)]
    best = rows.groupby("measure")["value"].max().sort_values(ascending=False).index[:SHOWN].tolist()
    rows = rows[rows["measure"].isin(best)]
    return rows.sort_values("measure", key=lambda names: names.map(best.index), kind="stable").reset_index(drop=True)


def _task_of(context: Context) -> str:
    """The task in which the place says nothing, where this model has one; else its first."""
    judged = _tasks(context)
    return next((task for task in PLACELESS if task in judged), next(iter(judged)))


def difference(context: Context, first: str, second: str, criterion: str = COMPREHENSIVE) -> Estimate:
    """How much more the first ranking is worth than the second, on the same predictions."""
    values = criteria(_tasks(context)[_task_of(context)])[criterion]
    names = values["ranking"].values.tolist()
    if missing := [name for name in (first, second) if name not in names or values.sel(ranking=name).isnull().all()]:
        raise Absent(f"this model gives no {missing[0]!r}")
    return _estimates(values, second)[first]


# ours, not a paper's: claims that users of these measures rely on; (first, second, in words)
CLAIMS = (
    ("share", rankings.POSITION, "Shares of the logit say more than the place of a token."),
    ("dependence", rankings.POSITION, "Dependence says more than the place of a token."),
    ("contribution", rankings.POSITION, "Contributions to the last layer say more than the place of a token."),
    ("attention, last layer", rankings.RANDOM, "The last layer's attention says more than chance."),
    ("attention, last layer", rankings.POSITION, "The last layer's attention says more than the place of a token."),
    ("share", "attention, last layer", "Shares of the logit say more than the last layer's attention."),
    ("contribution", "rollout_attn_w", "Contributions say more than attention rolled out."),
    (
        "rollout_block_n",
        "rollout_attn_w",
        "Norms of whole blocks, rolled out, say more than attention rolled out.",
    ),
    (
        rankings.GRADIENT_INPUT,
        "dependence",
        "The gradient times the input says more than the length of the gradient.",
    ),
)


def _leads(table: pandas.DataFrame) -> str:
    best = table.loc[table["value"].idxmax()]
    rows = table[(table["task"] == best["task"]) & (table["measure"] == rankings.POSITION)]["value"]
    place = f"; the place alone {rows.iloc[0]:.2f}" if len(rows) else ""
    return f"{best['measure']} is best ({best['task']}): {best['value']:.2f}{place}"


def _criterion_figure(name: str, criterion: str, x_title: str, sample: str) -> Figure:
    return Figure(
        name,
        f"not in the papers: {criterion}",
        partial(by_criterion, criterion=criterion),
        {"kind": "intervals", "x": "value", "y": "measure", "color": "of", "by": "task", "share": False}
        | {"x_title": x_title, "y_title": "", "own_scales": True},
        _leads,
        sample,
    )


def _layer_figure(name: str, which: str) -> Figure:
    only: Callable[[pandas.DataFrame], pandas.DataFrame] = partial(_layers_shown, which=which)
    return Figure(
        name,
        f"not in the papers: {which}, by layer",
        by_layer,
        {"kind": "grid", "x": "layer", "y": "measure", "value": "value", "signed": True, "share": False}
        | {"x_title": "layer", "y_title": ""},
        _best_layer,
        f"Spearman's correlation with {which}, mean over predictions",
        only=only,
        note="The table has every measure, every task and the intervals.",
    )


def _best_layer(table: pandas.DataFrame) -> str:
    top = table.loc[table["value"].idxmax()]
    return f"{top['measure']} of layer {int(top['layer'])} agrees most: {top['value']:.2f} ({top['task']})"


def _most_edits(table: pandas.DataFrame) -> str:
    best = table.loc[table.groupby("edit")["lost"].idxmax()]
    words = ", ".join(f"{row['edit']}: {row['measure']} ({row['lost']:.1f})" for _, row in best.iterrows())
    return f"What costs most, by {words}"


NEEDS = frozenset({"derivatives"})
AREAS = "means over the first 10, 20 and 50 % of the tokens and over the edits; lines are 95 % intervals by document"
STUDY = Study(
    name="referee",
    title="Which measure tells the truth, on this model",
    asks=(
        "Measures of flow disagree. Take away the tokens that each of them names: which of them named those that the"
        " prediction rests on, and does it say more than the place of a token alone?"
    ),
    paper=(
        "No paper's study. Interventions after DeYoung et al. (2020), ERASER, ACL, and Mohebbi et al. (2023),"
        " Quantifying context mixing in transformers, EACL."
    ),
    data="running text or clozes such as --data text:wikipedia.txt or --data lama:conceptnet.jsonl",
    sections=(
        Section(
            "Which measure to trust for what",
            "Which rankings are better than chance, and no worse than the best?",
            (
                Table(
                    "referee_verdicts",
                    "nothing published: every ranking by every criterion",
                    verdicts,
                    "Comprehensiveness and sufficiency in nats, larger is better (sufficiency has its sign turned), the"
                    " others are rank correlations. *More than position* is comprehensiveness less that of the place"
                    " alone, from/to its interval. *With the place held* is the leave-one-out correlation with the"
                    " distance held constant. A measure is trusted for what its interval puts above chance and not"
                    " below the best.",
                ),
                *(
                    Claim(says, partial(difference, first=first, second=second), MORE, form="+.2f")
                    for first, second, says in CLAIMS
                ),
            ),
            NEEDS,
        ),
        Section(
            "Taken away",
            "How much of the log-probability goes with the tokens that a measure puts first?",
            (
                _criterion_figure(
                    "referee_comprehensiveness", COMPREHENSIVE, "nats lost without its first tokens", AREAS
                ),
            ),
            NEEDS,
        ),
        Section(
            "Left alone",
            "How little goes when only these are left?",
            (
                _criterion_figure(
                    "referee_sufficiency", SUFFICIENT, "nats lost with only its first tokens, as minus", AREAS
                ),
            ),
            NEEDS,
        ),
        Section(
            "Three ways of taking away",
            "Does the verdict depend on how tokens are taken away?",
            (
                Figure(
                    "referee_edits",
                    "not in the papers: ways of taking away",
                    by_edit,
                    {"kind": "grid", "x": "edit", "y": "measure", "value": "lost", "share": False}
                    | {"x_title": "", "y_title": "", "signed": lambda table: bool((table["lost"] < 0).any())},
                    _most_edits,
                    "nats lost without the first tokens of each ranking, mean over shares and predictions",
                    only=_edits_shown,
                    note="The table has every share, every task, and sufficiency.",
                ),
            ),
            NEEDS,
        ),
        Section(
            "One token at a time",
            "Does the order of the scores agree with what each token's loss does?",
            (
                _criterion_figure(
                    "referee_leave_one_out",
                    ALONE_LOST,
                    "Spearman with leave-one-out",
                    "mean over edits and predictions; lines are 95 % intervals by document",
                ),
                _criterion_figure(
                    "referee_zeroing",
                    UNREAD,
                    "Spearman with values zeroed",
                    "values zeroed in all blocks, a token at a time; lines are 95 % intervals by document",
                ),
                _criterion_figure(
                    "referee_beyond",
                    BEYOND,
                    "partial Spearman, distance held constant",
                    "with leave-one-out, mean over edits and predictions; lines are 95 % intervals by document",
                ),
            ),
            NEEDS,
        ),
        Section(
            "By layer",
            "In which layer does a measure say most?",
            (
                _layer_figure("referee_layers", _WITH["layered"]),
                _layer_figure("referee_blocks", _WITH["zeroed"]),
            ),
            NEEDS,
        ),
    ),
)
