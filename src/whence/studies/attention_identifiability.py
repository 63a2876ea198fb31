"""How much of the attention can reach the output at all? (Brunner et al. 2020, section 3 and appendix A)"""

from dataclasses import replace

import numpy as np
import pandas

from whence.corpus.annotate import OTHER
from whence.corpus.open_run import Run
from whence.corpus.part_moments import all_moments
from whence.sentence.measure import of_text as measure
from whence.stats.estimate import Estimate, estimate, paired
from whence.studies.attention_alternatives import ALTERNATIVES, REACHED, cells, example, least_alike, reached
from whence.studies.frame.context import MARKS, Context, by_document, middle, spearman
from whence.studies.frame.sentences import Chosen, at_most
from whence.studies.frame.study import Absent, Claim, Figure, Items, Section, Study
from whence.studies.frame.verdict import FALLS, LESS_THAN_HALF, SAME, Criterion

PAPER = "Brunner et al. 2020"
EVERY = 10  # tokens between two marks of the theoretical bound
WORDS = 100  # about the paper's 128 tokens
PART = 16  # texts of a part; attention to kinds of tokens is kept by part, and intervals go by part
KINDS = {"attention": "raw", "effective": "effective"}
BOUND = Criterion.named("no fewer")


def _sentences(context: Context) -> Chosen:
    return context.texts(24, 992, at_most(WORDS, least=4))


def _run(context: Context) -> Run:
    measures = ["attention", "effective", "value_rank", "effective_correlation"]
    return context.run("attention", measures, _sentences(context), part_size=context.amount(4, PART))


def _width(context: Context) -> int:
    return context.model.anatomy.config.hidden_size // context.model.anatomy.heads


def by_length(context: Context) -> pandas.DataFrame:
    """One row per sentence: its length, means over layers and heads, and the bound of the null space."""
    run, width = _run(context), _width(context)
    names = ["value_rank", "nullity", "effective_correlation"]
    table = run.heads.groupby("sentence", as_index=False)[names].mean()
    table = table.merge(run.sentences[["sentence", "document", "tokens"]], on="sentence").sort_values("tokens")
    bound = (table["tokens"] - width).clip(lower=0)
    some = (table["tokens"] // EVERY).diff() != 0  # a mark at every length would hide the measurements
    return by_document(table).assign(
        least=bound, bound=bound.where(some), longer=table["tokens"] > width, head_width=width
    )


def short(context: Context) -> Estimate:
    """The smallest correlation of the sentences that are no longer than a head is wide."""
    table = context.kept(by_length)
    rows = table[~table["longer"]]
    if rows.empty:
        raise Absent(f"all texts are longer than {_width(context)} tokens")
    return paired(rows["effective_correlation"].to_numpy(), rows["document"].tolist(), np.min)


def fall(context: Context) -> Estimate:
    table = context.kept(by_length)
    rows = table[table["longer"]]
    if len(rows) < 3:
        raise Absent(f"only {len(rows)} texts are longer than {_width(context)} tokens")
    pairs = rows[["tokens", "effective_correlation"]].to_numpy(dtype=np.float64)
    return paired(pairs, rows["document"].tolist(), _spearman)


def _spearman(pairs: np.ndarray) -> float:
    return spearman(*map(pandas.Series, pairs.T))


def nullity(context: Context) -> Estimate:
    """By how many dimensions the null space is larger than it must be, at the least."""
    table = context.kept(by_length)
    return paired((table["nullity"] - table["least"]).to_numpy(), table["document"].tolist(), np.min)


def _to_types(moments: pandas.DataFrame, by: str) -> pandas.DataFrame:
    """Mean attention to each class of source, raw and effective, by layer and head (and class of target)."""
    names = {f"{name}_to": kind for name, kind in KINDS.items()}
    rows = moments[moments["variable"].isin(names) & (moments["by"] == by) & moments["head"].notna()]
    table = rows.assign(kind=rows["variable"].map(names), head=rows["head"].astype(int))
    table = table[["kind", "layer", "head", "group", "source", "mean", "count"]].reset_index(drop=True)
    table = table.assign(source=table["source"].replace(MARKS), group=table["group"].replace(MARKS))
    return table.sort_values("kind", ascending=False, kind="stable")


def token_types(context: Context) -> pandas.DataFrame:
    table = _to_types(_run(context).moments, "all")
    shown = table[table["source"] != OTHER]
    if shown.empty:
        raise Absent("the texts have no special tokens and no punctuation")
    return shown


def _by_head(table: pandas.DataFrame) -> pandas.DataFrame:
    """A panel for each kind of token, raw beside effective, those that draw most first."""
    order = table.groupby("source")["mean"].max().sort_values(ascending=False).index.tolist()
    table = table.sort_values("source", key=lambda column: column.map(order.index), kind="stable")
    return table.assign(panel=table["kind"] + " attention to " + table["source"])


def _heads_together(table: pandas.DataFrame) -> pandas.DataFrame:
    return table.groupby(["kind", "layer", "source"], as_index=False, sort=False)["mean"].mean()


def _peak(means: pandas.DataFrame) -> str:
    raw = means[means["kind"] == "raw"].sort_values("mean").iloc[-1]
    same = means[(means["kind"] == "effective") & (means["layer"] == raw.layer) & (means["source"] == raw.source)]
    reached = same["mean"].iloc[0]
    return f"{raw.source} draws {raw['mean']:.0%} of the attention in layer {raw.layer}, {reached:.0%} effectively"


def _busiest(heads: pandas.DataFrame) -> str:
    top = heads[heads["kind"] == "raw"].sort_values("mean").iloc[-1]
    return f"Head {top['head']} of layer {top.layer} pays {top['mean']:.0%} of its attention to {top.source}"


def reaching(context: Context) -> Estimate:
    """The share of raw attention that is effective, for the special token and the layer that draw most."""
    run, special = _run(context), context.model.tokenizer.all_special_tokens
    tables = [
        _to_types(all_moments(run.store, [record["part"]]).to_pandas(), "all").assign(part=record["part"])
        for record in run.records
    ]
    table = pandas.concat(tables)
    table = table[table["source"].isin(special)]
    if table.empty:
        raise Absent("this model's input has no special tokens")
    return replace(
        estimate(table, "mean", ["kind", "source", "layer"], _reaching, cluster="part", weight="count"), unit="parts"
    )


def _reaching(means: pandas.Series) -> float:
    where = means["raw"].idxmax()
    return float(means["effective"][where] / means["raw"][where])


def type_to_type(context: Context) -> pandas.DataFrame:
    table = _to_types(_run(context).moments, "class")
    means = table.groupby(["kind", "layer", "group", "source"], as_index=False, sort=False)["mean"].mean()
    return means.rename(columns={"group": "from", "source": "to"})


def _half_way(table: pandas.DataFrame) -> pandas.DataFrame:
    return table[table["layer"] == middle(table["layer"])]


def to_types(context: Context) -> pandas.DataFrame:
    """From every kind to every kind, a panel for each kind that is looked at; the paper draws this for [SEP]."""
    table = type_to_type(context)
    raw = table[(table["kind"] == "raw") & (table["from"] == OTHER) & (table["to"] != OTHER)]
    if raw.empty:
        raise Absent("the texts have no special tokens and no punctuation")
    order = raw.groupby("to")["mean"].max().sort_values(ascending=False).index.tolist()
    table = table[table["to"].isin(order)]
    table = table.sort_values("to", key=lambda column: column.map(order.index), kind="stable")
    return table.assign(panel=table["kind"] + " attention to " + table["to"])


def _most(table: pandas.DataFrame) -> str:
    raw = table[(table["kind"] == "raw") & (table["from"] == OTHER)]
    top = raw.loc[raw["mean"].idxmax()]
    return f"Ordinary tokens pay {top['to']} most in layer {int(top['layer'])}: {top['mean']:.0%} of their attention"


def maps(context: Context) -> pandas.DataFrame:
    """One sentence, and its head whose effective attention is least like the raw one."""
    text = example(context)
    layer, head = least_alike(context, text)
    dataset = measure(context.model, text, ["attention", "effective", "null"], layers=[layer], truncate=True)
    of_head = dataset.isel(layer=0).sel(head=head)
    kinds = {"raw": "attention", "effective": "effective", "null": "null"}
    table = pandas.concat([cells(kind, of_head[name]) for kind, name in kinds.items()])
    table.attrs["sample"] = f"layer {layer}, head {head}"
    return table


def _longest(table: pandas.DataFrame) -> str:
    last = table.sort_values("tokens").iloc[-1]
    return f"At {int(last.tokens)} tokens raw and effective attention correlate at {last.effective_correlation:.2f}"


LENGTH: Items = (
    Figure(
        "correlation_by_length",
        f"{PAPER}, figure 1a",
        by_length,
        {
            "kind": "points",
            "x": "tokens",
            "y": "effective_correlation",
            "y_title": "Pearson correlation",
            "share": False,
            "upright": ("head_width", "width of a head"),
        },
        _longest,
        "one point per sentence, mean over layers and heads",
    ),
    Claim("Up to as many tokens as a head is wide, effective attention is attention itself.", short, SAME, form=".4f"),
    Claim("Beyond that, the longer the text, the less of the attention counts.", fall, FALLS),
)
NULLITY: Items = (
    Figure(
        "nullity_by_length",
        f"{PAPER}, equation 6",
        by_length,
        {"kind": "points", "x": "tokens", "y": "nullity", "published": "bound", "y_title": "dimensions", "share": False}
        | {"hollow": "tokens less the width of a head, what there must be at least"}
        | {"upright": ("head_width", "width of a head")},
        lambda table: "The null space grows by one dimension per token beyond the head width",
        "mean over layers and heads of the directions that have no effect",
        only=lambda table: table[["tokens", "nullity", "bound", "head_width"]],
    ),
    Claim(
        "The null space has at least as many dimensions as the text has tokens beyond the head width.", nullity, BOUND
    ),
)
TYPES: Items = (
    Figure(
        "attention_by_type",
        f"{PAPER}, figures 1b and 1c",
        token_types,
        {"kind": "lines", "x": "layer", "y": "mean", "color": "source", "by": "kind", "y_title": "attention"}
        | {"own_scales": True, "columns": 2},
        _peak,
        "mean over heads of what a token pays to each kind of token",
        "The table has every head.",
        only=_heads_together,
    ),
    Figure(
        "attention_by_type_heads",
        f"{PAPER}, figures 1b and 1c",
        token_types,
        {"kind": "points", "x": "layer", "y": "mean", "color": "source", "by": "panel", "y_title": "attention"}
        | {"own_scales": True, "columns": 2},
        _busiest,
        "one point per head: what a token pays to each kind of token",
        only=lambda table: _by_head(table[["kind", "layer", "head", "source", "mean"]]),
    ),
    Claim(
        "Where a special token draws most attention, most of it has no effect.", reaching, LESS_THAN_HALF, form=".1%"
    ),
)
FROM_TO: Items = (
    Figure(
        "attention_type_to_type",
        f"{PAPER}, figure 5",
        type_to_type,
        {"kind": "grid", "x": "to", "y": "from", "value": "mean", "by": "kind"}
        | {"signed": lambda table: bool((table["mean"] < -1e-3).any())},
        lambda table: f"Attention from kind to kind of token in layer {int(table['layer'].iloc[0])}",
        "mean over heads; rows look at columns",
        "The table has every layer.",
        only=_half_way,
    ),
    Figure(
        "attention_to_types",
        f"{PAPER}, figure 5",
        to_types,
        {"kind": "lines", "x": "layer", "y": "mean", "color": "from", "by": "panel", "y_title": "attention"}
        | {"own_scales": True, "columns": 2},
        _most,
        "mean over heads, by kind of token that pays it: a row of panels for every kind that is looked at",
    ),
)
MAPS: Items = (
    Figure(
        "attention_maps",
        f"{PAPER}, figure 6",
        maps,
        {"kind": "grid", "x": "source", "y": "target", "value": "weight", "by": "kind", "signed": True}
        | {"share": False, "limits": reached, "columns": 1, "x_title": "", "y_title": ""},
        lambda table: "Raw, effective and null attention of one head",
        f"rows look at columns; the colours reach as far as {REACHED:.0%} of the weights",
        "The head of this sentence with the lowest correlation of raw and effective attention.",
    ),
)


NEEDS = frozenset({"attention", "rows", "values"})
STUDY = Study(
    name="attention-identifiability",
    title="Which part of the attention matters at all",
    asks=(
        "Beyond as many tokens as a head is wide, different attention gives the same output. How much of what is"
        " usually looked at has no effect?"
    ),
    paper=(
        "Brunner, Liu, Pascual, Richter, Ciaramita & Wattenhofer (2020). On identifiability in transformers. ICLR."
        " Section 3 and appendix A."
    ),
    data="running text such as --data text:wikipedia.txt",
    sections=(
        Section(
            "Raw and effective attention by length",
            "How alike are attention and its effective part, as texts grow?",
            LENGTH,
            NEEDS,
        ),
        Section("The null space", "How many changes of the attention does a head not notice?", NULLITY, NEEDS),
        Section("Kinds of tokens", "Does effective attention go where raw attention goes?", TYPES, NEEDS),
        Section("From kind to kind", "Which kinds of tokens look at which?", FROM_TO, NEEDS),
        Section("One head", "What does it look like?", MAPS, NEEDS),
        Section(
            "Another attention, the same output",
            "How far can the weights of a head be moved before the model notices?",
            ALTERNATIVES,
            NEEDS,
        ),
    ),
)
