"""How much of each input token is left in its hidden state, and where does the rest come from? (Brunner et al. 2020)"""

from functools import partial

import numpy as np
import pandas

from whence.measures.flow import summaries as flow
from whence.stats.estimate import Estimate, estimate, paired
from whence.studies.attribution_rows import ITSELF, PAPER, maps_of, run_of, token_rows
from whence.studies.attribution_tokens import SPECIAL, SPEECH, TRACKED
from whence.studies.frame.context import Context, called, ends_and_middle, quartiles, trend
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.study import Absent, Claim, Encoding, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import FALLS, LESS_THAN_HALF, MORE, RISES

BASE = "bert-base-uncased"
REACH = 25  # relative positions that are drawn


def own(context: Context, place: int = 0) -> pandas.DataFrame:
    """By layer: what is left of a token, and how many tokens are not their own largest contributor."""
    tokens = context.kept(token_rows, place).groupby("layer")
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
    return estimate(context.kept(token_rows), "not_largest", "layer", lambda of: of.iloc[-1])


def not_largest_trend(context: Context) -> Estimate:
    return estimate(_deep(context), "not_largest", "layer", trend)


def _deep(context: Context) -> pandas.DataFrame:
    if context.model.anatomy.layers < 3:
        raise Absent("two layers make no trend")
    return context.kept(token_rows)


def _by_neighbour(context: Context, place: int = 0) -> pandas.DataFrame:
    """Of every sentence, layer and group of neighbours: the mean contribution, and over how many tokens."""
    tables = []
    for document, dataset, values in maps_of(run_of(context, place)):
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
    for document, dataset, values in maps_of(run_of(context, place)):
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
    """The token itself is no context: its place is empty, and no line crosses it."""
    shown = table[table["layer"].isin(ends_and_middle(table["layer"])) & (table["distance"].abs() <= REACH)]
    share = shown["share"].where(shown["distance"] != 0)
    return shown.assign(share=share, layer="layer " + shown["layer"].astype(str))


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


def elsewhere(query, context: Context) -> pandas.DataFrame:
    """The same of every further corpus."""
    if len(context.corpora) == 1:
        raise Absent("one corpus was given; name another with --data")
    return pandas.concat([query(context, place) for place in range(1, len(context.corpora))], ignore_index=True)


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
    of = [query if first else partial(elsewhere, query) for query in (own, own, neighbours, totals)]
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
