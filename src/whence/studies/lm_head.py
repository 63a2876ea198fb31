"""Which step of the LM head makes the prediction? (Podkorytov, Biś & Liu 2021)"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas
import xarray

from whence.errors import Unsupported
from whence.plot.drawing import Drawing
from whence.studies.frame.context import Context, called
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Beside, Finding, Item, Left, Section, Shown, Study, concluded
from whence.studies.lm_head_changes import changes
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
from whence.text.readers import Corpus
from whence.text.sentence import MASK

BINS = 40
FAR = 3  # standard deviations
FEW = 10  # with fewer answers among the ten best, shares of them say nothing
USELESS, COMPLETE = 0.25, 0.9  # shares of the whole head's hits; our reading of the paper's words
MUCH = 0.1  # a gain in correlation
LENS = {"the best": 1, "among the best 10": 10, "among the best 100": 100}


def one_sentence(context: Context) -> Iterator[Item]:
    dataset = at_gap(context)
    names, last = names_of(dataset), dataset["spearman"].isel(other_stage=-1).to_series()
    best = last.iloc[:-1].idxmax()
    yield Shown(
        "head_spearman",
        f"{PAPER}, Table V",
        _grid(
            dataset["spearman"].to_dataframe("spearman")[["spearman"]].reset_index(),
            names,
            f"Most like {names[-1]}: {best}, Spearman {last[best]:.2f}; {names[0]}: {last.iloc[0]:.2f}",
            f"over {dataset.sizes['vocabulary']:,} tokens; {context.model.id}, “{text_of(context)}”",
        ),
    )
    stages, values = printed("stages"), np.array(printed("spearman"))
    table = pandas.DataFrame(values, stages, stages).rename_axis(index="stage", columns="other_stage")
    drawing = _grid(
        table.stack().rename("spearman").reset_index(),
        stages,
        f"As published: lnorm-n {values[4, -1]:.2f}, lnorm-w {values[5, -1]:.2f}, trf-out {values[0, -1]:.2f}",
        f"{BASE}, “{printed('sentence')}”",
    )
    yield Shown("head_spearman_published", f"{PAPER}, Table V; these are the paper's own numbers", drawing)
    yield _last_row(context, last, dict(zip(stages, values[:, -1], strict=True)))


def _grid(table: pandas.DataFrame, names: Sequence[str], title: str, subtitle: str) -> Drawing:
    return Drawing(
        "grid",
        table,
        "other_stage",
        "stage",
        title,
        subtitle,
        value="spearman",
        order=tuple(names),
        signed=True,
        share=False,
        limits=(-1.0, 1.0),
        x_title=" ",
        y_title=" ",
    )


def _last_row(context: Context, ours: pandas.Series, theirs: dict[str, float]) -> Beside:
    stages = list(dict.fromkeys([*ours.index, *theirs]))
    table = pandas.DataFrame({"stage": stages, "ours": ours.reindex(stages).values}).round(2)
    return Beside(
        "head_spearman_last",
        "the last row of Table V: each stage against the logits",
        table.assign(**{BASE: [round(theirs.get(stage, np.nan), 2) for stage in stages]}),
        f"Ours: {context.model.id}, “{text_of(context)}” Theirs: {BASE}, “{printed('sentence')}”",
    )


def many_sentences(context: Context) -> Iterator[Item]:
    """The last row of Table V over a corpus, because a single sentence could be chance."""
    dataset = clozes(context)
    names = names_of(dataset)
    spread = dataset["spearman"].isel(other_stage=-1, stage=slice(None, -1)).quantile([0.1, 0.5, 0.9], dim="sentence")
    low, middle, high = spread.values
    table = pandas.DataFrame({"stage": names[:-1], "spearman": middle, "low": low, "high": high})
    best = table.loc[table["spearman"].idxmax()]
    yield Shown(
        "head_spearman_corpus",
        f"{PAPER}, Table V, its last row for many sentences",
        Drawing(
            "bars",
            table,
            "stage",
            "spearman",
            f"Correlation with the logits: {names[0]} {middle[0]:.2f}, {best['stage']} {best['spearman']:.2f}",
            f"Spearman with {names[-1]}, median, lines hold the middle 80 %; {sample(dataset, context)}",
            color="stage",
            order=tuple(names[:-1]),
            share=False,
            x_title=" ",
        ),
    )
    if (norm := norm_of(names)) is not None:
        yield _nearer(table.set_index("stage")["spearman"], names[max(0, names.index(norm[0]) - 1)], *norm)


def _nearer(middle: pandas.Series, before: str, normalised: str, weighted: str) -> Finding:
    gain, more = middle[normalised] - middle[before], middle[weighted] - middle[normalised]
    return concluded(
        "Normalisation brings a stage's scores much nearer to the logits, and the norm's weight nearer still.",
        bool(gain > MUCH and more > 0),
        f"median Spearman with the logits: {before} {middle[before]:.2f}, {normalised} {middle[normalised]:.2f},"
        f" {weighted} {middle[weighted]:.2f} (we ask for {MUCH} more, then for more);"
        f" {BASE}, one sentence: 0.20, 0.68, 0.94",
    )


def sorted_scores(context: Context) -> Iterator[Item]:
    dataset = at_gap(context)
    names = names_of(dataset)
    # picture -> figure, the stage in every panel, the other stages, whether the others set the order
    pictures = {
        "last_by_stage": ("Figs 4 and 6, left", names[-1], names[:-1], True),
        "stage_by_last": ("Fig. 6, right", names[-1], names[:-1], False),
        "first_by_stage": ("Fig. 5, left", names[0], names[1:], True),
        "stage_by_first": ("Fig. 5, right", names[0], names[1:], False),
    }
    for name, (figure, fixed, others, sorting) in pictures.items():
        pairs = {stage: (fixed, stage) if sorting else (stage, fixed) for stage in others}
        table = pandas.concat([_binned(dataset, *pairs[stage]).assign(stage=stage) for stage in others])
        alike = dataset["spearman"].sel(other_stage=fixed).to_series()[others]
        what = f"The scores of {fixed}, sorted by each stage" if sorting else f"Each stage's scores, sorted by {fixed}"
        drawing = Drawing(
            "lines",
            table.reset_index(drop=True),
            "place",
            "score",
            f"{what}: Spearman {alike.min():.2f} ({alike.idxmin()}) to {alike.max():.2f} ({alike.idxmax()})",
            f"{BINS} equal parts of the vocabulary: means, and bands for the middle 80 %, in standard deviations;"
            f" {context.model.id}, “{text_of(context)}”",
            color="line",
            order=("sorting", "sorted"),
            by="stage",
            share=False,
            x_title="vocabulary, worst to best",
        )
        yield Shown(f"head_sorted_{name}", f"{PAPER}, {figure}", drawing)


def _binned(dataset: xarray.Dataset, stage: str, by: str) -> pandas.DataFrame:
    """The stage's scores and those of `by`, both sorted by the scores of `by`, in equal parts of the vocabulary."""
    order = np.argsort(dataset["scores"].sel(stage=by).values, kind="stable")
    tables = []
    for line, name in (("sorting", by), ("sorted", stage)):
        scores = dataset["scores"].sel(stage=name).values[order]
        parts = np.array_split((scores - scores.mean()) / scores.std(), min(BINS, len(scores)))
        rows = [(part.mean(), *np.quantile(part, [0.1, 0.9])) for part in parts]
        places = (np.arange(len(parts)) + 0.5) / len(parts)
        tables.append(pandas.DataFrame(rows, columns=["score", "low", "high"]).assign(place=places, line=line))
    return pandas.concat(tables)


def norms(context: Context) -> Iterator[Item]:
    dataset = at_gap(context)
    if norm_of(names_of(dataset)) is None:
        yield Left(f"{PAPER}, Figs 8 and 9: the norm's weights and biases", NO_NORM)
        return
    for figure, part in (("Fig. 8", "weight"), ("Fig. 9", "bias")):
        if f"norm_{part}" in dataset:
            yield _components(context, dataset[f"norm_{part}"].values, part, figure)
        else:
            why = f"the last norm of the family {context.model.anatomy.family!r} has no {part}"
            yield Left(f"{PAPER}, {figure}: the norm's {part}", why)


def _components(context: Context, values: np.ndarray, part: str, figure: str) -> Shown:
    far = int((np.abs(values - values.mean()) > FAR * values.std()).sum())
    drawing = Drawing(
        "points",
        pandas.DataFrame({"component": np.arange(len(values)), part: values}),
        "component",
        part,
        f"The norm's {part} is {values.mean():.2f} ± {values.std():.2f}; {far} of {len(values)} components lie far off",
        f"mean and standard deviation; far: more than {FAR} standard deviations from the mean; {context.model.id}",
        share=False,
    )
    return Shown(f"head_norm_{part}", f"{PAPER}, {figure}", drawing)


def hits(context: Context) -> Iterator[Item]:
    for place, corpus in enumerate(context.corpora):
        dataset = clozes(context, corpus)
        yield _hits(context, dataset, corpus, "head_hits" if place == 0 else f"head_hits_{place}")
        if place == 0:
            yield _published_hits(context, dataset)
            yield from _completeness(dataset)


def _hits(context: Context, dataset: xarray.Dataset, corpus: Corpus, name: str) -> Shown:
    table = (dataset["hits"] / dataset.attrs["scored"]).to_dataframe("found")[["found"]].reset_index()
    table = table[table["k"].isin(RANKS)].reset_index(drop=True)
    ten = table[table["k"] == 10].set_index("stage")["found"]
    drawing = Drawing(
        "lines",
        table,
        "k",
        "found",
        f"{ten.idxmax()} has most answers among its ten best: {ten.max():.0%}; the whole head has {ten.iloc[-1]:.0%}",
        f"share of the answers that are among the k best; {sample(dataset, context, corpus)}",
        color="stage",
        order=tuple(names_of(dataset)),
        y_title="hits@k",
    )
    return Shown(name, f"{PAPER}, hits@k by stage", drawing)


def _published_hits(context: Context, dataset: xarray.Dataset) -> Beside:
    theirs, rows = printed("hits_lama_conceptnet_of_29774"), []
    shares = (dataset["hits"] / dataset.attrs["scored"]).to_pandas()
    for stage in dict.fromkeys([*shares.index, *printed("stages")]):
        ours = {f"ours @{k}": f"{shares[k][stage]:.1%}" if stage in shares.index else "" for k in SHORT}
        known = theirs.get(stage)
        rows.append(
            {"stage": stage}
            | ours
            | {f"{BASE} @{k}": f"{known[RANKS.index(k)] / QUESTIONS:.1%}" if known else "" for k in SHORT}
        )
    differs = f"Ours: {sample(dataset, context)}. {THEIRS}"
    return Beside("head_hits_published", "the published hits@k, as shares", pandas.DataFrame(rows), differs)


def _completeness(dataset: xarray.Dataset) -> Iterator[Finding]:
    names, ten = names_of(dataset), dataset["hits"].sel(k=10).to_series()
    norm, whole = norm_of(names), int(ten.iloc[-1])
    if norm is None or norm[0] == names[0]:
        return
    share = ten / max(whole, 1)
    before = share[: names.index(norm[0])]
    normalised, weighted = share[norm[0]], share[norm[1]]
    yield concluded(
        "Before the norm a stage is of next to no use; with the norm's weight it is nearly complete.",
        bool(before.max() < USELESS and weighted > COMPLETE) if whole >= FEW else None,
        f"hits@10 beside the whole head's {whole}: at most {before.max():.0%} of them before ({before.idxmax()}),"
        f" {normalised:.0%} normalised, {weighted:.0%} with the weight (we ask for under {USELESS:.0%} before and over"
        f" {COMPLETE:.0%} with the weight); {BASE}: 10%, 50%, 100%",
    )


def lens(context: Context) -> Iterator[Item]:
    ranks = _ranks_by_layer(context)
    table = pandas.concat(
        [
            (ranks <= k).mean().rename("share").rename_axis("layer").reset_index().assign(place=name)
            for name, k in LENS.items()
        ],
        ignore_index=True,
    )
    before = float((ranks.iloc[:, -2] == 1).mean())
    words = at_gap(context, layer="all", k=1)["top"].isel(stage=-1, best=0).to_series()
    drawing = Drawing(
        "lines",
        table,
        "layer",
        "share",
        f"One layer before the last, {before:.0%} of the final predictions are first already",
        f"where the whole head, reading a layer, puts the final prediction; {len(ranks):,} sentences; {context.about}",
        color="place",
        order=tuple(LENS),
        limits=(0.0, 1.0),
        y_title="of the sentences",
    )
    choices = ", ".join(f"{layer} {word}" for layer, word in words.items())
    yield Shown(
        "head_lens",
        "the paper, which asks the last layer only",
        drawing,
        note=f"The first choice by layer, “{text_of(context)}”: {choices}.",
    )


def _ranks_by_layer(context: Context) -> pandas.DataFrame:
    """The rank of the final prediction when the LM head reads each layer: a row per sentence, a column per layer."""
    sentences = Chosen(context.corpus, context.amount(12, 100))
    progress, rows = context.progress_of(f"lens: {sentences.name}"), []
    for number, sentence in enumerate(sentences, start=1):
        text = readable(context, sentence.text)
        if MASK in sentence.text and text:
            rows.append(at_gap(context, text, layer="all", k=1)["place"].isel(stage=-1, candidate=0).to_series())
        if progress:
            progress(number, len(sentences))
    if not rows:
        raise Unsupported(f"no sentence of {called(context.corpus)} has a gap ({MASK}) in it")
    return pandas.DataFrame(rows).reset_index(drop=True)


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
        Section("One sentence", "How alike do the stages order the vocabulary?", make=one_sentence, needs=NEEDS),
        Section(
            "Many sentences", "Where on the way to the logits does the order arise?", make=many_sentences, needs=NEEDS
        ),
        Section(
            "Scores, sorted",
            "What do one stage's scores look like in the order of another's?",
            make=sorted_scores,
            needs=NEEDS,
        ),
        Section("The norm", "What do the norm's weights and biases look like?", make=norms, needs=NEEDS),
        Section("Right answers", "At which stage is the right answer among the best?", make=hits, needs=NEEDS),
        Section(
            "Small changes",
            "What happens when the period, the end token or the mask is taken away?",
            make=changes,
            needs=NEEDS,
        ),
        Section("Earlier layers", "What does the head say when it reads an earlier layer?", make=lens, needs=NEEDS),
    ),
)
