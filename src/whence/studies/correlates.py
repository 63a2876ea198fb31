"""Do gradients and attention follow coreference and parts of speech, as linguists annotate them? (Westera 2019)"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pandas

from whence.corpus.open_run import Run
from whence.errors import BadInput
from whence.measures.options import Contribution
from whence.measures.registry import given_by
from whence.plot.drawing import Drawing
from whence.stats import contrasts, correlations, regressions
from whence.studies.frame.context import Context
from whence.studies.frame.published import published
from whence.studies.frame.sentences import Chosen, of_length
from whence.studies.frame.study import Beside, Finding, Item, Left, Section, Shown, Study, concluded
from whence.text.readers.pairs import noun_pronoun
from whence.text.sentence import Sentence

# the paper's three measures -> their names in the paper
PRINTED = {"attention": "A", "gradient_local": "G", "gradient": "G*"}
MEASURES = ("attention", "gradient_local", "gradient", "effective", "norms", "contribution")
NOUNS, PRONOUNS = ("NOUN", "PROPN"), ("PRON",)
OPEN = ("ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB")
LEVEL = 0.05
LEAST = 8  # pairs for a test
ERROR = 0.1  # standard error of a sketched norm


def _run(context: Context) -> Run:
    """Pairs of every word with every other: the window of neighbours is longer than any sentence."""
    sentences = Chosen(context.corpus, context.amount(6, 500), of_length(3, context.amount(20, 40)))
    names = given_by(context.model.gives, MEASURES)
    measures = [Contribution(error=ERROR) if name == "contribution" else name for name in names]
    return context.run("pairs", measures, sentences, layers=_layers(context), neighbours=10_000)


def _layers(context: Context) -> tuple[int, ...] | None:
    """The layers that attend, so that all measures share them; all layers if none attends."""
    return context.model.anatomy.attending or None


def _coreference_run(context: Context) -> Run:
    """Sentences with a noun and a pronoun that are mentions, coreferent or not."""

    short = of_length(3, context.amount(20, 40))

    def chosen(sentence: Sentence) -> Sentence | None:
        return short(sentence) if noun_pronoun(sentence) else None

    sentences = Chosen(context.corpus, context.amount(16, 500), chosen)
    measures = given_by(context.model.gives, PRINTED)
    return context.run("coreference", measures, sentences, layers=_layers(context), neighbours=0)


def _small(p: float) -> str:
    """A p-value that is too small for a float is given as a bound, not as zero."""
    return f"= {p:.2g}" if p > 0 else f"< {sys.float_info.min:.0e}"


def _verdict(difference: float, p: float) -> bool | None:
    """The sign of the difference; None if the test does not reject."""
    return bool(difference > 0) if p < LEVEL else None


def _maps(run: Run) -> list[str]:
    known = ("attention", "gradient_local", "gradient", "contribution", "effective")
    names = (*known, "attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
    return [name for name in names if name in run.pairs]


def _noun_to_pronoun(run: Run) -> pandas.DataFrame:
    """Pairs of a pronoun (target) and a noun of its sentence (source), coreferent or not."""
    table = run.pairs[run.pairs["kind"] == "coreference"]
    pairs = table[table["target_upos"].isin(PRONOUNS) & table["source_upos"].isin(NOUNS)]
    return pairs.assign(far=pairs["distance"].abs(), coreferent=pairs["coreferent"].astype(bool))


def coreference(context: Context) -> Iterator[Item]:
    try:
        run = _coreference_run(context)
    except BadInput:
        yield Left("coreference", "no sentence of the corpus has a noun and a pronoun marked as mentions")
        return
    pairs = _noun_to_pronoun(run)
    counts = pairs[pairs["layer"] == pairs["layer"].min()]["coreferent"].value_counts().to_dict()
    if min(counts.get(True, 0), counts.get(False, 0)) < LEAST:
        why = f"the sample has {counts.get(True, 0)} coreferent and {counts.get(False, 0)} other pairs"
        yield Left("the contrast of coreferent and other pairs", why)
        return
    names = [name for name in PRINTED if name in run.pairs]
    table = contrasts(pairs, names, "coreferent", cluster="document", resamples=500)
    table["measure"] = table["value"].map(PRINTED)
    yield _effects(
        context, table, "coreference", "coreference by layer", f"{counts[True]} coreferent, {counts[False]} other pairs"
    )
    everything = contrasts(pairs, names, "coreferent", by=[], cluster="document")
    yield _beside(table, everything, "coreference")
    for name, row in everything.set_index("value").iterrows():
        yield concluded(
            f"More flows from a noun to a pronoun when they corefer ({PRINTED[str(name)]}).",
            _verdict(row["difference"], row["p_corrected"]),
            f"all layers: t = {row['t']:.2f}, g = {row['g']:.2f}, corrected p {_small(row['p_corrected'])}",
        )
    yield from _distance(pairs, names)


def _distance(pairs: pandas.DataFrame, names: Sequence[str]) -> Iterator[Item]:
    """The same with distance as a covariate."""
    numbers = pairs.assign(coreferent=pairs["coreferent"].astype(float), log_distance=np.log(pairs["far"]))
    table = regressions(numbers, names, ["coreferent", "log_distance"], by=["layer"], cluster="document")
    effect = table[table["term"] == "coreferent"]
    yield Beside(
        "coreference_with_distance",
        "the note that the effect persists when distance is taken into account",
        effect[["layer", "value", "coefficient", "low", "high", "p", "p_corrected", "n", "clusters"]],
        "Least squares of each measure on coreference and the logarithm of the distance in words, errors by document.",
    )
    for name, rows in effect.groupby("value", sort=False):
        positive, sure = int((rows["coefficient"] > 0).sum()), int((rows["p"] < LEVEL).sum())
        yield concluded(
            f"The effect of coreference persists when distance is taken into account ({PRINTED[str(name)]}).",
            bool(positive > len(rows) / 2),
            f"positive in {positive} of {len(rows)} layers, p < {LEVEL} in {sure}",
        )


def _effects(context: Context, table: pandas.DataFrame, name: str, answers: str, sample: str) -> Shown:
    best = table.loc[table["g"].abs().idxmax()]
    drawn = table[["layer", "measure", "g", "t", "difference", "p_corrected"]]
    return Shown(
        name,
        f"Westera 2019, {answers}",
        Drawing(
            "lines",
            drawn,
            "layer",
            "g",
            f"The largest difference: {best['measure']} in layer {best['layer']}, {best['g']:+.2f} standard deviations",
            f"Hedges' g by layer; {sample}; {context.about}",
            color="measure",
            share=False,
            y_title="difference in standard deviations",
            rule=(0.0, "no difference"),
        ),
        table=table,
    )


def _beside(table: pandas.DataFrame, overall: pandas.DataFrame, name: str) -> Beside:
    """t statistics by layer, and over all layers in the last row."""
    ours = table.pivot(index="layer", columns="measure", values="t").rename(index=str)
    ours.loc["all"] = overall.set_index(overall["value"].map(PRINTED))["t"]
    theirs = pandas.DataFrame(published("westera2019", f"{name}_t_by_layer")).rename(index=lambda place: str(place + 1))
    theirs.loc["all"] = pandas.Series(published("westera2019", f"{name}_t_all_layers"))
    both = theirs.add_prefix("published, ").join(ours.add_prefix("ours, "), how="outer")
    order = sorted(both.index, key=lambda layer: (layer == "all", layer.zfill(4)))
    both = both.loc[order, sorted(both.columns)].rename_axis("layer").reset_index()
    differs = (
        "t statistics grow with the sample, so sizes are not to be compared. Theirs: bert-base-cased with dropout,"
        " 500 sentences of OntoNotes (coreference) and GUM (parts of speech), equal variances; ours: Welch's test."
    )
    return Beside(f"{name}_t", "the published t statistics by layer and over all layers", both, differs)


def _words(run: Run) -> pandas.DataFrame:
    table = run.pairs[run.pairs["kind"] == "neighbour"].dropna(subset=["target_upos", "source_upos"])
    table = table[(table["target_upos"] != "PUNCT") & (table["source_upos"] != "PUNCT")]
    return table.assign(open=table["source_upos"].isin(OPEN))


def open_closed(context: Context) -> Iterator[Item]:
    run = _run(context)
    words = _words(run)
    if words.empty:
        yield Left("open and closed classes", "the corpus has no parts of speech; give a CoNLL-U file")
        return
    names = [name for name in PRINTED if name in run.pairs]
    table = contrasts(words, names, "open", cluster="document", permutations=0)
    table["measure"] = table["value"].map(PRINTED)
    count = int((words["layer"] == words["layer"].min()).sum())
    yield _effects(context, table, "open_closed", "open against closed classes", f"{count:,} pairs of words")
    overall = contrasts(words, names, "open", by=[], cluster="document", permutations=0)
    yield _beside(table, overall, "open_closed")
    for name, row in overall.set_index("value").iterrows():
        yield concluded(
            f"Words of open classes give more than those of closed classes ({PRINTED[str(name)]}).",
            _verdict(row["difference"], row["p_corrected"]),
            f"all layers: t = {row['t']:.2f}, g = {row['g']:.2f}, corrected p {_small(row['p_corrected'])}",
        )
    if (table["value"] == "gradient").any():
        yield _persistent(table)


def _persistent(table: pandas.DataFrame) -> Finding:
    """The note on G* on the paper's poster: its effect persists, and comes from G in the first layer."""
    sizes = table.pivot(index="layer", columns="value", values="g")
    through, local = sizes["gradient"], sizes["gradient_local"]
    first, later = local.iloc[0], local.iloc[1:].mean()
    return concluded(
        "From the embeddings (G*) open classes give more in every layer, which is due to the first block (G).",
        bool((through > 0).all() and first > 0 and first > later) if len(sizes) > 1 else None,
        f"g of G* {through.min():+.2f} to {through.max():+.2f}; of G in layer 1 {first:+.2f}, later {later:+.2f}",
    )


def part_of_speech_pairs(context: Context) -> Iterator[Item]:
    run = _run(context)
    words = _words(run)
    if words.empty:
        yield Left("pairs of parts of speech", "the corpus has no parts of speech; give a CoNLL-U file")
        return
    names = [name for name in PRINTED if name in run.pairs]
    table = _flows(words, names)
    by_layer = [_flows(rows, names).assign(layer=str(layer)) for layer, rows in words.groupby("layer")]
    top = table.loc[table["flow"].idxmax()]
    yield Shown(
        "upos_pairs",
        "Westera 2019, parts of speech",
        Drawing(
            "grid",
            table,
            "source_upos",
            "target_upos",
            f"{top['measure']} from {top['source_upos']} to {top['target_upos']} is {top['flow']:.1f} times the mean",
            f"mean over layers and pairs, relative to the measure's mean; {context.about}",
            value="flow",
            by="measure",
            share=False,
            x_title="from",
            y_title="to",
        ),
        table=pandas.concat([table.assign(layer="all"), *by_layer], ignore_index=True),
        note="The table has every layer too.",
    )


def _flows(words: pandas.DataFrame, names: Sequence[str]) -> pandas.DataFrame:
    """The mean of each measure between two parts of speech, relative to its mean over all of them."""
    grouped = words.groupby(["target_upos", "source_upos"])
    means = grouped[list(names)].mean()[grouped.size() >= LEAST]
    long = (
        (means / means.mean()).reset_index().melt(["target_upos", "source_upos"], var_name="measure", value_name="flow")
    )
    return long.assign(measure=long["measure"].map(PRINTED))


def between_measures(context: Context) -> Iterator[Item]:
    run = _run(context)
    every = run.pairs[run.pairs["kind"] == "neighbour"]
    names = _maps(run)
    table = correlations(every, names, by=[], cluster="document", resamples=context.amount(20, 200))
    turned = table.rename(columns={"first": "second", "second": "first"})
    same = pandas.DataFrame({"first": names, "second": names, "r": 1.0})
    square = pandas.concat([table, turned, same])[["first", "second", "r"]]
    order = {name: place for place, name in enumerate(names)}
    square = square.sort_values(["first", "second"], key=lambda column: column.map(order))
    yield Shown(
        "between_measures",
        "Westera 2019, the correlation of G and A",
        Drawing(
            "grid",
            square,
            "second",
            "first",
            "How alike the measures are",
            f"Spearman over all pairs of words and layers; {context.about}",
            value="r",
            signed=True,
            share=False,
            limits=(-1.0, 1.0),
            x_title="",
            y_title="",
            order=names,
        ),
        table=table,
    )
    if {"attention", "gradient_local"} <= set(names):
        row = table[(table["first"] == "attention") & (table["second"] == "gradient_local")].iloc[0]
        theirs = published("westera2019", "spearman_G_A")
        yield concluded(
            "Gradients and attention are correlated, but far from the same.",
            bool(0.1 < row["r"] < 0.9),
            f"Spearman of G and A {row['r']:.2f} [{row['low']:.2f}, {row['high']:.2f}]; published {theirs}",
        )


NEEDS = frozenset({"derivatives"})
STUDY = Study(
    name="correlates",
    title="What gradients and attention have to do with language",
    asks=(
        "If a pronoun refers to a noun, does more flow between them? Do words with meaning give more than function"
        " words? And do the ways to measure flow agree?"
    ),
    paper="Westera (2019). Some linguistic correlates of gradients and attention weights in BERT. BlackboxNLP.",
    data="a treebank with coreference such as --data en_gum-ud-dev.conllu",
    sections=(
        Section(
            "Coreference", "Does more flow from a noun to a pronoun that means the same?", make=coreference, needs=NEEDS
        ),
        Section(
            "Open and closed classes",
            "Do nouns, verbs and adjectives give more than function words?",
            make=open_closed,
            needs=NEEDS,
        ),
        Section(
            "Pairs of parts of speech",
            "Between which kinds of words is the flow strongest?",
            make=part_of_speech_pairs,
            needs=NEEDS,
        ),
        Section(
            "Between measures",
            "Do attention, gradients, norms and contributions agree?",
            make=between_measures,
            needs=NEEDS,
        ),
    ),
)
