"""Can a hidden vector still be traced to its input token? (Brunner et al. 2020, section 4 and appendix B)"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas
import xarray

from whence.identity import identify
from whence.identity.keys import digest
from whence.models.load import Model
from whence.plot.drawing import Drawing
from whence.readers import Corpus
from whence.studies.context import Context, called, spearman
from whence.studies.frame import Beside, Claim, Item, Left, Section, Shown, Study
from whence.studies.prepare import at_most
from whence.studies.published import published, same_model

# how a probe and its distance are called; the order is that of the colours
KINDS = {
    ("linear", "cosine"): "linear, cosine",
    ("linear", "l2"): "linear, L2",
    ("mlp", "cosine"): "MLP, cosine",
    ("mlp", "l2"): "MLP, L2",
    ("naive", "cosine"): "naive, cosine",
    ("naive", "l2"): "naive, L2",
}
MAIN, ALONE = ("linear", "cosine"), (("naive", "cosine"), ("naive", "l2"))
ORDER = tuple(KINDS.values())
# the figure of the paper that trains on one layer and tests on all; the one that asks for neighbours
ACROSS = {MAIN: "2b", ("linear", "l2"): "8", ("mlp", "l2"): "9", ("mlp", "cosine"): "10"}
BESIDE = {MAIN: "14", ("mlp", "cosine"): "15", ("mlp", "l2"): "16", ("linear", "l2"): "17"}
OFFSETS = {-3: "3 to the left", -2: "2 to the left", -1: "1 to the left", 0: "the token itself"}
OFFSETS |= {1: "1 to the right", 2: "2 to the right", 3: "3 to the right"}
SHARES = (0.5, 0.8, 0.9, 1.0)
WORDS, LEAST = 120, 4  # of a text; the neighbour three places away has to be in it
BASE = "bert-base-uncased"
MOST, HARDLY, ALIKE = 0.8, 0.02, 0.05  # what we take "most tokens", "hardly helps" and "to the same degree" to mean
PAPER = "Brunner et al. 2020"
ARCHITECTURE = "Ours: closed-form probes, texts of four words or more. Theirs: the same probes trained with Adam."


@dataclass(frozen=True)
class Size:
    """How much is asked: ten folds for the first figure and one split for the others, as in the paper."""

    sentences: int
    folds: int
    layers: int
    network_layers: int
    "Of the MLP, which takes longest."


QUICK, FULL = Size(60, 2, 6, 2), Size(10**9, 10, 10**9, 10**9)


def _size(context: Context) -> Size:
    return QUICK if context.quick else FULL


def _layers(context: Context, probe: str, model: Model | None = None) -> list[int]:
    """All of them, or as many as are asked for, evenly spread from the first to the last."""
    count = (model or context.model).anatomy.layers
    most = _size(context).network_layers if probe == "mlp" else _size(context).layers
    return sorted({round(layer) for layer in np.linspace(1, count, min(most, count)).tolist()})


def _identified(
    context: Context,
    kind: tuple[str, str],
    *,
    corpus: Corpus | None = None,
    model: Model | None = None,
    layers: Sequence[int] | None = None,
    folds: int = 1,
    **options: Any,
) -> xarray.Dataset:
    """An experiment, from the study's folder if it was made before."""
    of, (probe, loss) = model or context.model, kind
    sentences = context.sentences(_size(context).sentences, corpus, at_most(WORDS, LEAST))
    asked = {"layers": list(layers or _layers(context, probe, of)), "folds": folds} | options
    made = [of.id, of.revision, sentences.key, probe, loss, asked, version("whence")]
    path = context.out / "runs" / f"identify-{probe}-{loss}-{digest(made)[:12]}.json"
    if path.exists():
        return xarray.Dataset.from_dict(json.loads(path.read_text(encoding="utf-8")))
    told = context.telling(f"{KINDS[kind]}: {called(corpus or context.corpus)}")
    found = identify(of, sentences, probe, loss=loss, truncate=True, cache=context.out, progress=told, **asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(found.to_dict()), encoding="utf-8")
    fresh.replace(path)
    return found


def _spans(found: xarray.Dataset, name: str, variable: str = "rate") -> pandas.DataFrame:
    """Mean, lowest and highest fold by layer."""
    rate = found[variable]
    columns = {"layer": found.layer, "rate": rate.mean("fold"), "low": rate.min("fold"), "high": rate.max("fold")}
    return pandas.DataFrame({key: column.values for key, column in columns.items()}).assign(probe=name)


def _sample(found: xarray.Dataset, context: Context, corpus: Corpus | None = None) -> str:
    folds = found.sizes["fold"]
    split = f"{folds} folds" if folds > 1 else "one split"
    about = f"{found.attrs['sentences']:,} sentences, {found.attrs['tokens']:,} tokens, {split}"
    return f"{about}; {context.model.id} · {called(corpus or context.corpus)}"


def _chance(found: xarray.Dataset) -> tuple[float, str]:
    guessed = float(found["chance"].mean())
    return guessed, f"guessing {guessed:.1%}"


def _last(found: xarray.Dataset, variable: str = "rate") -> float:
    return float(found[variable].isel(layer=-1).mean())


def _by_kind(context: Context, corpus: Corpus | None = None, **options: Any) -> dict[str, xarray.Dataset]:
    return {name: _identified(context, kind, corpus=corpus, **options) for kind, name in KINDS.items()}


def _lines(table: pandas.DataFrame, title: str, subtitle: str, found: xarray.Dataset, **more: Any) -> Drawing:
    settings = {"color": "probe", "order": ORDER, "y_title": "tokens recognised", "limits": (0, 1)}
    return Drawing("lines", table, "layer", "rate", title, subtitle, rule=_chance(found), **settings | more)


def _figure_2a(context: Context, corpus: Corpus, name: str, answers: str) -> tuple[Shown, dict[str, xarray.Dataset]]:
    found = _by_kind(context, corpus, folds=_size(context).folds)
    main = found[KINDS[MAIN]]
    table = pandas.concat([_spans(dataset, kind) for kind, dataset in found.items()], ignore_index=True)
    known = same_model(context.model.id, BASE) and corpus.format == "mrpc"
    at_end = (table["probe"] == KINDS[MAIN]) & (table["layer"] == context.model.anatomy.layers)
    table["published"] = np.where(at_end & known, _printed("identifiability_linear_cosine_percent", "12") / 100, np.nan)
    drawing = _lines(
        table,
        f"After layer {int(main.layer[-1])}, a linear map finds {_last(main):.0%} of the tokens again",
        f"nearest neighbour within the sentence, bands span the folds; {_sample(main, context, corpus)}",
        main,
        published="published",
    )
    return Shown(name, answers, drawing, note=_note(context)), found


def _note(context: Context) -> str:
    if not context.model.anatomy.causal:
        return ""
    return "Where the input embedding holds no position, the same word twice is a tie, and counts as half found."


def _printed(*keys: str) -> Any:
    return published("brunner2020", *keys)


def rates(context: Context) -> Iterator[Item]:
    shown, found = _figure_2a(context, context.corpus, "identity_rates", f"{PAPER}, Fig. 2a")
    yield shown
    rows = [{"probe": kind, "ours": f"{_last(each):.1%}", BASE: ""} for kind, each in found.items()]
    rows[0][BASE] = f"{_printed('identifiability_linear_cosine_percent', '12')} %"
    main = found[KINDS[MAIN]]
    rows.append(
        {"probe": "guessing", "ours": f"{_chance(main)[0]:.1%}", BASE: f"{_printed('chance_percent', 'MRPC')} %"}
    )
    yield Beside(
        "identity_last_layer",
        "the published rates of the last layer, where the paper prints them",
        pandas.DataFrame(rows),
        f"Ours: {_sample(main, context)}. Theirs: 12 layers, MRPC dev, 408 sentences, 21,723 tokens, 10 folds. {ARCHITECTURE}",
    )
    naive = found[KINDS["naive", "cosine"]]["rate"].mean("fold")
    yield Claim(
        "Without a probe, fewer tokens are recognised the deeper the layer.",
        bool(naive[-1] < naive[0] and _trend(naive) < 0),
        f"naive, cosine: {float(naive[0]):.1%} in layer 1, {float(naive[-1]):.1%} in layer {int(naive.layer[-1])},"
        f" Spearman with depth {_trend(naive):+.2f}",
    )
    yield Claim(
        "A linear map is enough to find most tokens of the last layer.",
        bool(_last(main) > MOST),
        f"{_last(main):.1%} (we ask for {MOST:.0%}), guessing {_chance(main)[0]:.1%}; {BASE}: 93 %",
    )
    pairs = {
        probe: [_last(found[KINDS[probe, loss]]) for loss in ("cosine", "l2")] for probe in ("naive", "linear", "mlp")
    }
    yield Claim(
        "Cosine distance finds more tokens than L2 distance.",
        all(cosine > distance for cosine, distance in pairs.values()),
        "last layer, cosine against L2: " + ", ".join(f"{probe} {a:.1%}, {b:.1%}" for probe, (a, b) in pairs.items()),
    )


def _trend(rate: xarray.DataArray) -> float:
    return spearman(pandas.Series(rate.layer.values), pandas.Series(rate.values))


def across_layers(context: Context) -> Iterator[Item]:
    for kind, figure in ACROSS.items():
        layers = _layers(context, kind[0])
        if kind[0] == "mlp" and context.quick:
            yield Left(
                f"{PAPER}, Fig. {figure}, of the MLP", "it is left out of the quick sample, and is in the full one"
            )
            continue
        found = _identified(context, kind, layers=layers, test_layers=layers)
        yield _grid(context, found, kind, figure)
        if kind == MAIN:
            yield from _across_claims(found["transfer"].mean("fold"), context)


def _grid(context: Context, found: xarray.Dataset, kind: tuple[str, str], figure: str) -> Shown:
    mean = found["transfer"].mean("fold")
    first, last = int(mean.trained_on[0]), int(mean.trained_on[-1])
    late, early = float(mean.sel(trained_on=last, tested_on=first)), float(mean.sel(trained_on=first, tested_on=last))
    drawing = Drawing(
        "grid",
        mean.to_dataframe("rate")[["rate"]].reset_index(),
        "tested_on",
        "trained_on",
        f"Trained on layer {last}, a probe finds {late:.0%} in layer {first}; the other way round {early:.0%}",
        f"{KINDS[kind]}, test rate; {_sample(found, context)}",
        value="rate",
        x_title="tested on layer",
        y_title="trained on layer",
        limits=(0, 1),
    )
    return Shown("identity_across_" + "_".join(kind), f"{PAPER}, Fig. {figure}", drawing)


def _across_claims(mean: xarray.DataArray, context: Context) -> Iterator[Item]:
    values, last = mean.values, int(mean.trained_on[-1])
    rows = [
        {"rate": f"trained on {last}, tested on {last}", "ours": f"{values[-1, -1]:.0%}", BASE: "94 %"},
        {"rate": f"trained on 1, tested on {last}", "ours": f"{values[0, -1]:.0%}", BASE: "below 70 %"},
    ]
    rows[1:1] = [{"rate": f"trained on {last}, tested on 1", "ours": f"{values[-1, 0]:.0%}", BASE: ""}]
    yield Beside(
        "identity_across",
        "what the text says of Fig. 2b",
        pandas.DataFrame(rows),
        f"Their last layer is 12 and the data MRPC dev, ours is {last} and {called(context.corpus)}. {ARCHITECTURE}",
    )
    below, above = np.tril_indices_from(values, -1), np.triu_indices_from(values, 1)
    down, up = float(values[below].mean()), float(values[above].mean())
    yield Claim(
        "What is learned on late layers holds for early ones better than the other way round.",
        bool(down > up) if len(values) > 1 else None,
        f"mean rate on earlier layers {down:.1%}, on later ones {up:.1%} (linear, cosine)",
    )


def generalisation(context: Context) -> Iterator[Item]:
    parts, gaps = [], {}
    for probe, name in (("linear", "linear"), ("mlp", "MLP")):
        found = _identified(context, (probe, "l2"), folds=_size(context).folds)
        parts += [_spans(found, f"{name}, train", "train_rate"), _spans(found, f"{name}, test")]
        gaps[name] = _last(found, "train_rate") - _last(found)
    yield Shown(
        "identity_train_test",
        f"{PAPER}, Fig. 7",
        _lines(
            pandas.concat(parts, ignore_index=True),
            f"In the last layer the linear map does {_points(gaps['linear'])} worse on new sentences, the MLP {_points(gaps['MLP'])}",
            f"L2, training and test sentences, bands span the folds; {_sample(found, context)}",
            found,
            order=("linear, train", "linear, test", "MLP, train", "MLP, test"),
        ),
    )
    yield Claim(
        "Linear map and MLP overfit to the same degree.",
        abs(gaps["linear"] - gaps["MLP"]) < ALIKE,
        f"train less test rate, last layer: linear {_points(gaps['linear'])}, MLP {_points(gaps['MLP'])}"
        f" (we ask for less than {_points(ALIKE)} between them)",
    )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def training_share(context: Context) -> Iterator[Item]:
    layer = max(1, context.model.anatomy.layers - 1)
    found = [_identified(context, ("mlp", "l2"), layers=[layer], train_share=share) for share in SHARES]
    theirs = [_printed("mlp_layer11_rate_by_training_share", f"{share:.0%}"[:-1]) for share in SHARES]
    table = pandas.DataFrame({"share": [f"{share:.0%}" for share in SHARES], "rate": [_last(each) for each in found]})
    known = same_model(context.model.id, BASE) and context.corpus.format == "mrpc"
    table["published"] = theirs if known else np.nan
    gain = float(table["rate"].iloc[-1] - table["rate"].iloc[-2])
    half = float(table["rate"].iloc[-1] - table["rate"].iloc[0])
    yield Shown(
        "identity_training_share",
        f"{PAPER}, appendix B.2",
        Drawing(
            "bars",
            table,
            "share",
            "rate",
            f"Twice the training data gives {_points(half)} more",
            f"MLP, L2, layer {layer}, test rate by share of the training sentences; {_sample(found[0], context)}",
            order=tuple(table["share"]),
            published="published",
            y_title="tokens recognised",
            x_title="of the training sentences",
            limits=(0, 1),
        ),
    )
    yield Beside(
        "identity_training_shares",
        "the published rates by training share",
        table[["share", "rate"]].rename(columns={"rate": "ours"}).assign(**{f"{BASE}, layer 11": theirs}),
        f"Ours: layer {layer} of {context.model.anatomy.layers}, {_sample(found[0], context)}. Theirs: MRPC dev. {ARCHITECTURE}",
    )
    yield Claim(
        "More training data would hardly help.",
        gain < HARDLY,
        f"the last tenth of the data adds {_points(gain)} (we ask for less than {_points(HARDLY)}); published: 1 point",
    )


def single_layers(context: Context) -> Iterator[Item]:
    kinds = {kind: name for kind, name in KINDS.items() if kind[0] != "mlp" or not context.quick}
    found = {name: _identified(context, kind, target="previous") for kind, name in kinds.items()}
    naive, distance = (found[KINDS[kind]]["rate"].mean("fold") for kind in ALONE)
    table = pandas.concat([_spans(each, name) for name, each in found.items()], ignore_index=True)
    last = next(iter(found.values()))
    yield Shown(
        "identity_previous",
        f"{PAPER}, Fig. 11",
        _lines(
            table,
            f"Without any probe, a block's input is found from its output for {float(naive.min()):.0%} to {float(naive.max()):.0%} of the tokens",
            f"hidden vector to that of the layer before; naive, cosine in the title; {_sample(last, context)}",
            last,
        ),
    )
    yield Claim(
        "Across a single layer, even the vectors as they are find most tokens.",
        bool(naive.min() > 0.5),
        f"naive, cosine: at least {float(naive.min()):.1%} in every layer",
    )
    yield Claim(
        "A block changes the angle of a vector less than its length.",
        bool(naive.mean() > distance.mean()),
        f"naive, mean over layers: cosine {float(naive.mean()):.1%}, L2 {float(distance.mean()):.1%}",
    )
    yield Claim(
        "Later layers make their input harder to find.",
        bool(_trend(distance) < 0),
        f"naive, L2: Spearman of layer and rate {_trend(distance):+.2f}, last layer {float(distance[-1]):.1%}",
    )


def other_model(context: Context) -> Iterator[Item]:
    what = f"{PAPER}, Figs 12 and 13: fine-tuned against not"
    if context.other is None:
        yield Left(what, "one model was given; name a fine-tuned one with --other")
        return
    parts, found = [], {}
    for model in (context.model, context.other):
        for kind in ALONE:
            one = _identified(context, kind, model=model, target="previous")
            found[model is context.other, kind[1]] = one["rate"].mean("fold")
            parts.append(_spans(one, f"{KINDS[kind]}, {'the other' if model is context.other else 'the first'}"))
    lost = {loss: float(found[False, loss][-1] - found[True, loss][-1]) for loss in ("cosine", "l2")}
    yield Shown(
        "identity_other_model",
        f"{PAPER}, Figs 12 and 13",
        _lines(
            pandas.concat(parts, ignore_index=True),
            f"Across the last layer, the other model finds {_points(abs(lost['l2']))} {'fewer' if lost['l2'] > 0 else 'more'} by L2",
            f"without a probe, to the layer before; first: {context.model.id}, other: {context.other.id}; {_sample(one, context)}",
            one,
            order=tuple(part["probe"].iloc[0] for part in parts),
        ),
    )
    yield Claim(
        "Fine-tuning makes the last layer's tokens harder to find by L2, and much less so by cosine.",
        bool(lost["l2"] > 0 and lost["l2"] > lost["cosine"]),
        f"the other model's last layer loses {_points(lost['l2'])} by L2, {_points(lost['cosine'])} by cosine",
    )


def neighbours(context: Context) -> Iterator[Item]:
    for kind, figure in BESIDE.items():
        if context.quick and kind != MAIN:
            yield Left(
                f"{PAPER}, Fig. {figure} ({KINDS[kind]})", "it is left out of the quick sample, and is in the full one"
            )
            continue
        layers = _layers(context, "mlp" if context.quick else kind[0])
        found = {offset: _identified(context, kind, layers=layers, offset=offset) for offset in OFFSETS}
        yield _neighbours(context, found, kind, figure)
        if kind == MAIN:
            yield from _neighbour_claims(found)


def _neighbours(context: Context, found: dict[int, xarray.Dataset], kind: tuple[str, str], figure: str) -> Shown:
    table = pandas.concat([_spans(each, OFFSETS[offset]) for offset, each in found.items()], ignore_index=True)
    layer = int(found[0].layer[-1])
    return Shown(
        "identity_neighbours_" + "_".join(kind),
        f"{PAPER}, Fig. {figure}",
        _lines(
            table,
            f"Layer {layer} gives back {_last(found[0]):.0%} of its own tokens, {_last(found[-1]):.0%} of the left and"
            f" {_last(found[1]):.0%} of the right neighbours",
            f"{KINDS[kind]}, test rate; {_sample(found[0], context)}",
            found[0],
            order=tuple(OFFSETS.values()),
        ),
        note="A decoder has not read what stands to the right: there, what is found was predicted."
        if context.model.anatomy.causal
        else "",
    )


def _neighbour_claims(found: dict[int, xarray.Dataset]) -> Iterator[Item]:
    means = {offset: float(each["rate"].mean()) for offset, each in found.items()}
    best = max(means[-1], means[1])
    yield Claim(
        "Neighbours are found much less often than the token itself.",
        bool(means[0] - best > 0.1),
        f"mean over layers: {means[0]:.1%} itself, {means[-1]:.1%} left, {means[1]:.1%} right (we ask for 10 points)",
    )
    by_distance = [(means[-k] + means[k]) / 2 for k in (1, 2, 3)]
    yield Claim(
        "The farther a neighbour, the less often it is found.",
        by_distance[0] > by_distance[1] > by_distance[2],
        "1, 2, 3 away: " + ", ".join(f"{rate:.1%}" for rate in by_distance),
    )
    deep = {offset: _trend(each["rate"].mean("fold")) for offset, each in found.items() if offset in (-1, 1)}
    enough = found[1].sizes["layer"] > 2
    yield Claim(
        "The deeper the layer, the less often neighbours are found.",
        all(trend < 0 for trend in deep.values()) if enough else None,
        f"Spearman of layer and rate: left {deep[-1]:+.2f}, right {deep[1]:+.2f}, {found[1].sizes['layer']} layers",
    )


def other_data(context: Context) -> Iterator[Item]:
    if len(context.corpora) == 1:
        yield Left(f"{PAPER}, Figs 38 and 39: CoLA and MNLI", "one corpus was given; name more with --data")
        return
    rows = []
    for place, corpus in enumerate(context.corpora[1:], start=1):
        shown, found = _figure_2a(
            context, corpus, f"identity_data_{place}", f"{PAPER}, Figs 38 and 39: {called(corpus)}"
        )
        yield shown
        main = found[KINDS[MAIN]]
        rows.append(
            {"data": called(corpus), "linear, cosine": f"{_last(main):.1%}", "guessing": f"{_chance(main)[0]:.1%}"}
        )
    guessing = _printed("chance_percent")
    rows += [
        {"data": f"{name} (published)", "linear, cosine": "", "guessing": f"{guessing[name]} %"} for name in guessing
    ]
    yield Beside(
        "identity_data",
        "the published rates of guessing, one over the mean length",
        pandas.DataFrame(rows),
        "Theirs: CoLA dev, 1,043 sentences; MNLI-m dev, the first 500 pairs.",
    )


STUDY = Study(
    name="token-identifiability",
    title="Whether a hidden vector can still be traced to its token",
    asks=(
        "Layer after layer, attention mixes tokens. Is the vector at a position still that of the token that stood there, so that"
        " the token can be found among those of its sentence?"
    ),
    paper="Brunner, Liu, Pascual, Richter, Ciaramita & Wattenhofer (2020). On identifiability in transformers. ICLR.",
    data="sentences or pairs such as --data mrpc:dev.tsv; further corpora such as CoLA and MNLI are set beside the first",
    sections=(
        Section("By layer", "How many tokens are found, without a probe, with a linear map, with an MLP?", rates),
        Section("Across layers", "Does a probe that was trained on one layer work on the others?", across_layers),
        Section("New sentences", "How much better do the probes do on what they were trained on?", generalisation),
        Section("More data", "Would the probes profit from more training data?", training_share),
        Section("One layer at a time", "Is a block's input found from its output?", single_layers),
        Section("Another model", "Does fine-tuning change what the last layers keep?", other_model),
        Section("Neighbours", "Are the tokens next to a position found in its vector too?", neighbours),
        Section("Other data", "Is it the same on other texts?", other_data),
    ),
)
