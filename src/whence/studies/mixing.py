"""How much of the mixing by attention do residual and normalisation undo? (Kobayashi et al. 2021)"""

from functools import partial
from typing import Any

import numpy as np
import pandas

from whence.measures.registry import MIXED, WHOLE_BLOCK
from whence.sentence.measure import of_text as measure
from whence.stats.estimate import Estimate, estimate
from whence.studies.frame.context import Context, called, trend
from whence.studies.frame.published import ANALYSES as PRINTED
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.study import Absent, Claim, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import FALLS, LESS_THAN_HALF, MORE
from whence.studies.mixing_frequency import FREQUENCY
from whence.studies.mixing_rows import BASE, MAIN, PAPER, in_order, long_table, main_rows

FIGURES = ("mean", "max", "min")
# what is counted one after the other: the analyses without and with it
COMPONENTS = {
    "vectors": ("attn_w", "attn_n"),
    "residual": ("attn_n", "attnres_n"),
    "normalisation": ("attnres_n", "attnresln_n"),
}


def means(context: Context) -> pandas.DataFrame:
    table = context.kept(long_table)
    ours = table.groupby("analysis", sort=False)["mixing"].agg(mean="mean", low="min", high="max", n="size")
    known = published("kobayashi2021", "mixing_ratio_percent_wikipedia").get(hub_name(context.model.id))
    printed = {} if known is None else {name: known[PRINTED[name]]["mean"] / 100 for name in MIXED}
    return ours.reset_index().assign(published=ours.index.map(printed))


def _counted(table: pandas.DataFrame) -> str:
    """What is mixed when more of the block is counted."""
    mean = table.set_index("analysis")["mean"]
    says = f"Attention alone seems to mix {mean['attn_w']:.0%}; with residual and norm it is {mean[MAIN]:.0%}"
    return says if WHOLE_BLOCK not in mean else f"{says}, with the feed-forward {mean[WHOLE_BLOCK]:.0%}"


def models(context: Context) -> pandas.DataFrame:
    """The mean, largest and smallest ratio of our model and of every model in the paper, in per cent."""
    ours = means(context).set_index("analysis").rename(columns={"low": "min", "high": "max"})
    data = called(context.corpus)
    rows: list[dict[str, Any]] = [
        {"model": context.model.id, "data": data, "figure": figure} | ours[figure].mul(100).to_dict()
        for figure in FIGURES
    ]
    theirs = published("kobayashi2021", "mixing_ratio_percent_wikipedia")
    printed = {
        name: {figure: {m: values[m][figure] for m in values} for figure in FIGURES} for name, values in theirs.items()
    }
    many = {"mean": published("kobayashi2021", "multiberts_25_mean")}
    for name, figures in (printed | {"25 MultiBERTs": many}).items():
        of = {"model": name, "data": "Wikipedia (published)"}
        rows += [of | {"figure": figure} | {m: values[PRINTED[m]] for m in MIXED} for figure, values in figures.items()]
    table = pandas.DataFrame(rows).rename(columns={"model": "of"})
    table.attrs["sample"] = f"Ours: {context.kept(long_table).attrs['sample']}."
    return table


def components(context: Context) -> dict[str, Estimate]:
    """What each component takes away from the mixing."""
    table = context.kept(long_table)
    return {
        name: estimate(table, "mixing", "analysis", partial(_difference, pair)) for name, pair in COMPONENTS.items()
    }


def _difference(pair: tuple[str, str], of: pandas.Series) -> float:
    return of[pair[0]] - of[pair[1]]


def main_mean(context: Context) -> Estimate:
    return estimate(main_rows(context), "mixing", "analysis", lambda of: of[MAIN])


def whole_block(context: Context) -> pandas.DataFrame:
    table = means(context)
    if WHOLE_BLOCK not in set(table["analysis"]):
        raise Absent(context.model.reasons.get("neurons", "its feed-forward is not taken apart"))
    return table[table["analysis"].isin((MAIN, WHOLE_BLOCK))]


def by_type(context: Context) -> pandas.DataFrame:
    table = context.kept(long_table)
    kinds = table.groupby(["analysis", "layer", "kind"], as_index=False)["mixing"].mean()
    overall = table.groupby(["analysis", "layer"], as_index=False)["mixing"].mean().assign(kind="overall")
    return pandas.concat([kinds, overall], ignore_index=True)


def _kinds_in_order(table: pandas.DataFrame) -> tuple[str, ...]:
    """As in the paper, with this model's special tokens in the middle."""
    kinds = sorted(set(table["kind"]))
    ends = {"normal": -2, "mask": -1, "overall": 1}
    return tuple(sorted(kinds, key=lambda kind: ends.get(kind, 0)))


def _most(table: pandas.DataFrame) -> str:
    top = table[table["kind"] == "overall"].sort_values("mixing").iloc[-1]
    return f"Layer {int(top.layer)} mixes most: {top.mixing:.0%} comes from other tokens"


def _printed_kinds() -> pandas.DataFrame:
    """The published shares, layer by kind of token."""
    grids = published("kobayashi2021", "layer_by_token_type_percent_bert_base_wikipedia")
    rows = {int(layer): analyses[PRINTED[MAIN]] for layer, analyses in grids.items()}
    return pandas.DataFrame.from_dict(rows, orient="index").sort_index() / 100


def kinds_beside(context: Context) -> pandas.DataFrame:
    tokenizer, theirs, grid = context.model.tokenizer, _printed_kinds(), by_type(context)
    ours = grid[grid["analysis"] == MAIN].pivot(index="layer", columns="kind", values="mixing")
    names = {tokenizer.cls_token: "cls", tokenizer.sep_token: "sep"}
    mine = ours.rename(columns=names).reindex(columns=theirs.columns).add_prefix("ours, ")
    both = mine.join(theirs.add_prefix(f"{BASE}, "), how="outer").mul(100).round(0)
    return both.rename_axis("layer").reset_index()


def masks(context: Context) -> Estimate:
    """Middle and deep layers are those beyond the first third."""
    table = main_rows(context)
    if not (table["kind"] == "mask").any():
        raise Absent("no token of the sample is masked")
    deep = table[table["layer"] > table["layer"].max() / 3]
    return estimate(
        deep,
        "mixing",
        ["kind", "layer"],
        lambda of: of["mask"].mean() - of["normal"].mean(),
    )


def depth(context: Context) -> pandas.DataFrame:
    return context.kept(long_table).groupby(["analysis", "layer"], as_index=False)["mixing"].mean()


def _first_to_last(table: pandas.DataFrame) -> str:
    main = table[table["analysis"] == MAIN]["mixing"]
    return f"{PRINTED[MAIN]} goes from {main.iloc[0]:.0%} in the first layer to {main.iloc[-1]:.0%} in the last"


def depth_trend(context: Context) -> Estimate:
    if context.model.anatomy.layers < 3:
        raise Absent("two layers make no trend")
    return estimate(main_rows(context), "mixing", "layer", trend)


def expansion(context: Context) -> pandas.DataFrame:
    rates = measure(context.model, "Any text.", ["expansion"])["expansion"].to_series().reset_index()
    theirs = published("kobayashi2021", "expansion_rate_per_layer")
    return rates.assign(published=theirs.get(hub_name(context.model.id), np.nan))


def data(context: Context) -> pandas.DataFrame:
    """The means of every corpus."""
    rows = [
        {"of": called(corpus), "analysis": analysis, "mixing": mean}
        for place, corpus in enumerate(context.corpora)
        for analysis, mean in context.kept(long_table, place).groupby("analysis", sort=False)["mixing"].mean().items()
    ]
    return pandas.DataFrame(rows)


def _span(table: pandas.DataFrame) -> str:
    shares = table[table["analysis"] == MAIN]["mixing"]
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return f"{PRINTED[MAIN]} is {low if low == high else f'between {low} and {high}'} on everything measured"


def data_beside(context: Context) -> pandas.DataFrame:
    table = data(context)
    ours = table.pivot(index="of", columns="analysis", values="mixing")
    ours = ours.loc[list(dict.fromkeys(table["of"])), list(in_order(table))] * 100
    theirs = published("kobayashi2021", "mixing_ratio_percent_bert_base_other_data")
    means_of = {name: {m: values[PRINTED[m]]["mean"] for m in MIXED} for name, values in theirs.items()}
    printed = pandas.DataFrame.from_dict(means_of, orient="index")
    printed = printed.rename(index=lambda name: f"{name} ({BASE}, published)")
    return pandas.concat([ours, printed]).rename_axis("of").reset_index()


FROM_OTHERS = {"y_title": "from other tokens", "limits": (0.0, 1.0)}
MEANS: Items = (
    Figure(
        "mixing_means",
        f"{PAPER}, the table of mixing ratios",
        means,
        {"kind": "bars", "x": "analysis", "y": "mean", "color": "analysis", "published": "published", "x_title": ""}
        | FROM_OTHERS
        | {"order": in_order},
        _counted,
        "mean over tokens and layers, lines from the smallest to the largest",
        "Diamonds, where there are any, are the published means of the same model; none has the feed-forward.",
    ),
    Table(
        "mixing_whole_block",
        "the whole block, which is not in the paper",
        whole_block,
        "With the feed-forward, beside what the paper counts.",
    ),
    Table(
        "mixing_models",
        "the published mixing ratios, in per cent",
        models,
        "Theirs: 992 sequences of up to 128 tokens, 12% of them masked.",
    ),
    Claim("Every component that is counted makes the mixing look smaller.", components, MORE, form=".1%"),
    Claim(
        "With residual and normalisation, most of a token stays its own.",
        main_mean,
        LESS_THAN_HALF,
        ("kobayashi2021", "mixing_ratio_percent_wikipedia", BASE, PRINTED[MAIN], "mean"),
        ".1%",
    ),
)
KINDS: Items = (
    Figure(
        "mixing_by_type",
        f"{PAPER}, the grids of layer by token type",
        by_type,
        {"kind": "grid", "x": "kind", "y": "layer", "value": "mixing", "x_title": "", "order": _kinds_in_order},
        _most,
        f"{PRINTED[MAIN]}, mean by layer and kind of token",
        "The table has the other analyses too.",
        only=lambda table: table[table["analysis"] == MAIN],
    ),
    Table(
        "mixing_by_type_published",
        f"the published grid of {PRINTED[MAIN]}, in per cent",
        kinds_beside,
        "Theirs: Wikipedia, 12% of tokens masked, 12 layers.",
    ),
    Claim("In middle and deep layers masked tokens are mixed more than others.", masks, MORE, form=".1%"),
)
DEPTH: Items = (
    Figure(
        "mixing_depth",
        f"{PAPER}, mixing by layer",
        depth,
        {"kind": "lines", "x": "layer", "y": "mixing", "color": "analysis", "order": in_order} | FROM_OTHERS,
        _first_to_last,
        "mean over tokens",
    ),
    Claim("Later layers mix less.", depth_trend, FALLS, ("kobayashi2021", "spearman_depth_ATTNRESLN-N"), "+.2f"),
)
EXPANSION: Items = (
    Figure(
        "mixing_expansion",
        f"{PAPER}, expansion rates",
        expansion,
        {
            "kind": "lines",
            "x": "layer",
            "y": "expansion",
            "published": "published",
            "share": False,
            "y_title": "factor",
        },
        lambda table: (
            f"Attention's map makes vectors {table['expansion'].min():.2f}"
            f" to {table['expansion'].max():.2f} times as long"
        ),
        "from the weights alone",
    ),
)
DATA: Items = (
    Figure(
        "mixing_data",
        f"{PAPER}, other data",
        data,
        {
            "kind": "grid",
            "x": "analysis",
            "y": "of",
            "value": "mixing",
            "x_title": "",
            "y_title": "",
            "order": in_order,
        },
        _span,
        "mean over tokens and layers",
    ),
    Table(
        "mixing_data_published",
        "the published means on other data, in per cent",
        data_beside,
        "Ours: words are masked in single texts, not in pairs. Theirs: development sets, whole.",
    ),
)


NEEDS = frozenset({"attention", "rows", "values", "norms"})
STUDY = Study(
    name="mixing",
    title="How much a block mixes, and how much it preserves",
    asks=(
        "Attention says that almost everything a token receives comes from other tokens. Counted with the residual and"
        " the normalisation around it, and beyond the paper with the feed-forward, how much is really mixed?"
    ),
    paper=(
        "Kobayashi, Kuribayashi, Yokoi & Inui (2021). Incorporating residual and normalization layers into analysis of"
        " masked language models. EMNLP."
    ),
    data="running text such as --data text:wikipedia.txt, or several corpora",
    sections=(
        Section(
            "Mixing ratios by analysis",
            "How large is the share that comes from other tokens, when more and more of the block is counted?",
            MEANS,
            NEEDS,
        ),
        Section("Layers and kinds of tokens", "Where, and for which tokens, is the mixing strongest?", KINDS, NEEDS),
        Section("Frequency", "Are frequent words mixed more than rare ones?", FREQUENCY, NEEDS),
        Section("Depth", "Does mixing fall towards the last layer?", DEPTH, NEEDS),
        Section("Expansion", "How much longer or shorter does attention's linear map make a vector?", EXPANSION, NEEDS),
        Section("Side by side", "Do other texts give another picture?", DATA, NEEDS),
    ),
)
