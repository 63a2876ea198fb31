"""Which step of the LM head makes the prediction? (Podkorytov, Biś & Liu 2021)"""

from functools import partial

import numpy as np
import pandas
import xarray

from whence.stats.estimate import Estimate, paired
from whence.studies.frame.context import Context, called
from whence.studies.frame.study import Absent, Claim, Encoding, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import MORE, MUCH, Criterion
from whence.studies.lm_head_changes import CHANGED
from whence.studies.lm_head_stages import (
    BASE,
    NO_NORM,
    PAPER,
    QUESTIONS,
    RANKS,
    SHORT,
    THEIRS,
    at_gap,
    clozes,
    names_of,
    norm_of,
    printed,
    readable,
    sample,
    text_of,
)
from whence.text.sentence import MASK

BINS, PLACES = 40, 200  # the vocabulary is averaged over so many parts, and drawn at so many places
FAR = 3  # standard deviations
FEW = 10  # with fewer answers among the ten best, shares of them say nothing
USELESS = Criterion.named("useless")
COMPLETE = Criterion.named("complete")
DEPTHS = {"the best": 1, "among the best 10": 10, "among the best 100": 100}
ALIKE: Encoding = {"kind": "grid", "x": "other_stage", "y": "stage", "value": "spearman", "signed": True}
ALIKE = {**ALIKE, "share": False, "limits": (-1.0, 1.0), "x_title": " ", "y_title": " "}
ALIKE = {**ALIKE, "order": lambda table: tuple(dict.fromkeys(table["stage"]))}


def _said(table: pandas.DataFrame, context: Context) -> pandas.DataFrame:
    table.attrs["sample"] = f"“{text_of(context)}”"
    return table


def spearman_grid(context: Context) -> pandas.DataFrame:
    return _said(at_gap(context)["spearman"].to_dataframe("spearman")[["spearman"]].reset_index(), context)


def _most_alike(table: pandas.DataFrame) -> str:
    names = list(dict.fromkeys(table["stage"]))
    last = table[table["other_stage"] == names[-1]].set_index("stage")["spearman"]
    best = last.drop(names[-1]).idxmax()
    return f"Most like {names[-1]}: {best}, Spearman {last[best]:.2f}; {names[0]}: {last.iloc[0]:.2f}"


def spearman_published(context: Context) -> pandas.DataFrame:
    stages, values = printed("stages"), np.array(printed("spearman"))
    table = pandas.DataFrame(values, stages, stages).rename_axis(index="stage", columns="other_stage")
    table = table.stack().rename("spearman").reset_index()
    table.attrs["about"] = ""  # neither this model nor this data
    return table


def last_row(context: Context) -> pandas.DataFrame:
    ours = at_gap(context)["spearman"].isel(other_stage=-1).to_series()
    theirs = dict(zip(printed("stages"), np.array(printed("spearman"))[:, -1], strict=True))
    stages = list(dict.fromkeys([*ours.index, *theirs]))
    table = pandas.DataFrame({"stage": stages, "ours": ours.reindex(stages).values}).round(2)
    return _said(table.assign(**{BASE: [round(theirs.get(stage, np.nan), 2) for stage in stages]}), context)


def many(context: Context) -> pandas.DataFrame:
    """The last row of Table V over a corpus, because a single sentence could be chance."""
    dataset = clozes(context)
    spread = dataset["spearman"].isel(other_stage=-1, stage=slice(None, -1)).quantile([0.1, 0.5, 0.9], dim="sentence")
    low, middle, high = spread.values
    table = pandas.DataFrame({"stage": names_of(dataset)[:-1], "spearman": middle, "low": low, "high": high})
    table.attrs["sample"] = sample(dataset)
    return table


def _nearest(table: pandas.DataFrame) -> str:
    best, first = table.loc[table["spearman"].idxmax()], table.iloc[0]
    return (
        f"Correlation with the logits: {first['stage']} {first['spearman']:.2f}, {best['stage']} {best['spearman']:.2f}"
    )


def _around_norm(dataset: xarray.Dataset) -> tuple[int, int, int]:
    """The places of the stage before the norm, of the normalised one and of the weighted one."""
    names = names_of(dataset)
    norm = norm_of(names)
    if norm is None or norm[0] == names[0]:
        raise Absent(NO_NORM)
    at = names.index(norm[0])
    return at - 1, at, names.index(norm[1])


def nearer(context: Context) -> dict[str, Estimate]:
    """By how much the median correlation with the logits grows at the norm, and at its weight."""
    dataset = clozes(context)
    before, normalised, weighted = _around_norm(dataset)
    alike = dataset["spearman"].isel(other_stage=-1).transpose("sentence", "stage").values
    alike = alike[np.isfinite(alike).all(axis=1)]

    def gain(first: int, second: int, rows: np.ndarray) -> float:
        middle = np.median(rows, axis=0)
        return float(middle[second] - middle[first])

    steps = {"normalised": (before, normalised), "with the weight": (normalised, weighted)}
    return {name: paired(alike, range(len(alike)), partial(gain, *pair)) for name, pair in steps.items()}


def sorted_scores(fixed_last: bool, sorting: bool, context: Context) -> pandas.DataFrame:
    """The scores of one stage in the order of another's, for every other stage, and the scores that set the order."""
    dataset = at_gap(context)
    names = names_of(dataset)
    fixed, others = (names[-1], names[:-1]) if fixed_last else (names[0], names[1:])
    pairs = {stage: (fixed, stage) if sorting else (stage, fixed) for stage in others}
    table = pandas.concat([_binned(dataset, *pairs[stage]).assign(stage=stage) for stage in others])
    alike = dataset["spearman"].sel(other_stage=fixed).to_series()
    return _said(table.assign(alike=table["stage"].map(alike), fixed=fixed).reset_index(drop=True), context)


def _binned(dataset: xarray.Dataset, stage: str, by: str) -> pandas.DataFrame:
    """The stage's scores and those of `by`, both sorted by the scores of `by`, around evenly spread places."""
    order = np.argsort(dataset["scores"].sel(stage=by).values, kind="stable")
    tables = []
    for line, name in (("sorting", by), ("sorted", stage)):
        scores = dataset["scores"].sel(stage=name).values[order]
        tables.append(_smoothed((scores - scores.mean()) / scores.std()).assign(line=line))
    return pandas.concat(tables)


def _smoothed(scores: np.ndarray) -> pandas.DataFrame:
    """Single scores at evenly spread places, and the mean and the middle 80 % of the scores around each."""
    places = np.unique(np.linspace(0, len(scores) - 1, PLACES).round().astype(int))
    around = pandas.Series(scores).rolling(max(1, len(scores) // BINS), center=True, min_periods=1)
    columns = {"score": around.mean(), "low": around.quantile(0.1), "high": around.quantile(0.9)}
    table = pandas.DataFrame({name: values.to_numpy()[places] for name, values in columns.items()})
    return table.assign(single=scores[places], place=(places + 0.5) / len(scores))


def _span(what: str, table: pandas.DataFrame) -> str:
    if "alike" not in table:
        return what
    alike = table.groupby("stage", sort=False)["alike"].first()
    return f"{what}: Spearman {alike.min():.2f} ({alike.idxmin()}) to {alike.max():.2f} ({alike.idxmax()})"


def components(part: str, context: Context) -> pandas.DataFrame:
    dataset = at_gap(context)
    if norm_of(names_of(dataset)) is None:
        raise Absent(NO_NORM)
    if f"norm_{part}" not in dataset:
        raise Absent(f"the last norm of the family {context.model.anatomy.family!r} has no {part}")
    values = dataset[f"norm_{part}"].values
    return pandas.DataFrame({"component": np.arange(len(values)), part: values})


def _far(part: str, table: pandas.DataFrame) -> str:
    values = table[part]
    far = int(((values - values.mean()).abs() > FAR * values.std(ddof=0)).sum())
    return (
        f"The norm's {part} is {values.mean():z.2f} ± {values.std(ddof=0):.2f};"
        f" {far} of {len(values)} components lie far off"
    )


def hits(context: Context) -> pandas.DataFrame:
    """Hits by stage and rank, of every corpus."""
    return pandas.concat([_hits(context, place) for place in range(len(context.corpora))], ignore_index=True)


def _hits(context: Context, place: int) -> pandas.DataFrame:
    dataset = clozes(context, context.corpora[place])
    table = (dataset["hits"] / dataset.attrs["scored"]).to_dataframe("found")[["found"]].reset_index()
    data = f"{called(context.corpora[place])}, {dataset.attrs['scored']:,} clozes"
    return table[table["k"].isin(RANKS)].assign(data=data)


def _best(table: pandas.DataFrame) -> str:
    ten = table[(table["k"] == 10) & (table["data"] == table["data"].iloc[0])] if "data" in table else table
    ten = ten[ten["k"] == 10].groupby("stage", sort=False)["found"].mean()
    return f"{ten.idxmax()} has most answers among its ten best: {ten.max():.0%}; the whole head has {ten.iloc[-1]:.0%}"


def hits_published(context: Context) -> pandas.DataFrame:
    dataset, theirs, rows = clozes(context), printed("hits_lama_conceptnet_of_29774"), []
    shares = (dataset["hits"] / dataset.attrs["scored"]).to_pandas()
    for stage in dict.fromkeys([*shares.index, *printed("stages")]):
        ours = {f"ours @{k}": f"{shares[k][stage]:.1%}" if stage in shares.index else "" for k in SHORT}
        known = theirs.get(stage)
        rows.append(
            {"stage": stage}
            | ours
            | {f"{BASE} @{k}": f"{known[RANKS.index(k)] / QUESTIONS:.1%}" if known else "" for k in SHORT}
        )
    return pandas.DataFrame(rows)


def completeness(context: Context) -> dict[str, Estimate]:
    """Hits@10 beside those of the whole head: of the best stage before the norm, and with the norm's weight."""
    dataset = clozes(context)
    _, normalised, weighted = _around_norm(dataset)
    places = dataset["place"].transpose("sentence", "stage").values
    hit = (places <= 10)[np.isfinite(places).all(axis=1)]
    if hit[:, -1].sum() < FEW:
        raise Absent(f"the whole head has only {hit[:, -1].sum()} answers among its ten best")

    def beside_whole(first: int, last: int, rows: np.ndarray) -> float:
        hits = rows.sum(axis=0)
        return float(hits[first:last].max() / max(hits[-1], 1))

    spans = {"before the norm": (0, normalised), "with its weight": (weighted, weighted + 1)}
    return {name: paired(hit, range(len(hit)), partial(beside_whole, *span)) for name, span in spans.items()}


def lens(context: Context) -> pandas.DataFrame:
    """Where the whole head, reading a layer, puts the final prediction: shares of the sentences."""
    ranks = _ranks_by_layer(context)
    shares = [(ranks <= k).mean().rename("share").reset_index().assign(place=name) for name, k in DEPTHS.items()]
    table = pandas.concat(shares, ignore_index=True)
    words = at_gap(context, layer="all", k=1)["top"].isel(stage=-1, best=0).to_series()
    choices = ", ".join(f"{layer} {word}" for layer, word in words.items())
    table.attrs |= {"sample": f"{len(ranks):,} sentences"}
    table.attrs |= {"note": f"The first choice by layer, “{text_of(context)}”: {choices}."}
    return table


def _already(table: pandas.DataFrame) -> str:
    first = table[table["place"] == next(iter(DEPTHS))]["share"]
    return f"One layer before the last, {first.iloc[-2]:.0%} of the final predictions are first already"


def _ranks_by_layer(context: Context) -> pandas.DataFrame:
    """The rank of the final prediction when the LM head reads each layer: a row per sentence, a column per layer."""
    sentences = context.texts(12, 100)
    progress, rows = context.progress_of(f"lens: {sentences.name}"), []
    for number, sentence in enumerate(sentences, start=1):
        text = readable(context, sentence.text)
        if MASK in sentence.text and text:
            rows.append(at_gap(context, text, layer="all", k=1)["place"].isel(stage=-1, candidate=0).to_series())
        if progress:
            progress(number, len(sentences))
    if not rows:
        raise Absent(f"no sentence of {called(context.corpus)} has a gap ({MASK}) in it")
    return pandas.DataFrame(rows).reset_index(drop=True).rename_axis(columns="layer")


def _sorted(name: str, figure: str, fixed_last: bool, sorting: bool) -> Figure:
    of = "the last stage" if fixed_last else "the first stage"
    what = f"The scores of {of}, sorted by each stage" if sorting else f"Each stage's scores, sorted by {of}"
    return Figure(
        f"head_sorted_{name}",
        f"{PAPER}, {figure}",
        partial(sorted_scores, fixed_last, sorting),
        {"kind": "lines", "x": "place", "y": "score", "color": "line", "order": ("sorting", "sorted"), "by": "stage"}
        | {"share": False, "x_title": "vocabulary, worst to best", "raw": "single"},
        partial(_span, what),
        f"thin: single tokens; means over a {BINS}th of the vocabulary, bands for its middle 80 %; standard deviations",
    )


def _norm(figure: str, part: str) -> Figure:
    return Figure(
        f"head_norm_{part}",
        f"{PAPER}, {figure}",
        partial(components, part),
        {"kind": "points", "x": "component", "y": part, "share": False},
        partial(_far, part),
        f"mean and standard deviation; far: more than {FAR} standard deviations from the mean",
    )


SENTENCE: Items = (
    Figure("head_spearman", f"{PAPER}, Table V", spearman_grid, ALIKE, _most_alike, "over the vocabulary"),
    Figure(
        "head_spearman_published",
        f"{PAPER}, Table V; these are the paper's own numbers",
        spearman_published,
        ALIKE,
        lambda table: f"As published: {_most_alike(table)}",
        f"{BASE}, “{printed('sentence')}”",
    ),
    Table(
        "head_spearman_last",
        "the last row of Table V: each stage against the logits",
        last_row,
        f"Theirs: {BASE}, “{printed('sentence')}”",
    ),
)
MANY: Items = (
    Figure(
        "head_spearman_corpus",
        f"{PAPER}, Table V, its last row for many sentences",
        many,
        {"kind": "bars", "x": "stage", "y": "spearman", "color": "stage", "share": False, "x_title": " "}
        | {"order": lambda table: tuple(dict.fromkeys(table["stage"]))},
        _nearest,
        "Spearman with the logits, median, lines hold the middle 80 %",
    ),
    Claim(
        "Normalisation brings a stage's scores much nearer to the logits, and the norm's weight nearer still.",
        nearer,
        {"normalised": MUCH, "with the weight": MORE},
    ),
)
SORTED = (
    _sorted("last_by_stage", "Figs 4 and 6, left", True, True),
    _sorted("stage_by_last", "Fig. 6, right", True, False),
    _sorted("first_by_stage", "Fig. 5, left", False, True),
    _sorted("stage_by_first", "Fig. 5, right", False, False),
)
NORM: Items = (_norm("Fig. 8", "weight"), _norm("Fig. 9", "bias"))
HITS: Items = (
    Figure(
        "head_hits",
        f"{PAPER}, hits@k by stage",
        hits,
        {"kind": "lines", "x": "k", "y": "found", "color": "stage", "by": "data", "y_title": "hits@k"}
        | {"order": lambda table: tuple(dict.fromkeys(table["stage"]))},
        _best,
        "share of the answers that are among the k best",
    ),
    Table("head_hits_published", "the published hits@k, as shares", hits_published, THEIRS),
    Claim(
        "Before the norm a stage is of next to no use; with the norm's weight it is nearly complete.",
        completeness,
        {"before the norm": USELESS, "with its weight": COMPLETE},
        form=".0%",
    ),
)
LENS: Items = (
    Figure(
        "head_lens",
        "the paper, which asks the last layer only",
        lens,
        {"kind": "lines", "x": "layer", "y": "share", "color": "place", "order": tuple(DEPTHS)}
        | {"limits": (0.0, 1.0), "y_title": "of the sentences"},
        _already,
        "where the whole head, reading a layer, puts the final prediction",
    ),
)


NEEDS = frozenset({"lm_head"})
STUDY = Study(
    name="lm-head",
    title="Which step of the LM head makes the prediction",
    asks=(
        "Between the last block and the logits stand a dense layer, an activation, a norm with its weights and biases,"
        " and the embeddings; in a decoder, only a norm and the embeddings. Which step turns a vector into an answer?"
    ),
    paper="Podkorytov, Biś & Liu (2021). How can the [MASK] know? The sources and limitations of knowledge in BERT."
    " IJCNN.",
    data="a cloze corpus such as --data lama:conceptnet.jsonl",
    sections=(
        Section("One sentence", "How alike do the stages order the vocabulary?", SENTENCE, NEEDS),
        Section("Many sentences", "Where on the way to the logits does the order arise?", MANY, NEEDS),
        Section(
            "Scores, sorted",
            "What do one stage's scores look like in the order of another's?",
            SORTED,
            NEEDS,
        ),
        Section("The norm", "What do the norm's weights and biases look like?", NORM, NEEDS),
        Section("Right answers", "At which stage is the right answer among the best?", HITS, NEEDS),
        Section(
            "Small changes",
            "What happens when the period, the end token or the mask is taken away?",
            CHANGED,
            NEEDS,
        ),
        Section("Earlier layers", "What does the head say when it reads an earlier layer?", LENS, NEEDS),
    ),
)
