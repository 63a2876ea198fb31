"""How much of the mixing by attention do residual and normalisation undo? (Kobayashi et al. 2021)"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas

from whence.corpus.open_run import Run
from whence.measures.registry import MIXED, WHOLE_BLOCK, given_by
from whence.models.load import Model
from whence.plot.drawing import Drawing
from whence.sentence.measure import measure
from whence.studies.frame.context import FALLING, Context, called, falls, spearman
from whence.studies.frame.published import ANALYSES as PRINTED
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.sentences import Chosen, masked
from whence.studies.frame.study import Beside, Claim, Item, Left, Section, Shown, Study
from whence.text.readers import Corpus

MASKED = 0.12  # share of the words, as in the paper
WORDS = 90  # about the paper's 128 tokens
BASE = "bert-base-uncased"
MAIN = "attnresln_n"
ANALYSES = (*MIXED, WHOLE_BLOCK)
FEED_FORWARD = f"mixing_{WHOLE_BLOCK}"  # not of the paper, and not of every model
FIGURES = ("mean", "max", "min")


def _run(context: Context, place: int = 0) -> Run:
    return _measured(context, f"mixing-{place}", context.corpora[place], context.model)


def _measured(context: Context, name: str, corpus: Corpus, model: Model) -> Run:
    """Words are masked if the model has a mask token; all models read the same texts."""
    share = MASKED if model.tokenizer.mask_token is not None else 0.0
    sentences = Chosen(corpus, context.amount(24, 992), masked(share, WORDS, least=4))
    return context.run(name, ["mixing", *given_by(model.gives, [FEED_FORWARD])], sentences, model)


def _about(context: Context, run: Run) -> str:
    """The corpus, how much of it was measured, and the share of masked tokens."""
    share = (_kind(context, run.tokens["class"]) == "mask").mean()
    return f"{called(context.corpus)}, {len(run.tokens):,} tokens × layers, {share:.0%} of the tokens masked"


def _long(run: Run) -> pandas.DataFrame:
    """One row per token, layer and analysis."""
    columns = ["layer", "token_id", "class"]
    names = {column: analysis for analysis in ANALYSES if (column := f"mixing_{analysis}") in run.tokens}
    table = run.tokens[[*columns, *names]].rename(columns=names)
    return table.melt(columns, var_name="analysis", value_name="mixing")


def _analyses(table: pandas.DataFrame) -> tuple[str, ...]:
    """Those that were measured, in the order of how much of the block they count."""
    measured = set(table["analysis"])
    return tuple(name for name in ANALYSES if name in measured)


def means(context: Context) -> Iterator[Item]:
    table = _long(_run(context)).groupby("analysis", sort=False)["mixing"].agg(["mean", "min", "max", "size"])
    theirs = published("kobayashi2021", "mixing_ratio_percent_wikipedia")
    ours = table.reset_index().rename(columns={"min": "low", "max": "high", "size": "n"})
    known = theirs.get(hub_name(context.model.id))
    printed = {} if known is None else {name: known[PRINTED[name]]["mean"] / 100 for name in MIXED}
    ours["published"] = ours["analysis"].map(printed)
    first, main = table["mean"].iloc[0], table["mean"][MAIN]
    yield Shown(
        "mixing_means",
        "Kobayashi et al. 2021, the table of mixing ratios",
        Drawing(
            "bars",
            ours,
            "analysis",
            "mean",
            f"Attention alone seems to mix {first:.0%}; {_counted(table['mean'])}",
            f"mean over tokens and layers, lines from the smallest to the largest; {context.about}",
            color="analysis",
            order=_analyses(ours),
            published="published",
            y_title="from other tokens",
            x_title="",
            limits=(0.0, 1.0),
        ),
        note="Diamonds, where there are any, are the published means of the same model; none has the feed-forward.",
    )
    if WHOLE_BLOCK not in table.index:
        yield Left("the whole block", context.model.reasons.get("neurons", "its feed-forward is not taken apart"))
    differs = f"Ours: {_about(context, _run(context))}. Theirs: 992 sequences of up to 128 tokens, 12% of them masked."
    yield Beside("mixing_models", "the published mixing ratios, in per cent", _models(context, table, theirs), differs)
    ordered = all(table["mean"].iloc[at] > table["mean"].iloc[at + 1] for at in (0, 2, 3))
    shown = ", ".join(f"{PRINTED[name]} {table['mean'][name]:.1%}" for name in MIXED)
    yield Claim("Every component that is counted makes the mixing look smaller.", bool(ordered), shown)
    yield Claim(
        "With residual and normalisation, most of a token stays its own.",
        bool(main < 0.5),
        f"{main:.1%} comes from others",
    )


def _counted(means: pandas.Series) -> str:
    """What is mixed when more of the block is counted."""
    attention = f"with residual and norm it is {means[MAIN]:.0%}"
    return attention if WHOLE_BLOCK not in means else f"{attention}, with the feed-forward {means[WHOLE_BLOCK]:.0%}"


def _models(context: Context, ours: pandas.DataFrame, theirs: dict[str, Any]) -> pandas.DataFrame:
    """The mean, largest and smallest ratio of our model and of every model in the paper."""
    rows: list[dict[str, Any]] = [
        {"model": context.model.id, "data": called(context.corpus), "figure": figure} | ours[figure].mul(100).to_dict()
        for figure in FIGURES
    ]
    many = published("kobayashi2021", "multiberts_25_mean")
    printed = {
        name: {figure: {m: values[m][figure] for m in values} for figure in FIGURES} for name, values in theirs.items()
    }
    for name, figures in (printed | {"25 MultiBERTs": {"mean": many}}).items():
        of = {"model": name, "data": "Wikipedia (published)"}
        rows += [of | {"figure": figure} | {m: values[PRINTED[m]] for m in MIXED} for figure, values in figures.items()]
    return pandas.DataFrame(rows)


def _kind(context: Context, classes: pandas.Series) -> pandas.Series:
    """The kind of each token: normal, mask, or the name of a special token."""
    mask = context.model.tokenizer.mask_token
    special = set(context.model.tokenizer.all_special_tokens)
    return classes.map(lambda name: "mask" if name == mask else name if name in special else "normal")


def by_type(context: Context) -> Iterator[Item]:
    table = _long(_run(context))
    table["kind"] = _kind(context, table["class"])
    kinds = table.groupby(["analysis", "layer", "kind"], as_index=False)["mixing"].mean()
    overall = table.groupby(["analysis", "layer"], as_index=False)["mixing"].mean().assign(kind="overall")
    grid = pandas.concat([kinds, overall]).reset_index(drop=True)
    main = grid[grid["analysis"] == MAIN]
    top = main[main["kind"] == "overall"].sort_values("mixing").iloc[-1]
    yield Shown(
        "mixing_by_type",
        "Kobayashi et al. 2021, the grids of layer by token type",
        Drawing(
            "grid",
            main,
            "kind",
            "layer",
            f"Layer {int(top.layer)} mixes most: {top.mixing:.0%} comes from other tokens",
            f"{PRINTED[MAIN]}, mean by layer and kind of token; {context.about}",
            value="mixing",
            x_title="",
        ),
        table=grid,
        note="The table has the other analyses too.",
    )
    theirs = _printed_kinds()
    yield _kinds_beside(context, main.pivot(index="layer", columns="kind", values="mixing"), theirs)
    if (main["kind"] == "mask").any():
        yield _masks(main, theirs)


def _printed_kinds() -> pandas.DataFrame:
    """The published shares, layer by kind of token."""
    grids = published("kobayashi2021", "layer_by_token_type_percent_bert_base_wikipedia")
    rows = {int(layer): analyses[PRINTED[MAIN]] for layer, analyses in grids.items()}
    return pandas.DataFrame.from_dict(rows, orient="index").sort_index() / 100


def _kinds_beside(context: Context, ours: pandas.DataFrame, theirs: pandas.DataFrame) -> Beside:
    tokenizer = context.model.tokenizer
    names = {tokenizer.cls_token: "cls", tokenizer.sep_token: "sep"}
    mine = ours.rename(columns=names).reindex(columns=theirs.columns).add_prefix("ours, ")
    both = mine.join(theirs.add_prefix(f"{BASE}, "), how="outer").mul(100).round(0)
    return Beside(
        "mixing_by_type_published",
        f"the published grid of {PRINTED[MAIN]}, in per cent",
        both.rename_axis("layer").reset_index(),
        f"Ours: {_about(context, _run(context))}, {len(ours)} layers. Theirs: Wikipedia, 12% of tokens masked.",
    )


def _masks(grid: pandas.DataFrame, theirs: pandas.DataFrame) -> Claim:
    """Middle and deep layers are those beyond the first third."""
    ours = grid.pivot(index="layer", columns="kind", values="mixing")
    mine, printed = (table[table.index > table.index.max() / 3].mean() for table in (ours, theirs))
    return Claim(
        "In middle and deep layers masked tokens are mixed more than others.",
        bool(mine["mask"] > mine["normal"]),
        f"mean beyond the first third of the layers: masks {mine['mask']:.1%}, normal tokens {mine['normal']:.1%};"
        f" {BASE}: {printed['mask']:.1%}, {printed['normal']:.1%}",
    )


def frequency(context: Context) -> Iterator[Item]:
    table = _long(_run(context))
    table["special"] = _kind(context, table["class"]) != "normal"  # the mask too, as in the paper
    words = table.groupby(["analysis", "token_id"], as_index=False).agg(
        mixing=("mixing", "mean"), special=("special", "first"), n=("mixing", "size")
    )
    words["rank"] = _ranks(context, words["token_id"])
    words = words.dropna(subset=["rank"])
    main = words[(words["analysis"] == MAIN) & ~words["special"]]
    rho = spearman(main["rank"], main["mixing"])
    yield Shown(
        "mixing_frequency",
        "Kobayashi et al. 2021, mixing against word frequency",
        Drawing(
            "points",
            main[["rank", "mixing"]].assign(rank=np.log10(main["rank"])),
            "rank",
            "mixing",
            f"Spearman's correlation of frequency rank and mixing is {rho:.2f}",
            f"{PRINTED[MAIN]}, one point per vocabulary item, special tokens left out; {context.about}",
            x_title="frequency rank, powers of ten (frequent words at the left)",
            y_title="from other tokens",
        ),
    )
    theirs = published("kobayashi2021", "spearman_frequency_rank_bert_base")
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
    source = PurePath(context.frequency).name if context.frequency else "counts in this corpus itself"
    yield Beside(
        "mixing_frequency_spearman",
        "the published Spearman correlations with frequency rank",
        pandas.DataFrame(rows),
        f"Ours: ranks from {source}, {len(main):,} vocabulary items. Theirs: from BERT's training data, Wikipedia.",
    )
    yield Claim(
        "Frequent words are mixed more than rare ones.",
        None if np.isnan(rho) else falls(rho),
        f"Spearman {rho:.2f} between rank and {PRINTED[MAIN]} (we ask for {FALLING}), {BASE}: -0.58",
    )


def _ranks(context: Context, ids: pandas.Series) -> pandas.Series:
    """Frequency ranks from the user's list, or from counts in the corpus."""
    if context.frequency is not None:
        from whence.text.readers.frequency import frequencies, ranks

        listed = frequencies(context.frequency)
        items = ids.tolist() if listed.by_id else context.model.tokenizer.convert_ids_to_tokens(ids.tolist())
        return pandas.Series(ranks(items, listed).ranks, index=ids.index)
    tokens = _run(context).tokens
    counts = tokens[tokens["layer"] == tokens["layer"].min()]["token_id"].value_counts()
    return ids.map(counts.rank(ascending=False, method="min"))


def depth(context: Context) -> Iterator[Item]:
    table = _long(_run(context)).groupby(["analysis", "layer"], as_index=False)["mixing"].mean()
    main = table[table["analysis"] == MAIN]
    rho = spearman(main["layer"], main["mixing"])
    yield Shown(
        "mixing_depth",
        "Kobayashi et al. 2021, mixing by layer",
        Drawing(
            "lines",
            table,
            "layer",
            "mixing",
            f"From the first to the last layer it goes from {main.mixing.iloc[0]:.0%} to {main.mixing.iloc[-1]:.0%}",
            f"mean over tokens; {context.about}",
            color="analysis",
            order=_analyses(table),
            y_title="from other tokens",
            limits=(0.0, 1.0),
        ),
    )
    theirs = published("kobayashi2021", "spearman_depth_ATTNRESLN-N")
    printed = ", ".join(f"{name} {value:+.2f}" for name, value in theirs.items())
    decided = falls(rho) if len(main) > 2 else None
    yield Claim(
        "Later layers mix less.",
        decided,
        f"Spearman {rho:+.2f} of layer and {PRINTED[MAIN]} (we ask for {FALLING}); published: {printed}",
    )


def _span(shares: pandas.Series) -> str:
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return low if low == high else f"between {low} and {high}"


def expansion(context: Context) -> Iterator[Item]:
    rates = measure(context.model, "Any text.", ["expansion"])["expansion"].to_series().reset_index()
    theirs = published("kobayashi2021", "expansion_rate_per_layer")
    rates["published"] = theirs.get(hub_name(context.model.id), np.nan)
    yield Shown(
        "mixing_expansion",
        "Kobayashi et al. 2021, expansion rates",
        Drawing(
            "lines",
            rates,
            "layer",
            "expansion",
            f"Attention's map makes vectors {rates.expansion.min():.2f} to {rates.expansion.max():.2f} times as long",
            f"from the weights alone; {context.model.id}",
            published="published",
            share=False,
            y_title="factor",
        ),
    )


def side_by_side(context: Context) -> Iterator[Item]:
    """The same means for every corpus and for the other models."""
    runs = {called(corpus): _run(context, place) for place, corpus in enumerate(context.corpora)}
    for number, model in enumerate(context.others, start=1):
        name = model.id if model.id not in runs else f"{model.id} ({number})"
        runs[name] = _measured(context, f"mixing-other-{number}", context.corpus, model)
    rows = []
    for name, run in runs.items():
        means = _long(run).groupby("analysis", sort=False)["mixing"].mean()
        rows += [{"of": name, "analysis": analysis, "mixing": value} for analysis, value in means.items()]
    table = pandas.DataFrame(rows)
    spread = table[table["analysis"] == MAIN]["mixing"]
    yield Shown(
        "mixing_data",
        "Kobayashi et al. 2021, other models and data",
        Drawing(
            "grid",
            table,
            "analysis",
            "of",
            f"{PRINTED[MAIN]} is {_span(spread)} on everything measured",
            f"mean over tokens and layers; {context.model.id}",
            value="mixing",
            x_title="",
            y_title="",
            order=_analyses(table),
        ),
    )
    ours = table.pivot(index="of", columns="analysis", values="mixing").loc[
        list(dict.fromkeys(table["of"])), list(_analyses(table))
    ]
    theirs = published("kobayashi2021", "mixing_ratio_percent_bert_base_other_data")
    means_of = {name: {m: values[PRINTED[m]]["mean"] for m in MIXED} for name, values in theirs.items()}
    printed = pandas.DataFrame.from_dict(means_of, orient="index").rename(
        index=lambda name: f"{name} ({BASE}, published)"
    )
    yield Beside(
        "mixing_data_published",
        "the published means on other data, in per cent",
        pandas.concat([ours * 100, printed]).rename_axis("of").reset_index(),
        "Ours: words are masked in single texts, not in pairs. Theirs: development sets, whole.",
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
            means,
            NEEDS,
        ),
        Section("Layers and kinds of tokens", "Where, and for which tokens, is the mixing strongest?", by_type, NEEDS),
        Section("Frequency", "Are frequent words mixed more than rare ones?", frequency, NEEDS),
        Section("Depth", "Does mixing fall towards the last layer?", depth, NEEDS),
        Section("Expansion", "How much longer or shorter does attention's linear map make a vector?", expansion, NEEDS),
        Section("Side by side", "Do other texts, or another model, give another picture?", side_by_side, NEEDS),
    ),
)
