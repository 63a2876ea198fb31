"""Do gradients and attention follow coreference and parts of speech, as linguists annotate them? (Westera 2019)"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas

from whence.corpus.open_run import Run
from whence.errors import BadInput
from whence.measures.options import Contribution
from whence.measures.registry import given_by
from whence.stats import contrasts, correlations, means, regressions
from whence.stats.estimate import Estimate, estimate, paired
from whence.studies.frame.context import Context, by_document
from whence.studies.frame.published import published
from whence.studies.frame.sentences import Prepare, of_length
from whence.studies.frame.study import Absent, Claim, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import MORE, RELATED
from whence.text.readers.pairs import noun_pronoun
from whence.text.sentence import Sentence

PAPER = "Westera 2019"
# the paper's three measures -> their names in the paper
PRINTED = {"attention": "A", "gradient_local": "G", "gradient": "G*"}
MEASURES = ("attention", "gradient_local", "gradient", "effective", "norms", "contribution")
MAPS: tuple[str, ...] = ("attention", "gradient_local", "gradient", "contribution", "effective")
MAPS += ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
NOUNS, PRONOUNS = ("NOUN", "PROPN"), ("PRON",)
OPEN = ("ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB")
LEAST = 8  # pairs for a test
ERROR = 0.1  # standard error of a sketched norm


def _fitting(context: Context) -> Prepare:
    return of_length(3, context.amount(20, 40))


def _run(context: Context) -> Run:
    """Pairs of every word with every other: the window of neighbours is longer than any sentence."""
    names = given_by(context.model.gives, MEASURES)
    measures = [Contribution(error=ERROR) if name == "contribution" else name for name in names]
    sentences = context.texts(12, 500, _fitting(context))
    return context.run("pairs", measures, sentences, layers=_layers(context), neighbours=10_000)


def _layers(context: Context) -> tuple[int, ...] | None:
    """The layers that attend, so that all measures share them; all layers if none attends."""
    return context.model.anatomy.attending or None


def _coreference_run(context: Context) -> Run:
    """Sentences with a noun and a pronoun that are mentions; of a few sentences, those with a coreferent pair."""
    fitting = _fitting(context)

    def chosen(sentence: Sentence) -> Sentence | None:
        pairs = noun_pronoun(sentence)
        return fitting(sentence) if any(pair.coreferent or not context.quick for pair in pairs) else None

    measures = given_by(context.model.gives, PRINTED)
    return context.run("coreference", measures, context.texts(16, 500, chosen), layers=_layers(context), neighbours=0)


def _there(table: pandas.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in table]


def noun_to_pronoun(context: Context) -> pandas.DataFrame:
    """Pairs of a pronoun (target) and a noun of its sentence (source), coreferent or not."""
    try:
        run = _coreference_run(context)
    except BadInput as error:
        raise Absent("no sentence of the corpus has a noun and a pronoun marked as mentions") from error
    table = run.pairs[run.pairs["kind"] == "coreference"]
    pairs = table[table["target_upos"].isin(PRONOUNS) & table["source_upos"].isin(NOUNS)]
    pairs = pairs.assign(log_distance=np.log(pairs["distance"].abs()), coreferent=pairs["coreferent"].astype(bool))
    once = pairs[pairs["layer"] == pairs["layer"].min()]["coreferent"]
    if min(once.sum(), (~once).sum()) < LEAST:
        raise Absent(f"the sample has {once.sum()} coreferent and {(~once).sum()} other pairs")
    pairs.attrs["sample"] = f"{once.sum()} coreferent, {(~once).sum():,} other pairs"
    return by_document(pairs)


def words(context: Context) -> pandas.DataFrame:
    """Pairs of words, by whether the source is of an open class."""
    pairs = _run(context).pairs
    table = pairs[pairs["kind"] == "neighbour"].dropna(subset=["target_upos", "source_upos"])
    table = table[(table["target_upos"] != "PUNCT") & (table["source_upos"] != "PUNCT")]
    if table.empty:
        raise Absent("the corpus has no parts of speech; give a CoNLL-U file")
    table = by_document(table.assign(open=table["source_upos"].isin(OPEN)))
    table.attrs["sample"] = f"{(table['layer'] == table['layer'].min()).sum():,} pairs of words"
    return table


# group of pairs -> what its two kinds are called
KINDS = {"coreferent": ("coreferent", "not coreferent"), "open": ("open class", "closed class")}
# group of pairs -> where its rows come from
ROWS = {"coreferent": noun_to_pronoun, "open": words}


def by_layer(group: str, context: Context) -> pandas.DataFrame:
    """The contrast of the two groups in every layer, for each of the paper's measures."""
    rows = context.kept(ROWS[group])
    names = _there(rows, list(PRINTED))
    table = contrasts(rows, names, group, cluster="document", permutations=0, resamples=500)
    table["measure"] = table["value"].map(PRINTED)
    table.attrs["sample"] = rows.attrs["sample"]
    return table


def group_means(group: str, context: Context) -> pandas.DataFrame:
    """The means of both groups in every layer, with intervals by document."""
    rows, (inside, outside) = context.kept(ROWS[group]), KINDS[group]
    table = rows.assign(pairs=np.where(rows[group], inside, outside))
    names = _there(rows, list(PRINTED))
    table = means(table, names, ["layer", "pairs"], cluster="document", resamples=context.amount(200, 1000))
    table = table.assign(measure=table["value"].map(PRINTED)).sort_values(["measure", "pairs", "layer"])
    table.attrs["sample"] = rows.attrs["sample"]
    return table


def _ratio(table: pandas.DataFrame) -> str:
    """Where the first group is furthest above the second."""
    cells = table.pivot_table(index=["measure", "layer"], columns="pairs", values="mean", sort=False)
    inside, outside = next(kinds for kinds in KINDS.values() if kinds[0] in cells)
    ratio = cells[inside] / cells[outside]
    (measure, layer), most = ratio.idxmax(), ratio.max()
    return f"{inside.capitalize()}: {most:.1f} times as much {measure} in layer {layer} as {outside}"


def _largest(table: pandas.DataFrame) -> str:
    best = table.loc[table["g"].abs().idxmax()]
    return f"The largest difference: {best['measure']} in layer {best['layer']}, {best['g']:+.2f} standard deviations"


def beside(group: str, name: str, context: Context) -> pandas.DataFrame:
    """t statistics by layer, and over all layers in the last row."""
    rows, table = context.kept(ROWS[group]), by_layer(group, context)
    overall = contrasts(rows, _there(rows, list(PRINTED)), group, by=[], permutations=0)
    return _t_beside(table, overall, name)


def _t_beside(table: pandas.DataFrame, overall: pandas.DataFrame, name: str) -> pandas.DataFrame:
    ours = table.pivot(index="layer", columns="measure", values="t").rename(index=str)
    ours.loc["all"] = overall.set_index(overall["value"].map(PRINTED))["t"]
    theirs = pandas.DataFrame(published("westera2019", f"{name}_t_by_layer")).rename(index=lambda place: str(place + 1))
    theirs.loc["all"] = pandas.Series(published("westera2019", f"{name}_t_all_layers"))
    both = theirs.add_prefix("published, ").join(ours.add_prefix("ours, "), how="outer")
    order = sorted(both.index, key=lambda layer: (layer == "all", layer.zfill(4)))
    return both.loc[order, sorted(both.columns)].rename_axis("layer").reset_index()


def _scaled(rows: pandas.DataFrame, name: str) -> pandas.DataFrame:
    """The rows with the measure in standard deviations."""
    if name not in rows:
        raise Absent(f"the model has no {name.replace('_', ' ')}")
    return rows.assign(size=rows[name] / rows[name].std())


def difference(group: str, name: str, context: Context) -> Estimate:
    """Of the two groups' means over all layers, in standard deviations."""
    return estimate(_scaled(context.kept(ROWS[group]), name), "size", group, lambda of: of[True] - of[False])


def with_distance(name: str, context: Context) -> Estimate:
    """The coefficient of coreference beside that of distance, by least squares within layers."""
    rows = _scaled(context.kept(noun_to_pronoun), name).astype({"coreferent": np.float64})
    columns = ["size", "coreferent", "log_distance"]
    within = rows[columns] - rows.groupby("layer")[columns].transform("mean")
    return paired(within.to_numpy(), rows["document"].tolist(), _coefficient)


def _coefficient(rows: np.ndarray) -> float:
    return float(np.linalg.lstsq(rows[:, 1:], rows[:, 0], rcond=None)[0][0])


def distance(context: Context) -> pandas.DataFrame:
    rows = context.kept(noun_to_pronoun)
    numbers = rows.assign(coreferent=rows["coreferent"].astype(float))
    terms, names = ["coreferent", "log_distance"], _there(rows, list(PRINTED))
    table = regressions(numbers, names, terms, by=["layer"], cluster="document")
    columns = ["layer", "value", "coefficient", "low", "high", "p", "p_corrected", "n", "clusters"]
    return table[table["term"] == "coreferent"][columns]


def persistence(context: Context) -> dict[str, Estimate]:
    """The note on G* on the paper's poster: its effect persists, and comes from G in the first layer."""
    rows = context.kept(words)
    through, local = (_scaled(rows, name) for name in ("gradient", "gradient_local"))
    if rows["layer"].nunique() < 2:
        raise Absent("the model has one layer")
    return {
        "G*, its smallest layer": estimate(through, "size", ["open", "layer"], lambda of: (of[True] - of[False]).min()),
        "G, layer 1 less later": estimate(local, "size", ["open", "layer"], _first_less_later),
    }


def _first_less_later(means: pandas.Series) -> float:
    by_layer = means[True] - means[False]
    return float(by_layer.iloc[0] - by_layer.iloc[1:].mean())


def part_of_speech_pairs(context: Context) -> pandas.DataFrame:
    rows = context.kept(words)
    names = _there(rows, list(PRINTED))
    layers = [_flows(of, names).assign(layer=str(layer)) for layer, of in rows.groupby("layer")]
    return pandas.concat([_flows(rows, names).assign(layer="all"), *layers], ignore_index=True)


def _flows(rows: pandas.DataFrame, names: Sequence[str]) -> pandas.DataFrame:
    """The mean of each measure between two parts of speech, relative to its mean over all of them."""
    grouped = rows.groupby(["target_upos", "source_upos"])
    means = grouped[list(names)].mean()[grouped.size() >= LEAST]
    long = (means / means.mean()).reset_index()
    long = long.melt(["target_upos", "source_upos"], var_name="measure", value_name="flow")
    return long.assign(measure=long["measure"].map(PRINTED))


def _strongest(table: pandas.DataFrame) -> str:
    top = table.loc[table["flow"].idxmax()]
    return f"{top['measure']} from {top['source_upos']} to {top['target_upos']} is {top['flow']:.1f} times the mean"


def _every_pair(context: Context) -> pandas.DataFrame:
    pairs = _run(context).pairs
    return by_document(pairs[pairs["kind"] == "neighbour"])


def between_measures(context: Context) -> pandas.DataFrame:
    """Spearman of every two measures, both ways, with intervals by document."""
    rows = context.kept(_every_pair)
    names = _there(rows, MAPS)
    table = correlations(rows, names, by=[], cluster="document", resamples=context.amount(20, 200))
    turned = table.rename(columns={"first": "second", "second": "first"})
    same = pandas.DataFrame({"first": names, "second": names, "r": 1.0})
    square = pandas.concat([table, turned, same], ignore_index=True)
    return square.sort_values(["first", "second"], key=lambda column: column.map(names.index))


def g_and_a(context: Context) -> Estimate:
    """Pearson's correlation of the ranks, from their sums by document."""
    rows = context.kept(_every_pair)
    if not {"attention", "gradient_local"} <= set(rows):
        raise Absent("the model does not attend")
    ranks = rows[["attention", "gradient_local"]].rank().to_numpy() / len(rows) - 0.5
    (x, y), documents = ranks.T, rows["document"]
    sums = pandas.DataFrame({"n": np.ones(len(x)), "x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y})
    table = sums.groupby(documents.to_numpy()).sum()
    return paired(table.to_numpy(), table.index.tolist(), _pearson)


def _pearson(sums: np.ndarray) -> float:
    n, x, y, xx, yy, xy = sums.sum(axis=0)
    return float((xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n)))


BESIDE = (
    "t statistics grow with the sample, so sizes are not to be compared. Theirs: bert-base-cased with dropout,"
    " 500 sentences of OntoNotes (coreference) and GUM (parts of speech), equal variances; ours: Welch's test."
)
EFFECTS = {"kind": "lines", "x": "layer", "y": "g", "color": "measure", "share": False}
EFFECTS |= {"y_title": "difference in standard deviations", "rule": (0.0, "no difference")}
EFFECTS |= {"order": tuple(PRINTED.values()), "measures": {printed: name for name, printed in PRINTED.items()}}
MEANS = {"kind": "lines", "x": "layer", "y": "mean", "color": "pairs", "by": "measure", "share": False}
MEANS |= {"own_scales": True, "y_title": "mean over pairs", "columns": 2}


def _effects(group: str, name: str, answers: str) -> tuple[Figure, Figure, Table]:
    def drawn(table: pandas.DataFrame) -> pandas.DataFrame:
        return table[["layer", "measure", "g", "t", "difference"]]

    figure = Figure(
        name, f"{PAPER}, {answers}", partial(by_layer, group), EFFECTS, _largest, "Hedges' g by layer", only=drawn
    )
    both = Figure(
        f"{name}_means",
        f"{PAPER}, {answers}",
        partial(group_means, group),
        MEANS,
        _ratio,
        "means of both groups of pairs, bands are 95 % intervals by document",
    )
    answers = "the published t statistics by layer and over all layers"
    return both, figure, Table(f"{name}_t", answers, partial(beside, group, name), BESIDE)


def _claims(says: str, group: str, name: str) -> tuple[Claim, ...]:
    """One for each of the paper's measures."""
    return tuple(
        Claim(
            f"{says} ({printed}).",
            partial(difference, group, measure),
            MORE,
            ("westera2019", f"{name}_t_all_layers", printed),
        )
        for measure, printed in PRINTED.items()
    )


COREFERENCE: Items = (
    *_effects("coreferent", "coreference", "coreference by layer"),
    *_claims("More flows from a noun to a pronoun when they corefer", "coreferent", "coreference"),
    Table(
        "coreference_with_distance",
        "the note that the effect persists when distance is taken into account",
        distance,
        "Least squares of each measure on coreference and the logarithm of the distance in words, errors by document.",
    ),
    *(
        Claim(
            f"The effect of coreference persists when distance is taken into account ({printed}).",
            partial(with_distance, measure),
            MORE,
        )
        for measure, printed in PRINTED.items()
    ),
)
CLASSES: Items = (
    *_effects("open", "open_closed", "open against closed classes"),
    *_claims("Words of open classes give more than those of closed classes", "open", "open_closed"),
    Claim(
        "From the embeddings (G*) open classes give more in every layer, which is due to the first block (G).",
        persistence,
        MORE,
    ),
)
PAIRS: Items = (
    Figure(
        "upos_pairs",
        f"{PAPER}, parts of speech",
        part_of_speech_pairs,
        {"kind": "grid", "x": "source_upos", "y": "target_upos", "value": "flow", "by": "measure", "share": False}
        | {"x_title": "from", "y_title": "to", "order": lambda table: tuple(sorted(table["source_upos"].unique()))},
        _strongest,
        "mean over layers and pairs, relative to the measure's mean",
        "The table has every layer too.",
        only=lambda table: table[table["layer"] == "all"],
    ),
)
AGREEMENT: Items = (
    Figure(
        "between_measures",
        f"{PAPER}, the correlation of G and A",
        between_measures,
        {"kind": "grid", "x": "second", "y": "first", "value": "r", "signed": True, "share": False}
        | {"limits": (-1.0, 1.0), "x_title": "", "y_title": "", "order": lambda table: tuple(table["first"].unique())},
        lambda table: "How alike the measures are",
        "Spearman over all pairs of words and layers",
        only=lambda table: table[["first", "second", "r"]],
    ),
    Claim(
        "Gradients and attention are correlated, but far from the same.",
        g_and_a,
        RELATED,
        ("westera2019", "spearman_G_A"),
    ),
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
        Section("Coreference", "Does more flow from a noun to a pronoun that means the same?", COREFERENCE, NEEDS),
        Section(
            "Open and closed classes",
            "Do nouns, verbs and adjectives give more than function words?",
            CLASSES,
            NEEDS,
        ),
        Section(
            "Pairs of parts of speech",
            "Between which kinds of words is the flow strongest?",
            PAIRS,
            NEEDS,
        ),
        Section(
            "Between measures",
            "Do attention, gradients, norms and contributions agree?",
            AGREEMENT,
            NEEDS,
        ),
    ),
)
