"""How much of each input token is left in its hidden state, and where does the rest come from? (Brunner et al. 2020)"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas
import torch
import xarray

from whence.corpus.open_run import Run
from whence.measures.flow import summaries as flow
from whence.measures.options import Contribution
from whence.plot.drawing import SEPARATOR
from whence.sentence.measure import measure
from whence.stats.estimate import Estimate, estimate, paired
from whence.studies.frame.context import Context, by_document, called, ends_and_middle, quartiles, trend
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Absent, Claim, Encoding, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import FALLS, LESS_THAN_HALF, MORE, RISES

PAPER = "Brunner et al. 2020"
BASE = "bert-base-uncased"
ERROR = 0.05  # standard error of a sketched norm; over thousands of tokens it averages out
REACH = 25  # relative positions that are drawn
# sentences in the paper, by format; other corpora get as many as MRPC
SAMPLE = {"mrpc": 408, "cola": 1043, "mnli": 4000}
LEAST = 5  # tokens for a box
OPEN = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"})


def _run(context: Context, place: int = 0) -> Run:
    corpus = context.corpora[place]
    sentences = Chosen(corpus, context.amount(5, SAMPLE.get(corpus.format, SAMPLE["mrpc"])))
    return context.run(f"contribution-{place}", [Contribution(error=ERROR)], sentences, maps=True)


def _tokens(context: Context, place: int = 0) -> pandas.DataFrame:
    tokens = by_document(_run(context, place).tokens)
    return tokens.assign(not_largest=1 - tokens["contribution_own_largest"].astype(float))


def own(context: Context, place: int = 0) -> pandas.DataFrame:
    """By layer: what is left of a token, and how many tokens are not their own largest contributor."""
    tokens = context.kept(_tokens, place).groupby("layer")
    boxes = tokens["contribution_own"].apply(quartiles).unstack()
    theirs = published("brunner2020", "self_contribution_median_percent")
    known = hub_name(context.model.id) == BASE and place == 0
    printed = [theirs.get(str(layer), np.nan) / 100 if known else np.nan for layer in boxes.index]
    table = boxes.assign(published=printed, not_largest=tokens["not_largest"].mean()).reset_index()
    table.attrs["sample"] = f"{table['n'].iloc[0]:,.0f} tokens"
    return table.assign(data=called(context.corpora[place]))


def _kept(table: pandas.DataFrame) -> str:
    first, last = table["middle"].iloc[0], table["middle"].iloc[-1]
    return f"A token keeps {first:.0%} of itself after layer 1, {last:.0%} at the end"


def own_beside(context: Context) -> pandas.DataFrame:
    theirs, ours = published("brunner2020"), own(context).set_index("layer")
    medians, rest = theirs["self_contribution_median_percent"], theirs["not_main_contributor_percent"]
    rows = [
        {
            "layer": layer,
            "ours, median %": 100 * ours["middle"].get(layer, np.nan),
            f"{BASE}, median %": medians.get(str(layer), np.nan),
            "ours, not largest %": 100 * ours["not_largest"].get(layer, np.nan),
            f"{BASE}, not largest %": rest.get(str(layer), np.nan),
        }
        for layer in sorted({*ours.index, *map(int, medians)})
    ]
    return pandas.DataFrame(rows).astype(float).astype({"layer": int})


def median_trend(context: Context) -> Estimate:
    return estimate(_deep(context), "contribution_own", "layer", trend, median=True)


def not_largest(context: Context) -> Estimate:
    return estimate(context.kept(_tokens), "not_largest", "layer", lambda of: of.iloc[-1])


def not_largest_trend(context: Context) -> Estimate:
    return estimate(_deep(context), "not_largest", "layer", trend)


def _deep(context: Context) -> pandas.DataFrame:
    if context.model.anatomy.layers < 3:
        raise Absent("two layers make no trend")
    return context.kept(_tokens)


def _maps(run: Run) -> Iterator[tuple[str, xarray.Dataset, torch.Tensor]]:
    """The document, the Dataset and the contributions of each sentence."""
    documents = by_document(run.sentences).set_index("sentence")["document"]
    for sentence, dataset in run.maps.items():
        yield documents[sentence], dataset, torch.tensor(dataset["contribution"].values)


def _by_neighbour(context: Context, place: int = 0) -> pandas.DataFrame:
    """Of every sentence, layer and group of neighbours: the mean contribution, and over how many tokens."""
    tables = []
    for document, dataset, values in _maps(_run(context, place)):
        parts = flow.by_neighbour(values)
        means = pandas.DataFrame(parts.nanmean(dim=1).numpy(), dataset["layer"].values, list(flow.NEIGHBOURS))
        counts = (~parts.isnan()).sum(dim=1).numpy()
        long = means.rename_axis("layer").reset_index().melt("layer", var_name="neighbour", value_name="mean")
        tables.append(long.assign(tokens=counts.T.ravel(), document=document))
    return pandas.concat(tables, ignore_index=True).dropna(subset=["mean"])


def neighbours(context: Context, place: int = 0) -> pandas.DataFrame:
    """Mean contributions by layer and group of neighbours; the layers of a group sum to one."""
    rows = context.kept(_by_neighbour, place)
    sums = rows.assign(mean=rows["mean"] * rows["tokens"]).groupby(["neighbour", "layer"], sort=False)[
        ["mean", "tokens"]
    ]
    means = (totals := sums.sum())["mean"] / totals["tokens"]
    table = (means / means.groupby("neighbour").transform("sum")).rename("share").reset_index()
    return table.assign(data=called(context.corpora[place]))


def _first_less_last(group: str, context: Context) -> Estimate:
    """Of the contribution of a group of neighbours, as shares of all its layers."""
    rows = context.kept(_by_neighbour)
    rows = rows[rows["neighbour"] == group]
    if rows["layer"].nunique() < context.model.anatomy.layers or rows.empty:
        raise Absent(f"no text is so long that it has neighbours {group} away")

    def read(means: pandas.Series) -> float:
        return float((means.iloc[0] - means.iloc[-1]) / means.sum())

    return estimate(rows, "mean", "layer", read, weight="tokens")


def distant(context: Context) -> Estimate:
    near = _first_less_last("11+", context)
    return Estimate(-near.value, -near.draws, near.documents)


def _by_distance(context: Context, place: int = 0) -> pandas.DataFrame:
    """Total contribution of every sentence by layer and relative position."""
    tables = []
    for document, dataset, values in _maps(_run(context, place)):
        reach, layers = values.shape[-1] - 1, dataset["layer"].values
        totals = pandas.DataFrame(flow.by_distance(values).numpy(), layers, list(range(-reach, reach + 1)))
        long = totals.rename_axis("layer").reset_index().melt("layer", var_name="distance", value_name="total")
        tables.append(long.assign(document=document))
    return pandas.concat(tables, ignore_index=True).astype({"distance": int})


def totals(context: Context, place: int = 0) -> pandas.DataFrame:
    """Total contribution by relative position, as shares of all contributions."""
    table = context.kept(_by_distance, place).groupby(["layer", "distance"], as_index=False)["total"].sum()
    shares = table["total"] / table.groupby("layer")["total"].transform("sum")
    return table.assign(share=shares, data=called(context.corpora[place])).drop(columns="total")


def _near(table: pandas.DataFrame) -> pandas.DataFrame:
    shown = table[table["layer"].isin(ends_and_middle(table["layer"]))]
    shown = shown[(shown["distance"].abs() <= REACH) & (shown["distance"] != 0)]
    return shown.assign(layer="layer " + shown["layer"].astype(str))


def local(context: Context) -> Estimate:
    """What the nearest neighbours give more than the second ones, in the layer where that is least."""
    rows = context.kept(_by_distance)
    rows = rows.assign(group=rows["distance"].abs().clip(upper=3))
    sums = rows.pivot_table(index="document", columns=["layer", "group"], values="total", aggfunc="sum", fill_value=0)
    array = sums.to_numpy().reshape(len(sums), -1, 4)  # document, layer, group
    return paired(array, sums.index.tolist(), _nearest_less_second)


def _nearest_less_second(totals: np.ndarray) -> float:
    by_layer = totals.sum(axis=0)
    return float(((by_layer[:, 1] - by_layer[:, 2]) / (2 * by_layer.sum(axis=1))).min())


def special_token(context: Context) -> pandas.DataFrame:
    """Where the first token takes its context from, centred on itself and on the first border."""
    first, sep = context.model.tokenizer.cls_token, context.model.tokenizer.sep_token
    tables = []
    for _, dataset, values in _maps(_run(context)):
        tokens = [str(token) for token in dataset["source_token"].values]
        if first is None or first not in tokens:
            continue
        at = tokens.index(first)
        rows = pandas.DataFrame(values[:, at].numpy(), dataset["layer"].values).rename_axis("layer")
        rows = rows.drop(columns=at).reset_index().melt("layer", var_name="source", value_name="sum")
        borders = {f"from {first}": at} | ({f"from the first {sep}": tokens.index(sep)} if sep in tokens else {})
        tables += [rows.assign(centred=name, position=rows["source"] - place) for name, place in borders.items()]
    if not tables:
        raise Absent("this model's input has no token that stands for the whole, such as [CLS]")
    table = pandas.concat(tables).groupby(["centred", "layer", "position"], as_index=False)["sum"].sum()
    table["share"] = table["sum"] / table.groupby(["centred", "layer"])["sum"].transform("sum")
    return table.astype({"position": int})


def _ends(table: pandas.DataFrame) -> pandas.DataFrame:
    shown = table[table["layer"].isin(ends_and_middle(table["layer"]))].sort_values("position", kind="stable")
    return shown.assign(layer="layer " + shown["layer"].astype(str))


def tracked(context: Context) -> pandas.DataFrame:
    """Every input token's contribution to a few tokens of one sentence, layer by layer."""
    if context.text is None:
        dataset = next(iter(_run(context).maps.values()))
    else:
        dataset = measure(context.model, context.text, ["contribution"], truncate=True)
    tokens, special = [str(token) for token in dataset["source_token"].values], dataset["source_is_special"].values
    words = [at for at in range(len(tokens)) if not special[at] and tokens[at].isalpha()]
    chosen = list(dict.fromkeys([0, *words[1 :: max(1, len(words) // 4)], len(tokens) - 1]))[:6]
    rows = [
        {
            "token": f"{tokens[target]} ({target})",
            "layer": int(layer),
            "source": f"{tokens[at]}{SEPARATOR}{at}",
            "share": float(row),
        }
        for target in chosen
        for layer, line in zip(dataset["layer"].values, dataset["contribution"].sel(target=target).values, strict=True)
        for at, row in enumerate(line)
    ]
    table = pandas.DataFrame(rows)
    table.attrs["sample"] = f"{' '.join(tokens[:16])} …"
    return table


def _tagged(context: Context) -> pandas.DataFrame:
    """The tokens of the first corpus that has parts of speech."""
    places = range(len(context.corpora))
    place = next((at for at in places if context.kept(_tokens, at)["upos"].notna().any()), None)
    if place is None:
        raise Absent("no corpus given has parts of speech; give a CoNLL-U file as well (--data file.conllu)")
    tokens = context.kept(_tokens, place)
    tokens.attrs["sample"] = called(context.corpora[place])
    return tokens


def parts_of_speech(tags: str, context: Context) -> pandas.DataFrame:
    tokens = _tagged(context)
    if tokens[tags].isna().all():
        raise Absent(f"the corpus has no {tags.upper()} tags")
    table = _kept_by(tokens, tags)
    table.attrs["sample"] = tokens.attrs["sample"]
    return table


def _kept_by(tokens: pandas.DataFrame, tags: str) -> pandas.DataFrame:
    """What tokens keep, by layer and tag, sorted by the last layer; special tokens are tags of their own."""
    names = tokens[tags].where(~tokens["is_special"], tokens["token"])
    boxes = tokens.groupby(["layer", names])["contribution_own"].apply(quartiles).unstack().reset_index()
    boxes = boxes[boxes["n"] >= LEAST]
    order = boxes[boxes["layer"] == boxes["layer"].max()].sort_values("middle", ascending=False)[tags]
    places = {name: place for place, name in enumerate(order)}
    return boxes.sort_values(["layer", tags], key=lambda column: column.map(places) if column.name == tags else column)


def _ranked(tags: str, table: pandas.DataFrame) -> str:
    last = table[table["layer"] == table["layer"].max()].iloc[[0, -1]]
    (most, least), (high, low) = last[tags], last["middle"]
    return f"After the last layer {most} keeps {high:.0%} of itself, {least} {low:.0%}"


def classes(context: Context) -> Estimate:
    """The median of open classes less that of all others, in the last layer."""
    tokens = _tagged(context)
    last = tokens[(tokens["layer"] == tokens["layer"].max()) & tokens["upos"].notna()]
    last = last.assign(open=last["upos"].isin(OPEN))
    return estimate(last, "contribution_own", "open", lambda of: of[True] - of[False], median=True)


def elsewhere(query, context: Context) -> pandas.DataFrame:
    """The same of every further corpus."""
    if len(context.corpora) == 1:
        raise Absent("one corpus was given; name another with --data")
    return pandas.concat([query(context, place) for place in range(1, len(context.corpora))], ignore_index=True)


ITSELF = "contribution of the token itself"
BOXES: Encoding = {"kind": "boxes", "x": "layer", "y": "middle", "published": "published", "y_title": ITSELF}
REST: Encoding = {"kind": "lines", "x": "layer", "y": "not_largest", "y_title": "share of tokens"}
REST = {**REST, "limits": lambda table: (0.0, max(0.4, float(table["not_largest"].max()) * 1.1))}
GROUPS: Encoding = {"kind": "lines", "x": "layer", "y": "share", "color": "neighbour"}
GROUPS = {**GROUPS, "y_title": "share of the group's contribution"}
PLACES: Encoding = {"kind": "lines", "x": "distance", "y": "share", "color": "layer"}
PLACES = {**PLACES, "x_title": "position of the source, relative to the token"}


def _rest(table: pandas.DataFrame) -> str:
    return f"{table['not_largest'].iloc[-1]:.0%} of tokens are not their own largest contributor after the last layer"


def _figures(name: str, query: str, figures: tuple[str, str, str, str]) -> tuple[Figure, Figure, Figure, Figure]:
    """Figures 3 and 4 of the paper, of the first corpus or, with a panel for each, of the others."""
    first = query == "first"
    by: Encoding = {} if first else {"by": "data"}
    of = [each if first else partial(elsewhere, each) for each in (own, own, neighbours, totals)]
    answers = [f"{PAPER}, {figure}" for figure in figures]
    return (
        Figure(f"own_{name}", answers[0], of[0], {**BOXES, **by}, _kept, "median, middle half and 5–95 %"),
        Figure(f"not_largest_{name}", answers[1], of[1], {**REST, **by}, _rest, only=_without_spread),
        Figure(
            f"neighbours_{name}",
            answers[2],
            of[2],
            {**GROUPS, **by},
            lambda table: "In which layer each group of neighbours contributes most",
            "every group's layers sum to one",
        ),
        Figure(
            f"distance_{name}",
            answers[3],
            of[3],
            {**PLACES, **by},
            lambda table: "How much of the context comes from where",
            "share of all contributions by relative position, the token itself left out",
            only=_near,
        ),
    )


def _without_spread(table: pandas.DataFrame) -> pandas.DataFrame:
    return table[["layer", "not_largest", "data"]]


THIRD = _figures("0", "first", ("figure 3a", "figure 3b", "figure 4a", "figure 4b"))
OWN: Items = (
    *THIRD[:2],
    Table(
        "own_published",
        "the published figures 3a and 3b",
        own_beside,
        f"Theirs: {BASE}, 12 layers, MRPC dev. A layer of a shallower model stands for more of the way.",
    ),
    Claim("What is left of a token falls with depth.", median_trend, FALLS, form="+.2f"),
    Claim(
        "In most cases a token stays its own largest contributor.",
        not_largest,
        LESS_THAN_HALF,
        ("brunner2020", "not_main_contributor_percent", "12"),
        ".1%",
    ),
    Claim("The share of tokens that are not rises with depth.", not_largest_trend, RISES, form="+.2f"),
)
DISTANCE: Items = (
    *THIRD[2:],
    Claim(
        "The nearest neighbours contribute more in the first layers than in later ones.",
        partial(_first_less_last, "1"),
        MORE,
        form=".1%",
    ),
    Claim("Distant context contributes most in deep layers.", distant, MORE, form=".1%"),
    Claim("Context stays mostly local in every layer.", local, MORE, form=".1%"),
)
SPECIAL: Items = (
    Figure(
        "special_token",
        f"{PAPER}, figures 18a and 18b",
        special_token,
        {"kind": "lines", "x": "position", "y": "share", "color": "layer", "by": "centred"},
        lambda table: "Where the first token takes its context from",
        "total contribution by position, the token itself left out",
        only=_ends,
    ),
)
TRACKED: Items = (
    Figure(
        "tracked",
        f"{PAPER}, figures 19–25",
        tracked,
        {"kind": "grid", "x": "source", "y": "layer", "value": "share", "by": "token", "x_title": ""},
        lambda table: "Single tokens through the layers: whence each came",
        "contribution of every input token",
    ),
)
SPEECH: Items = (
    *(
        Figure(
            f"own_by_{tags}",
            f"{PAPER}, figures 26–37",
            partial(parts_of_speech, tags),
            {"kind": "boxes", "x": tags, "y": "middle", "by": "layer", "x_title": "", "y_title": ITSELF},
            partial(_ranked, tags),
            "by layer, in the order of the last: median, middle half and 5–95 %",
        )
        for tags in ("upos", "xpos")
    ),
    Claim(
        "In the last layer words with meaning keep more of themselves than function words.", classes, MORE, form=".1%"
    ),
)
DATA: Items = _figures(
    "elsewhere", "others", ("figures 40, 42 (a)", "figures 40, 42 (b)", "figures 41, 43 (a)", "figures 41, 43 (b)")
)


NEEDS = frozenset({"derivatives"})
STUDY = Study(
    name="attribution",
    title="What is left of a token, and whence the rest came",
    asks=(
        "Every hidden state is a mixture of all input tokens. How large is the part of the token itself, layer by"
        " layer, and from how far away does the context come?"
    ),
    paper=(
        "Brunner, Liu, Pascual, Richter, Ciaramita & Wattenhofer (2020). On identifiability in transformers. ICLR."
        " Section 5 and appendices C and D."
    ),
    data="sentences or pairs such as --data mrpc:dev.tsv, and a treebank for parts of speech (--data file.conllu)",
    sections=(
        Section("What is left", "How much of the token itself is in its hidden state?", OWN, NEEDS),
        Section(
            "How far context comes",
            "Which neighbours contribute, and in which layer?",
            DISTANCE,
            NEEDS,
        ),
        Section(
            "The token that stands for the whole",
            "Where does the first token take its context from?",
            SPECIAL,
            NEEDS,
        ),
        Section("Single tokens", "What is the history of one token?", TRACKED, NEEDS),
        Section("Parts of speech", "Which kinds of words keep most of themselves?", SPEECH, NEEDS),
        Section("Other data", "Is it the same elsewhere?", DATA, NEEDS),
    ),
)
