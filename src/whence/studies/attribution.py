"""How much of each input token is left in its hidden state, and where does the rest come from? (Brunner et al. 2020)"""

from collections.abc import Iterator

import numpy as np
import pandas
import torch
import xarray

from whence.corpus.open_run import Run
from whence.measures.flow import summaries as flow
from whence.measures.options import Contribution
from whence.plot.drawing import SEPARATOR, Drawing
from whence.sentence.measure import measure
from whence.studies.frame.context import Context, called, ends_and_middle, quartiles, spearman
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Beside, Finding, Item, Left, Section, Shown, Study, concluded

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


def own(context: Context) -> Iterator[Item]:
    yield from _own(context, 0, "figure 3a", "figure 3b")
    tokens = _run(context).tokens
    medians = tokens.groupby("layer")["contribution_own"].median()
    rest = 1 - tokens.groupby("layer")["contribution_own_largest"].mean()
    yield _beside(context, medians, rest)
    rho = spearman(pandas.Series(medians.index), pandas.Series(medians.to_numpy()))
    statistic = ", ".join(f"{layer}: {value:.1%}" for layer, value in medians.items())
    yield concluded("What is left of a token falls with depth.", bool(rho < -0.8), f"median by layer {statistic}")
    yield concluded(
        "In most cases a token stays its own largest contributor.",
        bool(rest.iloc[-1] < 0.5),
        f"{rest.iloc[-1]:.1%} of tokens are not, after the last layer",
    )
    yield concluded(
        "The share of tokens that are not rises with depth.",
        bool(rest.iloc[-1] > rest.iloc[0]),
        f"from {rest.iloc[0]:.1%} in the first layer to {rest.iloc[-1]:.1%} in the last",
    )


def _own(context: Context, place: int, first: str, second: str) -> Iterator[Item]:
    """By layer: what is left of a token, and how many tokens are not their own largest contributor."""
    tokens, name = _run(context, place).tokens, called(context.corpora[place])
    boxes = tokens.groupby("layer")["contribution_own"].apply(quartiles).unstack().reset_index()
    theirs = published("brunner2020", "self_contribution_median_percent")
    known = hub_name(context.model.id) == BASE and place == 0
    boxes["published"] = [theirs.get(str(layer), np.nan) / 100 if known else np.nan for layer in boxes["layer"]]
    yield Shown(
        f"own_{place}",
        f"Brunner et al. 2020, {first}",
        Drawing(
            "boxes",
            boxes,
            "layer",
            "middle",
            f"A token keeps {boxes.middle.iloc[0]:.0%} of itself after layer 1, {boxes.middle.iloc[-1]:.0%} at the end",
            f"median, middle half and 5–95 % of {boxes.n.iloc[0]:,.0f} tokens; {context.model.id} · {name}",
            published="published",
            y_title="contribution of the token itself",
        ),
    )
    rest = (1 - tokens.groupby("layer")["contribution_own_largest"].mean()).rename("share").reset_index()
    yield Shown(
        f"not_largest_{place}",
        f"Brunner et al. 2020, {second}",
        Drawing(
            "lines",
            rest,
            "layer",
            "share",
            f"{rest.share.iloc[-1]:.0%} of tokens are not their own largest contributor after the last layer",
            f"{context.model.id} · {name}",
            y_title="share of tokens",
            limits=(0.0, max(0.4, float(rest.share.max()) * 1.1)),
        ),
    )


def _beside(context: Context, medians: pandas.Series, rest: pandas.Series) -> Beside:
    theirs = published("brunner2020")
    layers = sorted({*medians.index, *map(int, theirs["self_contribution_median_percent"])})
    rows = [
        {
            "layer": layer,
            "ours, median %": 100 * float(medians.get(layer, np.nan)),
            f"{BASE}, median %": float(theirs["self_contribution_median_percent"].get(str(layer), np.nan)),
            "ours, not largest %": 100 * float(rest.get(layer, np.nan)),
            f"{BASE}, not largest %": float(theirs["not_main_contributor_percent"].get(str(layer), np.nan)),
        }
        for layer in layers
    ]
    differs = (
        f"Ours: {context.about}, {context.model.anatomy.layers} layers. Theirs: {BASE}, 12 layers, MRPC dev. A layer of"
        " a shallower model stands for more of the way."
    )
    return Beside("own_published", "the published figures 3a and 3b", pandas.DataFrame(rows), differs)


def context_by_distance(context: Context) -> Iterator[Item]:
    yield from _distance(context, 0, "figure 4a", "figure 4b")
    groups = _neighbours(_run(context))
    near, far = groups["1"], groups["11+"]
    yield concluded(
        "The nearest neighbours contribute more in the first layers than in later ones.",
        bool(near.iloc[0] > near.iloc[-1]),
        f"share of their contribution by layer: first {near.iloc[0]:.2f}, last {near.iloc[-1]:.2f}",
    )
    if far.notna().all():
        yield concluded(
            "Distant context contributes most in deep layers.",
            bool(far.iloc[-1] > far.iloc[0]),
            f"neighbours beyond the tenth: first layer {far.iloc[0]:.2f}, last {far.iloc[-1]:.2f}",
        )
    totals = _totals(_run(context))
    sides = totals[totals["distance"].abs().isin((1, 2))].groupby(["layer", totals["distance"].abs()])["share"].mean()
    local = sides.unstack()
    yield concluded(
        "Context stays mostly local in every layer.",
        bool((local[1] > local[2]).all()),
        f"in the last layer the nearest neighbour gives {local[1].iloc[-1]:.1%}, the second {local[2].iloc[-1]:.1%}",
    )


def _maps(run: Run) -> Iterator[tuple[xarray.Dataset, torch.Tensor]]:
    for dataset in run.maps.values():
        yield dataset, torch.tensor(dataset["contribution"].values)


def _neighbours(run: Run) -> pandas.DataFrame:
    """Mean contributions by layer (rows) and group of neighbours (columns); the layers of a group sum to one."""
    parts = torch.cat([flow.by_neighbour(values) for _, values in _maps(run)], dim=1)
    layers = run.manifest["plan"]["layers"]
    means = pandas.DataFrame(parts.nanmean(dim=1).numpy(), index=layers, columns=list(flow.NEIGHBOURS))
    return means / means.sum()


def _totals(run: Run) -> pandas.DataFrame:
    """Total contribution by relative position, as shares of all contributions."""
    counts: dict[int, np.ndarray] = {}
    for _, values in _maps(run):
        reach = values.shape[-1] - 1
        for distance, total in zip(range(-reach, reach + 1), flow.by_distance(values).numpy().T, strict=True):
            counts[distance] = counts.get(distance, np.zeros(len(total))) + total
    table = pandas.DataFrame(counts, index=run.manifest["plan"]["layers"]).T
    shares = (table / table.sum()).rename_axis("distance").reset_index()
    return shares.melt("distance", var_name="layer", value_name="share").astype({"layer": int})


def _distance(context: Context, place: int, first: str, second: str) -> Iterator[Item]:
    run, name = _run(context, place), called(context.corpora[place])
    groups = _neighbours(run)
    table = groups.rename_axis("layer").reset_index().melt("layer", var_name="neighbour", value_name="share").dropna()
    yield Shown(
        f"neighbours_{place}",
        f"Brunner et al. 2020, {first}",
        Drawing(
            "lines",
            table,
            "layer",
            "share",
            "In which layer each group of neighbours contributes most",
            f"every group's layers sum to one; {context.model.id} · {name}",
            color="neighbour",
            y_title="share of the group's contribution",
        ),
    )
    totals = _totals(run)
    shown = totals[totals["layer"].isin(ends_and_middle(totals["layer"]))]
    near = shown[(shown["distance"].abs() <= REACH) & (shown["distance"] != 0)]
    yield Shown(
        f"distance_{place}",
        f"Brunner et al. 2020, {second}",
        Drawing(
            "lines",
            near.assign(layer="layer " + near["layer"].astype(str)),
            "distance",
            "share",
            "Most context comes from the nearest neighbours, in every layer",
            f"share of all contributions by relative position, the token itself left out; {context.model.id} · {name}",
            color="layer",
            x_title="position of the source, relative to the token",
            y_title="share",
        ),
        table=totals,
    )


def special_token(context: Context) -> Iterator[Item]:
    first = context.model.tokenizer.cls_token
    sep = context.model.tokenizer.sep_token
    rows: dict[tuple[str, int, int], list[float]] = {}
    for dataset, values in _maps(_run(context)):
        tokens = [str(token) for token in dataset["source_token"].values]
        if first is None or first not in tokens:
            continue
        at = tokens.index(first)
        border = tokens.index(sep) if sep in tokens else None
        for layer, row in zip(dataset["layer"].values.tolist(), values[:, at], strict=True):
            for source, value in enumerate(row.tolist()):
                if source != at:
                    rows.setdefault((f"from {first}", layer, source - at), []).append(value)
                    if border is not None:
                        rows.setdefault((f"from the first {sep}", layer, source - border), []).append(value)
    if not rows:
        yield Left("figures 18a and 18b", "this model's input has no token that stands for the whole, such as [CLS]")
        return
    table = pandas.DataFrame(
        [{"centred": c, "layer": layer, "position": p, "sum": sum(v)} for (c, layer, p), v in rows.items()]
    )
    table["share"] = table["sum"] / table.groupby(["centred", "layer"])["sum"].transform("sum")
    shown = table[table["layer"].isin(ends_and_middle(table["layer"]))].sort_values("position")
    yield Shown(
        "special_token",
        "Brunner et al. 2020, figures 18a and 18b",
        Drawing(
            "lines",
            shown.assign(layer="layer " + shown["layer"].astype(str)),
            "position",
            "share",
            f"Where {first} takes its context from",
            f"total contribution by position, {first} itself left out; {context.about}",
            color="layer",
            by="centred",
        ),
    )


def tracked(context: Context) -> Iterator[Item]:
    if context.text is None:
        dataset = next(iter(_run(context).maps.values()))
    else:
        dataset = measure(context.model, context.text, ["contribution"], truncate=True)
    tokens = [str(token) for token in dataset["source_token"].values]
    values, special = dataset["contribution"], dataset["source_is_special"].values
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
        for layer, line in zip(values["layer"].values, values.sel(target=target).values, strict=True)
        for at, row in enumerate(line)
    ]
    yield Shown(
        "tracked",
        "Brunner et al. 2020, figures 19–25",
        Drawing(
            "grid",
            pandas.DataFrame(rows),
            "source",
            "layer",
            "Single tokens through the layers: whence each came",
            f"contribution of every input token; {' '.join(tokens[:16])} …; {context.model.id}",
            value="share",
            by="token",
            x_title="",
        ),
    )


def parts_of_speech(context: Context) -> Iterator[Item]:
    place = next((at for at in range(len(context.corpora)) if _run(context, at).tokens["upos"].notna().any()), None)
    if place is None:
        yield Left(
            "figures 26–37", "no corpus given has parts of speech; give a CoNLL-U file as well (--data file.conllu)"
        )
        return
    tokens = _run(context, place).tokens
    boxes = {tags: _kept_by(tokens, tags) for tags in ("upos", "xpos") if tokens[tags].notna().any()}
    for tags, table in boxes.items():
        last = table[table["layer"] == table["layer"].max()].iloc[[0, -1]]
        (most, least), (high, low) = last[tags], last["middle"]
        yield Shown(
            f"own_by_{tags}",
            "Brunner et al. 2020, figures 26–37",
            Drawing(
                "boxes",
                table,
                tags,
                "middle",
                f"After the last layer {most} keeps {high:.0%} of itself, {least} {low:.0%}",
                "by layer, in the order of the last: median, middle half and 5–95 %;"
                f" {context.model.id} · {called(context.corpora[place])}",
                by="layer",
                x_title="",
                y_title="contribution of the token itself",
            ),
        )
    yield _classes(tokens)


def _kept_by(tokens: pandas.DataFrame, tags: str) -> pandas.DataFrame:
    """What tokens keep, by layer and tag, sorted by the last layer; special tokens are tags of their own."""
    names = tokens[tags].where(~tokens["is_special"], tokens["token"])
    boxes = tokens.groupby(["layer", names])["contribution_own"].apply(quartiles).unstack().reset_index()
    boxes = boxes[boxes["n"] >= LEAST]
    order = boxes[boxes["layer"] == boxes["layer"].max()].sort_values("middle", ascending=False)[tags]
    places = {name: place for place, name in enumerate(order)}
    return boxes.sort_values(["layer", tags], key=lambda column: column.map(places) if column.name == tags else column)


def _classes(tokens: pandas.DataFrame) -> Finding:
    last = tokens[(tokens["layer"] == tokens["layer"].max()) & tokens["upos"].notna()]
    is_open = last["upos"].isin(OPEN)
    kept = {"open": last[is_open]["contribution_own"].median(), "closed": last[~is_open]["contribution_own"].median()}
    return concluded(
        "In the last layer words with meaning keep more of themselves than function words.",
        bool(kept["open"] > kept["closed"]),
        f"median: open classes {kept['open']:.1%}, all others {kept['closed']:.1%}",
    )


def other_data(context: Context) -> Iterator[Item]:
    if len(context.corpora) == 1:
        yield Left("figures 40–43", "one corpus was given; name another with --data")
    for place in range(1, len(context.corpora)):
        yield from _own(context, place, "figures 40 and 42 (a)", "figures 40 and 42 (b)")
        yield from _distance(context, place, "figures 41 and 43 (a)", "figures 41 and 43 (b)")


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
        Section("What is left", "How much of the token itself is in its hidden state?", make=own, needs=NEEDS),
        Section(
            "How far context comes",
            "Which neighbours contribute, and in which layer?",
            make=context_by_distance,
            needs=NEEDS,
        ),
        Section(
            "The token that stands for the whole",
            "Where does the first token take its context from?",
            make=special_token,
            needs=NEEDS,
        ),
        Section("Single tokens", "What is the history of one token?", make=tracked, needs=NEEDS),
        Section("Parts of speech", "Which kinds of words keep most of themselves?", make=parts_of_speech, needs=NEEDS),
        Section("Other data", "Is it the same elsewhere?", make=other_data, needs=NEEDS),
    ),
)
