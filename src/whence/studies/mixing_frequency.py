"""Are frequent words mixed more than rare ones? (Kobayashi et al. 2021)"""

from pathlib import PurePath

import pandas

from whence.stats.estimate import Estimate, estimate
from whence.studies.frame.context import Context, spearman, trend
from whence.studies.frame.published import ANALYSES as PRINTED
from whence.studies.frame.published import published
from whence.studies.frame.study import Claim, Figure, Items, Table
from whence.studies.frame.verdict import FALLS
from whence.studies.mixing_rows import BASE, MAIN, PAPER, long_table


def _ranked(context: Context) -> pandas.DataFrame:
    """The rows with the frequency rank of their token, from the user's list or from counts in the corpus."""
    table = context.kept(long_table)
    ids = pandas.Series(table["token_id"].unique())
    if context.frequency is not None:
        from whence.text.readers.frequency import frequencies, ranks

        listed = frequencies(context.frequency)
        items = ids.tolist() if listed.by_id else context.model.tokenizer.convert_ids_to_tokens(ids.tolist())
        places = dict(zip(ids, ranks(items, listed).ranks, strict=True))
    else:
        once = table[(table["analysis"] == MAIN) & (table["layer"] == table["layer"].min())]
        places = once["token_id"].value_counts().rank(ascending=False, method="min").to_dict()
    return table.assign(rank=table["token_id"].map(places)).dropna(subset=["rank"])


def frequency(context: Context) -> pandas.DataFrame:
    """One row per vocabulary item and analysis; the mask is special too, as in the paper."""
    table = context.kept(_ranked)
    words = table.groupby(["analysis", "token_id"], as_index=False, sort=False).agg(
        rank=("rank", "first"), mixing=("mixing", "mean"), kind=("kind", "first"), n=("mixing", "size")
    )
    words["token"] = context.model.tokenizer.convert_ids_to_tokens(words["token_id"].tolist())
    return words.assign(special=words["kind"] != "normal").drop(columns="kind")


def _words(table: pandas.DataFrame) -> pandas.DataFrame:
    return table[(table["analysis"] == MAIN) & ~table["special"]]


def _named(words: pandas.DataFrame) -> dict[int, str]:
    """Powers of ten, each with the word whose rank is nearest."""
    ranks = words["rank"]
    powers = [10**power for power in range(len(str(int(ranks.max())))) if 10**power >= ranks.min()]
    whole = words[words["token"].str.isalpha()]
    named = whole if len(whole) else words
    return {power: f"{power:,}\n{named['token'][(named['rank'] - power).abs().idxmin()]}" for power in powers}


def frequency_beside(context: Context) -> pandas.DataFrame:
    words, theirs = frequency(context), published("kobayashi2021", "spearman_frequency_rank_bert_base")
    rows = []
    for analysis, part in words.groupby("analysis", sort=False):
        normal, printed = part[~part["special"]], PRINTED.get(str(analysis), str(analysis))
        rows.append(
            {
                "analysis": printed,
                "ours, all": spearman(part["rank"], part["mixing"]),
                "ours, without special": spearman(normal["rank"], normal["mixing"]),
                f"{BASE}, all": theirs["all"].get(printed),
                f"{BASE}, without special": theirs["without_special"].get(printed),
            }
        )
    table = pandas.DataFrame(rows)
    source = PurePath(context.frequency).name if context.frequency else "counts in this corpus itself"
    table.attrs["sample"] = f"Ours: ranks from {source}, {len(_words(words)):,} vocabulary items."
    return table


def frequency_trend(context: Context) -> Estimate:
    table = context.kept(_ranked)
    rows = table[(table["analysis"] == MAIN) & (table["kind"] == "normal")]
    return estimate(rows, "mixing", ["rank", "token_id"], lambda of: trend(of.droplevel("token_id")))


FREQUENCY: Items = (
    Figure(
        "mixing_frequency",
        f"{PAPER}, mixing against word frequency",
        frequency,
        {"kind": "points", "x": "rank", "y": "mixing", "y_title": "from other tokens"}
        | {"x_title": "frequency rank and a word that has it; frequent words at the left", "ticks": _named},
        lambda table: (
            f"Spearman's correlation of frequency rank and mixing is {spearman(table['rank'], table['mixing']):.2f}"
        ),
        f"{PRINTED[MAIN]}, one point per vocabulary item, special tokens left out",
        only=_words,
    ),
    Table(
        "mixing_frequency_spearman",
        "the published Spearman correlations with frequency rank",
        frequency_beside,
        "Theirs: from BERT's training data, Wikipedia.",
    ),
    Claim(
        "Frequent words are mixed more than rare ones.",
        frequency_trend,
        FALLS,
        ("kobayashi2021", "spearman_frequency_rank_bert_base", "without_special", PRINTED[MAIN]),
    ),
)
