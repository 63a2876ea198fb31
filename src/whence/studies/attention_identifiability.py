"""How much of the attention can reach the output at all? (Brunner et al. 2020, section 3 and appendix A)"""

from collections.abc import Iterator

import numpy as np
import pandas

from whence.corpus.annotate import OTHER
from whence.corpus.open_run import Run
from whence.plot.drawing import Drawing
from whence.sentence.measure import measure
from whence.studies.frame.context import FALLING, Context, falls, middle, spearman
from whence.studies.frame.sentences import Chosen, at_most
from whence.studies.frame.study import Finding, Item, Left, Section, Shown, Study, concluded

EVERY = 10  # tokens between two marks of the theoretical bound
WORDS = 100  # about the paper's 128 tokens
KINDS = {"attention": "raw", "effective": "effective"}


def _sentences(context: Context) -> Chosen:
    return Chosen(context.corpus, context.amount(24, 992), at_most(WORDS, least=4))


def _run(context: Context) -> Run:
    measures = ["attention", "effective", "value_rank", "effective_correlation"]
    return context.run("attention", measures, _sentences(context))


def _by_length(context: Context) -> pandas.DataFrame:
    """One row per sentence: its length, and means over layers and heads."""
    run = _run(context)
    names = ["value_rank", "nullity", "effective_correlation"]
    table = run.heads.groupby("sentence", as_index=False)[names].mean()
    return table.merge(run.sentences[["sentence", "tokens"]], on="sentence")


def correlation(context: Context) -> Iterator[Item]:
    width = context.model.anatomy.config.hidden_size // context.model.anatomy.heads
    table = _by_length(context)
    short, long = table[table["tokens"] <= width], table[table["tokens"] > width]
    last = table.sort_values("tokens").iloc[-1]
    yield Shown(
        "correlation_by_length",
        "Brunner et al. 2020, figure 1a",
        Drawing(
            "points",
            table,
            "tokens",
            "effective_correlation",
            f"At {int(last.tokens)} tokens raw and effective attention correlate at {last.effective_correlation:.2f}",
            f"one point per sentence, mean over layers and heads; heads are {width} wide; {context.about}",
            y_title="Pearson correlation",
            share=False,
        ),
    )
    if len(short):
        least = float(short["effective_correlation"].min())
        yield concluded(
            "Up to as many tokens as a head is wide, effective attention is attention itself.",
            bool(least > 1 - 1e-3),
            f"smallest correlation {least:.4f} over {len(short)} sentences of at most {width} tokens",
        )
    if len(long) > 2:
        rho = spearman(long["tokens"], long["effective_correlation"])
        yield concluded(
            "Beyond that, the longer the text, the less of the attention counts.",
            falls(rho),
            f"Spearman {rho:.2f} of length and correlation over {len(long)} longer sentences (we ask for {FALLING})",
        )
    else:
        yield Left("the fall beyond the head width", f"only {len(long)} sentences are longer than {width} tokens")


def nullity(context: Context) -> Iterator[Item]:
    width = context.model.anatomy.config.hidden_size // context.model.anatomy.heads
    table = _by_length(context).sort_values("tokens")
    bound = (table["tokens"] - width).clip(lower=0)
    some = (table["tokens"] // EVERY).diff() != 0  # a mark at every length would hide the measurements
    yield Shown(
        "nullity_by_length",
        "Brunner et al. 2020, equation 6",
        Drawing(
            "points",
            table[["tokens", "nullity"]].assign(bound=bound.where(some)),
            "tokens",
            "nullity",
            "The null space grows by one dimension per token beyond the head width",
            f"mean over layers and heads of the directions that have no effect; {context.about}",
            published="bound",
            hollow=f"tokens − {width}, what there must be at least",
            y_title="dimensions",
            share=False,
        ),
    )
    low = float((table["nullity"] - bound).min())
    gap = float((table["nullity"] - bound).max())
    yield concluded(
        "The null space has at least as many dimensions as the text has tokens beyond the head width.",
        bool(low >= -1e-6),
        f"measured minus bound lies between {low:.2f} and {gap:.2f}",
    )


def _to_types(context: Context, by: str) -> pandas.DataFrame:
    """Mean attention to each class of source, raw and effective, by layer and head (and class of target)."""
    moments = _run(context).moments
    names = {f"{name}_to": kind for name, kind in KINDS.items()}
    rows = moments[moments["variable"].isin(names) & (moments["by"] == by) & moments["head"].notna()]
    table = rows.assign(kind=rows["variable"].map(names), head=rows["head"].astype(int))
    return table[["kind", "layer", "head", "group", "source", "mean", "count"]].reset_index(drop=True)


def token_types(context: Context) -> Iterator[Item]:
    table = _to_types(context, "all")
    shown = table[table["source"] != OTHER]
    if shown.empty:
        yield Left("attention to special tokens and punctuation", "the texts have none of them")
        return
    means = (
        shown.groupby(["kind", "layer", "source"], as_index=False)["mean"].mean().sort_values("kind", ascending=False)
    )
    yield Shown(
        "attention_by_type",
        "Brunner et al. 2020, figures 1b and 1c",
        Drawing(
            "lines",
            means,
            "layer",
            "mean",
            _peak(means),
            f"mean over heads of what a token pays to each kind of token; {context.about}",
            color="source",
            by="kind",
            y_title="attention",
        ),
        table=shown,
        note="The table has every head.",
    )
    yield Shown(
        "attention_by_type_heads",
        "Brunner et al. 2020, figures 1b and 1c",
        Drawing(
            "points",
            shown.sort_values("kind", ascending=False, kind="stable")[["kind", "layer", "head", "source", "mean"]],
            "layer",
            "mean",
            _busiest(shown),
            f"one point per head: what a token pays to each kind of token; {context.about}",
            color="source",
            by="kind",
            y_title="attention",
        ),
    )
    special = means[means["source"].isin(context.model.tokenizer.all_special_tokens)]
    if special.empty:
        yield Left("attention to special tokens", "this model's input has none")
    else:
        yield _special(special)


def _peak(means: pandas.DataFrame) -> str:
    raw = means[means["kind"] == "raw"].sort_values("mean").iloc[-1]
    same = means[(means["kind"] == "effective") & (means["layer"] == raw.layer) & (means["source"] == raw.source)]
    reached = same["mean"].iloc[0]
    return f"{raw.source} draws {raw['mean']:.0%} of the attention in layer {raw.layer}, {reached:.0%} effectively"


def _busiest(heads: pandas.DataFrame) -> str:
    top = heads[heads["kind"] == "raw"].sort_values("mean").iloc[-1]
    return f"Head {top['head']} of layer {top.layer} pays {top['mean']:.0%} of its attention to {top.source}"


def _special(means: pandas.DataFrame) -> Finding:
    """The paper says this of [SEP] in the middle layers of BERT."""
    wide = means.pivot(index=["source", "layer"], columns="kind", values="mean")
    token, layer = wide["raw"].idxmax()
    raw, reached = wide.loc[(token, layer), "raw"], wide.loc[(token, layer), "effective"]
    return concluded(
        "Where a special token draws most attention, most of it has no effect.",
        bool(reached < 0.5 * raw),
        f"{token} in layer {layer}: raw {raw:.1%}, effective {reached:.1%}",
    )


def type_to_type(context: Context) -> Iterator[Item]:
    table = _to_types(context, "class").groupby(["kind", "layer", "group", "source"], as_index=False)["mean"].mean()
    layer = middle(table["layer"])
    drawn = (
        table[table["layer"] == layer]
        .sort_values("kind", ascending=False, kind="stable")
        .rename(columns={"group": "from", "source": "to"})
    )
    yield Shown(
        "attention_type_to_type",
        "Brunner et al. 2020, figure 5",
        Drawing(
            "grid",
            drawn,
            "to",
            "from",
            f"Attention from kind to kind of token in layer {layer}",
            f"mean over heads; rows look at columns; {context.about}",
            value="mean",
            by="kind",
            signed=bool((drawn["mean"] < -1e-3).any()),
        ),
        table=table,
        note="The table has every layer.",
    )
    special = table[(table["kind"] == "raw") & table["source"].isin(context.model.tokenizer.all_special_tokens)]
    if special.empty:
        yield Left("attention from each kind to a special token", "this model's input has none")
    else:
        yield _to_special(context, table, str(special.loc[special["mean"].idxmax(), "source"]))


def _to_special(context: Context, table: pandas.DataFrame, token: str) -> Shown:
    """The paper draws this for [SEP], which gets most attention in BERT."""
    drawn = table[table["source"] == token].sort_values(["kind", "layer"], ascending=[False, True], kind="stable")
    raw = drawn[(drawn["kind"] == "raw") & (drawn["group"] == OTHER)]
    top = raw.loc[raw["mean"].idxmax()]
    return Shown(
        "attention_to_special",
        "Brunner et al. 2020, figure 5",
        Drawing(
            "lines",
            drawn.rename(columns={"group": "from"})[["kind", "layer", "from", "mean"]],
            "layer",
            "mean",
            f"Ordinary tokens pay {token} most in layer {int(top['layer'])}: {top['mean']:.0%} of their attention",
            f"mean over heads of the attention to {token}, by kind of token that pays it; {context.about}",
            color="from",
            by="kind",
            y_title=f"attention to {token}",
        ),
    )


def maps(context: Context) -> Iterator[Item]:
    """The sentence and the head whose effective attention is least like the raw one."""
    run = _run(context)
    least = run.heads.sort_values("effective_correlation").iloc[0]
    text = context.text or list(_sentences(context))[int(least["sentence"])]
    names, layers = ["attention", "effective", "null"], [int(least["layer"])]
    dataset = measure(context.model, text, names, layers=layers, truncate=True)
    maps_of_head = dataset.isel(layer=0).sel(head=int(least["head"]))
    kinds = {"raw": "attention", "effective": "effective", "null": "null"}
    rows = [_cells(kind, maps_of_head[name].values) for kind, name in kinds.items()]
    tokens = [str(token) for token in dataset["target_token"].values]
    yield Shown(
        "attention_maps",
        "Brunner et al. 2020, figure 6",
        Drawing(
            "grid",
            pandas.concat(rows),
            "source",
            "target",
            f"Raw, effective and null attention of layer {int(least['layer'])}, head {int(least['head'])}",
            f"{len(tokens)} tokens, rows look at columns: {' '.join(tokens[:14])} …; {context.model.id}",
            value="weight",
            by="kind",
            signed=True,
            share=False,
            limits=(-0.5, 0.5),
        ),
        note="The head and sentence of this sample with the lowest correlation of raw and effective attention.",
    )


def _cells(kind: str, values: np.ndarray) -> pandas.DataFrame:
    target, source = np.indices(values.shape)
    return pandas.DataFrame(
        {
            "kind": kind,
            "target": [f"{t:03}" for t in target.ravel()],
            "source": [f"{s:03}" for s in source.ravel()],
            "weight": values.ravel(),
        }
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
            make=correlation,
            needs=NEEDS,
        ),
        Section(
            "The null space", "How many changes of the attention does a head not notice?", make=nullity, needs=NEEDS
        ),
        Section(
            "Kinds of tokens", "Does effective attention go where raw attention goes?", make=token_types, needs=NEEDS
        ),
        Section("From kind to kind", "Which kinds of tokens look at which?", make=type_to_type, needs=NEEDS),
        Section("One head", "What does it look like?", make=maps, needs=NEEDS),
    ),
)
