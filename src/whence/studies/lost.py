"""Is a token lost to the probe where little of it is left and much is mixed in? (both halves of Brunner et al. 2020)"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas

from whence.corpus.identify import identify
from whence.errors import BadInput
from whence.measures.options import Contribution, Options
from whence.measures.registry import WHOLE_BLOCK, given_by
from whence.stats import correlations, regressions
from whence.stats.estimate import Estimate, estimate, paired
from whence.studies.frame.context import Context, by_document, called, spearman
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Absent, Claim, Figure, Section, Study, Table
from whence.studies.frame.verdict import MORE
from whence.studies.token_experiments import long_enough
from whence.text.readers.frequency import frequencies, ranks

SENTENCES = (60, 408)  # as many as MRPC has
FOLDS = (6, 10)  # each tests 15 % of the sentences; a token that none tested is left out
ERROR = 0.05  # standard error of a sketched contribution
# probe -> its column
PROBES = {"linear": "lost", "naive": "lost without a probe"}
LOST, UNPROBED = PROBES.values()
KEPT, MIXED, BLOCK = "kept of itself", "mixed in by attention", "mixed in by the block"
COLUMNS = {
    "contribution_own": KEPT,
    "mixing_attnresln_n": MIXED,
    f"mixing_{WHOLE_BLOCK}": BLOCK,
}
RANK, LENGTH = "log frequency rank", "tokens of the sentence"
OPEN = ("ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB")
FIFTHS = 5
LEAST = 10  # tokens for a share of them
FEWEST = 3  # tokens that a layer has to lose before anything is said of which


def _sentences(context: Context) -> Chosen:
    return context.texts(*SENTENCES, long_enough(context.model))


def tokens(context: Context) -> pandas.DataFrame:
    """One row per token and layer, without special tokens: whether probes lost it, what it keeps, what is mixed in.

    Every token is looked for by probes that were fitted on other sentences; the share of the folds that lost it.
    """
    sentences = _sentences(context)
    measures: list[str | Options] = [
        Contribution(error=ERROR),
        "mixing",
        *given_by(context.model.gives, [f"mixing_{WHOLE_BLOCK}"]),
    ]
    table = context.run("lost", measures, sentences).tokens.rename(columns=COLUMNS)
    for probe, name in PROBES.items():
        table = table.merge(_found(context, sentences, probe, name), on=["sentence", "position", "layer"])
    table[RANK] = np.log10(_ranks(context, table))
    table[LENGTH] = table.groupby(["sentence", "layer"])["position"].transform("size").astype(float)
    table = by_document(table[~table["is_special"]]).reset_index(drop=True)
    if table.empty:
        raise Absent("no token of the sample was tested")
    return table


def _found(context: Context, sentences: Chosen, probe: str, name: str) -> pandas.DataFrame:
    identified = identify(
        context.model,
        list(sentences),
        probe,
        folds=context.amount(*FOLDS),
        tokens=True,
        truncate=True,
        cache=context.out,
        progress=context.progress_of(f"{probe} probe: {called(context.corpus)}"),
    )
    rows = identified["found"].to_dataframe().reset_index()[["sentence", "position", "layer", "found"]]
    return rows.assign(**{name: 1 - rows["found"]}).drop(columns="found")


def _ranks(context: Context, table: pandas.DataFrame) -> pandas.Series:
    """Frequency ranks from the user's list, or from counts in the sample itself."""
    if context.frequency is None:
        counts = table[table["layer"] == table["layer"].min()]["token_id"].value_counts()
        return table["token_id"].map(counts.rank(ascending=False, method="min"))
    listed = frequencies(context.frequency)
    return pandas.Series(ranks(table["token_id" if listed.by_id else "word"].tolist(), listed).ranks, table.index)


def _all(context: Context) -> pandas.DataFrame:
    table: pandas.DataFrame = context.kept(tokens)
    return table


def _sample(context: Context, table: pandas.DataFrame) -> str:
    count = len(table) // table["layer"].nunique()
    return f"{count:,} tokens of {table['sentence'].nunique():,} sentences, {context.amount(*FOLDS)} folds"


def _losing(table: pandas.DataFrame, name: str = LOST) -> pandas.DataFrame:
    """The layers in which the probe loses some tokens and not all: of the others there is nothing to say."""
    sums = table.groupby("layer")[name].agg(["sum", "size"])
    layers = sums[(sums["sum"] >= FEWEST) & (sums["size"] - sums["sum"] >= FEWEST)].index
    return table[table["layer"].isin(layers)]


def _measured(table: pandas.DataFrame) -> list[str]:
    return [name for name in COLUMNS.values() if name in table and table[name].notna().any()]


def by_layer(context: Context) -> pandas.DataFrame:
    """The share of tokens lost, and what tokens keep and have mixed in, layer by layer."""
    table = _all(context)
    names = [*PROBES.values(), *_measured(table)]
    means = table.groupby("layer", as_index=False)[names].mean().melt("layer", var_name="of", value_name="share")
    means.attrs["sample"] = _sample(context, table)
    return means


def associations(context: Context) -> pandas.DataFrame:
    """Spearman's correlation of being lost with each measure, by layer and probe, with intervals by document."""
    table, rows = _all(context), []
    for name in PROBES.values():
        losing = _losing(table, name)
        for measure in (*_measured(table), RANK) if len(losing) else ():
            pair = correlations(
                losing, [name, measure], cluster="document", resamples=context.amount(200, 1000), correction=None
            )
            rows.append(pair.assign(of=measure, probe=name)[["probe", "layer", "of", "r", "low", "high", "n"]])
    if not rows:
        raise Absent("the probes find every token of the sample in every layer")
    joined = pandas.concat(rows, ignore_index=True)
    joined.attrs["sample"] = _sample(context, table)
    return joined


def terms(context: Context) -> pandas.DataFrame:
    """Least squares of being lost on everything at once, by layer: points per standard deviation."""
    losing = _losing(_all(context))
    names = [*_measured(losing), RANK, LENGTH]
    if losing.empty:
        raise Absent("the probe finds every token of the sample in every layer")
    complete = losing.dropna(subset=names)
    scaled = complete.groupby("layer")[names].transform(lambda values: (values - values.mean()) / values.std())
    varied = [name for name in names if scaled[name].notna().all()]
    try:
        fitted = regressions(
            complete[[LOST, "layer", "document"]].join(scaled[varied]), LOST, varied, cluster="document"
        )
    except BadInput as error:
        raise Absent(str(error).rstrip(".")) from error
    fitted = fitted[fitted["term"] != "intercept"]
    return fitted[["layer", "term", "coefficient", "low", "high", "p_corrected", "n", "clusters"]].reset_index(
        drop=True
    )


def by_fifth(context: Context) -> pandas.DataFrame:
    """The share of lost tokens among those that keep least, and so on to those that keep most; fifths of a layer."""
    return _fifths(context, _measured(_all(context)))


def by_frequency(context: Context) -> pandas.DataFrame:
    """The same by the frequency of the token."""
    return _fifths(context, [RANK])


def _fifths(context: Context, names: list[str]) -> pandas.DataFrame:
    losing = _losing(_all(context))
    if losing.empty:
        raise Absent("the probe finds every token of the sample in every layer")
    tables = []
    for name in names:
        order = losing.groupby("layer")[name].rank(pct=True, method="average")
        fifth = np.ceil(order * FIFTHS).clip(1, FIFTHS)
        grouped = losing.assign(fifth=fifth).dropna(subset="fifth").groupby(["layer", "fifth"], as_index=False)
        tables.append(grouped.agg(lost=(LOST, "mean"), n=(LOST, "size")).assign(of=name))
    table = pandas.concat(tables, ignore_index=True).astype({"fifth": int})
    table = table[table["n"] >= LEAST]
    if table.empty:
        raise Absent(f"no fifth of the tokens has {LEAST}")
    table = table.assign(layer=lambda rows: "layer " + rows["layer"].astype(str))
    table.attrs["sample"] = _sample(context, losing)
    return table.reset_index(drop=True)


def by_upos(context: Context) -> pandas.DataFrame:
    """By part of speech, in the last layer: how many are lost, what is kept and mixed in, each as a share."""
    table = _all(context)
    if "upos" not in table or table["upos"].isna().all():
        raise Absent("the corpus has no parts of speech; give a CoNLL-U file (--data file.conllu)")
    last = table[table["layer"] == table["layer"].max()]
    names = [*PROBES.values(), *_measured(table)]
    groups = last.groupby("upos")
    means = groups[names].mean()[groups.size() >= LEAST].sort_values(LOST, ascending=False)
    if means.empty:
        raise Absent(f"no part of speech has {LEAST} tokens")
    long = means.reset_index().melt("upos", var_name="of", value_name="share")
    long["n"] = long["upos"].map(groups.size())
    long.attrs["sample"] = f"last layer; {_sample(context, table)}"
    return long


def _agreement(context: Context, read: Callable[[pandas.DataFrame], float]) -> Estimate:
    """The mean over the layers that lose tokens of a statistic of their rows."""
    losing = _losing(_all(context))
    if losing.empty:
        raise Absent("the probe finds every token of the sample in every layer")
    names = ["layer", LOST, KEPT, MIXED, RANK]
    rows = losing[[*names, "document"]].dropna()
    layers = sorted(rows["layer"].unique())

    def mean(values: np.ndarray) -> float:
        table = pandas.DataFrame(values, columns=names)
        by_layer = [read(table[table["layer"] == layer]) for layer in layers]
        return float(np.nanmean(by_layer)) if np.isfinite(by_layer).any() else np.nan

    return paired(rows[names].to_numpy(dtype=np.float64), rows["document"].tolist(), mean)


def with_lost(context: Context, name: str, sign: int) -> Estimate:
    return _agreement(context, lambda rows: sign * spearman(rows[name], rows[LOST]))


def held(context: Context, name: str, constant: str, sign: int) -> Estimate:
    """Spearman's correlation with being lost, another measure held constant."""

    def read(rows: pandas.DataFrame) -> float:
        both = spearman(rows[name], rows[LOST])
        of_name, of_lost = spearman(rows[name], rows[constant]), spearman(rows[LOST], rows[constant])
        rest = (1 - of_name**2) * (1 - of_lost**2)
        return sign * (both - of_name * of_lost) / np.sqrt(rest) if rest > 0 else np.nan

    return _agreement(context, read)


def closed_less_open(context: Context) -> Estimate:
    """How much larger the lost share of function words is, mean over layers."""
    table = _losing(_all(context))
    if table.empty or "upos" not in table or table["upos"].isna().all():
        raise Absent("the corpus has no parts of speech, or no token is lost")
    words = table[table["upos"].notna() & (table["upos"] != "PUNCT")]
    kinds = words.assign(open=words["upos"].isin(OPEN))
    return estimate(kinds, LOST, "open", lambda means: float(means.get(False, np.nan) - means.get(True, np.nan)))


def _last(table: pandas.DataFrame, of: str) -> float:
    rows = table[(table["of"] == of) & (table["layer"] == table["layer"].max())]
    return float(rows["share"].iloc[0])


def _strongest(table: pandas.DataFrame) -> str:
    row = table.loc[table["r"].abs().idxmax()]
    return f"Strongest: {row['of']} in layer {row['layer']}, Spearman {row['r']:+.2f} with being {row['probe']}"


def _ends(table: pandas.DataFrame) -> str:
    rows = table[table["layer"] == table["layer"].iloc[-1]]
    of = rows["of"].iloc[0]
    rows = rows[rows["of"] == of].sort_values("fifth")
    first, last = rows["lost"].iloc[0], rows["lost"].iloc[-1]
    return f"Of the fifth lowest in {of}, {first:.1%} are lost in {rows['layer'].iloc[0]}; of the highest, {last:.1%}"


def _upos_ends(table: pandas.DataFrame) -> str:
    rows = table[table["of"] == LOST].sort_values("share", ascending=False)
    most, least = rows.iloc[0], rows.iloc[-1]
    return f"{most['upos']} is lost most, {most['share']:.1%}; {least['upos']} least, {least['share']:.1%}"


NEEDS = frozenset({"derivatives", "attention", "rows", "values", "norms"})
BANDS = "bands are 95 % intervals by document"
STUDY = Study(
    name="lost",
    title="Which tokens are lost, and why",
    asks=(
        "A probe finds most tokens again in their hidden states. Are those that it does not find the ones that keep"
        " little of themselves and have much mixed in?"
    ),
    paper=(
        "No paper's study. It joins sections 4 and 5 of Brunner et al. (2020), On identifiability in transformers,"
        " ICLR, with the mixing ratios of Kobayashi et al. (2021)."
    ),
    data="a treebank such as --data en_gum-ud-dev.conllu, or any text",
    sections=(
        Section(
            "Lost, kept, mixed",
            "How many tokens are lost in each layer, and what do tokens keep?",
            (
                Figure(
                    "lost_layers",
                    "Brunner et al. 2020, figures 2a and 3a, on the same tokens",
                    by_layer,
                    {"kind": "lines", "x": "layer", "y": "share", "color": "of", "limits": (0.0, 1.0)},
                    lambda table: (
                        f"In the last layer {_last(table, LOST):.1%} of tokens are lost; they keep"
                        f" {_last(table, KEPT):.0%} of themselves on average"
                    ),
                    "means over tokens",
                ),
            ),
            NEEDS,
        ),
        Section(
            "Token by token",
            "Are the tokens that are lost those that keep little?",
            (
                Figure(
                    "lost_associations",
                    "not in the papers: who is lost, by layer",
                    associations,
                    {"kind": "lines", "x": "layer", "y": "r", "color": "of", "by": "probe", "share": False}
                    | {"y_title": "Spearman with being lost", "rule": (0.0, "none")},
                    _strongest,
                    f"special tokens left out; {BANDS}",
                ),
                Claim(
                    "Tokens that keep less of themselves are lost more often.",
                    partial(with_lost, name=KEPT, sign=-1),
                    MORE,
                    form="+.3f",
                ),
                Claim(
                    "Tokens with more mixed in are lost more often.",
                    partial(with_lost, name=MIXED, sign=1),
                    MORE,
                    form="+.3f",
                ),
                Claim(
                    "What a token keeps tells more than its mixing in the block before: it still does with that held.",
                    partial(held, name=KEPT, constant=MIXED, sign=-1),
                    MORE,
                    form="+.3f",
                ),
                Claim(
                    "Frequency does not explain it: what a token keeps still tells with the rank held.",
                    partial(held, name=KEPT, constant=RANK, sign=-1),
                    MORE,
                    form="+.3f",
                ),
                Figure(
                    "lost_fifths",
                    "not in the papers: lost tokens by what they keep",
                    by_fifth,
                    {"kind": "lines", "x": "fifth", "y": "lost", "color": "layer", "by": "of"}
                    | {"x_title": "fifths of the tokens, lowest to highest", "y_title": "tokens lost"},
                    _ends,
                    "linear probe",
                ),
                Table(
                    "lost_terms",
                    "nothing published: being lost, on everything at once",
                    terms,
                    "Least squares by layer, errors by document; the coefficient is in shares of the tokens per"
                    " standard deviation of the term within the layer.",
                ),
            ),
            NEEDS,
        ),
        Section(
            "Parts of speech",
            "Which kinds of words are lost?",
            (
                Figure(
                    "lost_upos",
                    "not in the papers: lost tokens by part of speech",
                    by_upos,
                    {"kind": "grid", "x": "of", "y": "upos", "value": "share", "x_title": "", "y_title": ""},
                    _upos_ends,
                    "",
                ),
                Claim(
                    "Function words are lost more often than words with meaning.",
                    closed_less_open,
                    MORE,
                    form="+.2%",
                ),
            ),
            NEEDS,
        ),
        Section(
            "Frequency",
            "Are frequent tokens lost more often than rare ones?",
            (
                Figure(
                    "lost_frequency",
                    "not in the papers: lost tokens by frequency",
                    by_frequency,
                    {"kind": "lines", "x": "fifth", "y": "lost", "color": "layer"}
                    | {"x_title": "fifths of the tokens, frequent to rare", "y_title": "tokens lost"},
                    _ends,
                    "linear probe",
                ),
                Claim(
                    "Frequent tokens are lost more often than rare ones.",
                    partial(with_lost, name=RANK, sign=-1),
                    MORE,
                    form="+.3f",
                ),
            ),
            NEEDS,
        ),
    ),
)
