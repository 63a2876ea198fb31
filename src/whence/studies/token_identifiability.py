"""Can a hidden vector still be traced to its input token? (Brunner et al. 2020, section 4 and appendix B)"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import xarray

from whence.plot.drawing import Drawing
from whence.studies.frame.context import FALLING, Context, called, falls
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.study import Beside, Item, Left, Section, Shown, Study, concluded
from whence.studies.token_experiments import (
    KINDS,
    MAIN,
    Kind,
    by_layer,
    folds_of,
    guessing,
    identified,
    last,
    layers_of,
    points,
    sample,
    spans,
    trend,
)
from whence.text.readers import Corpus

PAPER = "Brunner et al. 2020"
BASE = "bert-base-uncased"
ALONE: tuple[Kind, Kind] = (("naive", "cosine"), ("naive", "l2"))
# probe -> the figure that trains on one layer and tests on all; the figure that looks for neighbours
ACROSS: dict[Kind, str] = {MAIN: "2b", ("linear", "l2"): "8", ("mlp", "l2"): "9", ("mlp", "cosine"): "10"}
BESIDE: dict[Kind, str] = {MAIN: "14", ("mlp", "cosine"): "15", ("mlp", "l2"): "16", ("linear", "l2"): "17"}
OFFSETS = {-3: "3 to the left", -2: "2 to the left", -1: "1 to the left", 0: "the token itself"}
OFFSETS |= {1: "1 to the right", 2: "2 to the right", 3: "3 to the right"}
SHARES = (0.5, 0.8, 0.9, 1.0)
# our reading of "most tokens", "much less often", "hardly helps" and "to the same degree"
MOST, MUCH, HARDLY, ALIKE = 0.8, 0.1, 0.02, 0.05
THEIRS = "MRPC dev, 408 sentences, 21,723 tokens, 12 layers"
PROBES = "Our probes are solved for in closed form, the MLP with L2 in a short training; theirs were trained with Adam."


def _printed(*keys: str) -> Any:
    return published("brunner2020", *keys)


def _same(context: Context, corpus: Corpus) -> bool:
    return hub_name(context.model.id) == BASE and corpus.format == "mrpc"


def _joined(experiments: dict[str, xarray.Dataset]) -> pandas.DataFrame:
    return pandas.concat([spans(experiment, name) for name, experiment in experiments.items()], ignore_index=True)


def _figure_2a(context: Context, corpus: Corpus, name: str, answers: str) -> tuple[Shown, dict[str, xarray.Dataset]]:
    experiments = {
        name: identified(context, kind, corpus=corpus, folds=folds_of(context, kind)) for kind, name in KINDS.items()
    }
    main, table = experiments[KINDS[MAIN]], _joined(experiments)
    comparable = (table["probe"] == KINDS[MAIN]) & (table["layer"] == 12) & _same(context, corpus)
    table["published"] = np.where(comparable, _printed("identifiability_linear_cosine_percent", "12") / 100, np.nan)
    drawing = by_layer(
        table,
        f"After layer {int(main.layer[-1])}, a linear map finds {last(main):.0%} of the tokens again",
        f"nearest neighbour within the sentence, bands span the folds; {sample(main, context, corpus)}",
        main,
        published="published",
    )
    return Shown(name, answers, drawing, note=_note(context)), experiments


def _note(context: Context) -> str:
    quick = "Dots are what was measured: the quick sample leaves layers out." if context.quick else ""
    ties = "Where the input embedding holds no position, the same word twice is a tie and counts as half found."
    split = "The MLP with L2 is one split."
    return " ".join(filter(None, [split, quick, ties if context.model.anatomy.causal else ""]))


def rates(context: Context) -> Iterator[Item]:
    shown, experiments = _figure_2a(context, context.corpus, "identity_rates", f"{PAPER}, Fig. 2a")
    yield shown
    main = experiments[KINDS[MAIN]]
    rows = [
        {"last layer": kind, "ours": f"{last(experiment):.1%}", BASE: ""} for kind, experiment in experiments.items()
    ]
    rows[0][BASE] = f"{_printed('identifiability_linear_cosine_percent', '12')}%"
    chance = f"{_printed('chance_percent', 'MRPC')}%"
    yield Beside(
        "identity_last_layer",
        "the published rates of the last layer, where the paper prints them",
        pandas.DataFrame([*rows, {"last layer": "guessing", "ours": f"{guessing(main):.1%}", BASE: chance}]),
        f"Ours: {sample(main, context)}, {main.layer.values[-1]} layers. Theirs: {THEIRS}, 10 folds. {PROBES}",
    )
    yield from _rate_claims(experiments)


def _rate_claims(experiments: dict[str, xarray.Dataset]) -> Iterator[Item]:
    main, naive = experiments[KINDS[MAIN]], experiments[KINDS["naive", "cosine"]]
    first, deep = float(naive["rate"][0].mean()), last(naive)
    yield concluded(
        "Without a probe, fewer tokens are recognised the deeper the layer.",
        deep < first and falls(trend(naive)),
        f"naive, cosine: {first:.1%} in layer 1, {deep:.1%} in the last, Spearman with depth {trend(naive):+.2f}",
    )
    yield concluded(
        "A linear map is enough to find most tokens of the last layer.",
        last(main) > MOST,
        f"{last(main):.1%} (we ask for {MOST:.0%}), guessing {guessing(main):.1%}; {BASE}: 93%",
    )
    pairs = {
        name: [last(experiments[f"{name}, {loss}"]) for loss in ("cosine", "L2")] for name in ("naive", "linear", "MLP")
    }
    yield concluded(
        "Cosine distance finds more tokens than L2 distance.",
        all(cosine > distance for cosine, distance in pairs.values()),
        "last layer, cosine against L2: "
        + ", ".join(f"{name} {cosine:.1%} and {distance:.1%}" for name, (cosine, distance) in pairs.items()),
    )


def across_layers(context: Context) -> Iterator[Item]:
    for kind, figure in ACROSS.items():
        if context.quick and kind[0] == "mlp":
            continue
        layers = layers_of(context, kind[0])
        experiment = identified(context, kind, layers=layers, test_layers=layers)
        yield _across(context, experiment, kind, figure)
        if kind == MAIN:
            yield from _across_claims(experiment["transfer"].mean("fold"), context)
    if context.quick:
        yield Left(f"{PAPER}, Figs 9 and 10, the same of the MLP", "it is left out of the quick sample")


def _across(context: Context, experiment: xarray.Dataset, kind: Kind, figure: str) -> Shown:
    mean = experiment["transfer"].mean("fold")
    low, high = int(mean.trained_on[0]), int(mean.trained_on[-1])
    late, early = float(mean.sel(trained_on=high, tested_on=low)), float(mean.sel(trained_on=low, tested_on=high))
    drawing = Drawing(
        "grid",
        mean.to_dataframe("rate")[["rate"]].reset_index(),
        "tested_on",
        "trained_on",
        f"Trained on layer {high}, a probe finds {late:.0%} in layer {low}; the other way round {early:.0%}",
        f"{KINDS[kind]}, test rate; {sample(experiment, context)}",
        value="rate",
        x_title="tested on layer",
        y_title="trained on layer",
        limits=(0.0, 1.0),
    )
    return Shown("identity_across_" + "_".join(kind), f"{PAPER}, Fig. {figure}", drawing)


def _across_claims(mean: xarray.DataArray, context: Context) -> Iterator[Item]:
    values, deep = mean.values, int(mean.trained_on[-1])
    printed = _printed("identifiability_trained_on_1_tested_on_11_and_12_percent")
    rows = [
        (deep, deep, values[-1, -1], f"{_printed('identifiability_trained_on_12_tested_on_12_percent')}%"),
        (deep, 1, values[-1, 0], ""),
        (1, deep, values[0, -1], f"{printed}%"),
    ]
    table = pandas.DataFrame(rows, columns=["trained on", "tested on", "ours", f"{BASE}, last layer 12"])
    yield Beside(
        "identity_across",
        "what the text says of Fig. 2b",
        table.assign(ours=[f"{rate:.0%}" for rate in table["ours"]]),
        f"Ours: {called(context.corpus)}, the last layer is {deep}. Theirs: {THEIRS}. {PROBES}",
    )
    down, up = (
        float(values[rows].mean()) for rows in (np.tril_indices_from(values, -1), np.triu_indices_from(values, 1))
    )
    yield concluded(
        "What is learned on late layers holds for early ones better than the other way round.",
        down > up if len(values) > 1 else None,
        f"linear, cosine: mean rate on earlier layers {down:.1%}, on later ones {up:.1%}",
    )


def generalisation(context: Context) -> Iterator[Item]:
    parts, gaps = {}, {}
    for probe, name in (("linear", "linear"), ("mlp", "MLP")):
        experiment = identified(context, (probe, "l2"), folds=folds_of(context, (probe, "l2")))
        parts[f"{name}, train"] = spans(experiment, f"{name}, train", "train_rate")
        parts[f"{name}, test"] = spans(experiment, f"{name}, test")
        gaps[name] = last(experiment, "train_rate") - last(experiment)
    linear, network = (points(gaps[name]) for name in ("linear", "MLP"))
    yield Shown(
        "identity_train_test",
        f"{PAPER}, Fig. 7",
        by_layer(
            pandas.concat(parts.values(), ignore_index=True),
            f"On new sentences the linear map loses {linear} in the last layer, the MLP {network}",
            f"L2, training and test sentences, bands span the folds; {sample(experiment, context)}",
            experiment,
            order=tuple(parts),
        ),
    )
    yield concluded(
        "Linear map and MLP overfit to the same degree.",
        abs(gaps["linear"] - gaps["MLP"]) < ALIKE,
        f"train less test rate in the last layer: linear {linear}, MLP {network} (we ask for {points(ALIKE)} at most)",
    )


def training_share(context: Context) -> Iterator[Item]:
    layer = max(1, context.model.anatomy.layers - 1)
    experiments = [identified(context, ("mlp", "l2"), layers=[layer], train_share=share) for share in SHARES]
    theirs = list(_printed("mlp_layer11_rate_by_training_share").values())
    shares, rates = [f"{share:.0%}" for share in SHARES], [last(experiment) for experiment in experiments]
    table = pandas.DataFrame({"share": shares, "rate": rates})
    table["published"] = theirs if _same(context, context.corpus) else np.nan
    half, _, most, all_of_it = table["rate"]
    yield Shown(
        "identity_training_share",
        f"{PAPER}, appendix B.2",
        Drawing(
            "bars",
            table,
            "share",
            "rate",
            f"Twice the training data adds {points(all_of_it - half)}, its last tenth {points(all_of_it - most)}",
            f"MLP, L2, layer {layer}, test rate; {sample(experiments[0], context)}",
            order=tuple(table["share"]),
            published="published",
            y_title="tokens recognised",
            x_title="of the training sentences",
            limits=(0.0, 1.0),
        ),
    )
    yield Beside(
        "identity_training_shares",
        "the published rates by share of the training data",
        table[["share", "rate"]].rename(columns={"rate": "ours"}).assign(**{f"{BASE}, layer 11": theirs}),
        f"Ours: layer {layer}, {sample(experiments[0], context)}. Theirs: {THEIRS}. {PROBES}",
    )
    yield concluded(
        "More training data would hardly help.",
        all_of_it - most < HARDLY,
        f"the last tenth adds {points(all_of_it - most)} (we ask for less than {points(HARDLY)}); {BASE}: 1 point",
    )


def single_layers(context: Context) -> Iterator[Item]:
    kinds = {kind: name for kind, name in KINDS.items() if kind[0] != "mlp" or not context.quick}
    experiments = {name: identified(context, kind, target="previous") for kind, name in kinds.items()}
    angle, distance = (experiments[KINDS[kind]] for kind in ALONE)
    losses = {"cosine": angle, "L2": distance}
    worst = {name: float(experiment["rate"].mean("fold").min()) for name, experiment in losses.items()}
    yield Shown(
        "identity_previous",
        f"{PAPER}, Fig. 11",
        by_layer(
            _joined(experiments),
            f"Without a probe, a block's output finds its input for at least {worst['cosine']:.0%} of tokens by cosine,"
            f" {worst['L2']:.0%} by L2",
            f"from hidden vectors to those of the layer before, by layer; {sample(angle, context)}",
            angle,
        ),
    )
    yield concluded(
        "Across a single layer, even the vectors as they are find most tokens.",
        worst["cosine"] > MOST,
        f"naive, cosine: at least {worst['cosine']:.1%} in every layer (we ask for {MOST:.0%})",
    )
    means = [float(experiment["rate"].mean()) for experiment in (angle, distance)]
    yield concluded(
        "A block changes the angle of a vector less than its length.",
        means[0] > means[1],
        f"naive, mean over layers: cosine {means[0]:.1%}, L2 {means[1]:.1%}",
    )
    yield concluded(
        "Later layers make their input harder to find.",
        falls(trend(distance)),
        f"naive, L2: Spearman of layer and rate {trend(distance):+.2f}, last layer {last(distance):.1%}",
    )


def neighbours(context: Context) -> Iterator[Item]:
    for kind, figure in BESIDE.items():
        if context.quick and kind != MAIN:
            continue
        layers = layers_of(context, "mlp" if context.quick else kind[0])
        experiments = {offset: identified(context, kind, layers=layers, offset=offset) for offset in OFFSETS}
        yield _neighbours(context, experiments, kind, figure)
        if kind == MAIN:
            yield from _neighbour_claims(experiments)
    if context.quick:
        yield Left(f"{PAPER}, Figs 15 to 17, the same of the other probes", "they are left out of the quick sample")


def _neighbours(context: Context, experiments: dict[int, xarray.Dataset], kind: Kind, figure: str) -> Shown:
    own, left, right = (f"{last(experiments[offset]):.0%}" for offset in (0, -1, 1))
    deepest = int(experiments[0].layer[-1])
    drawing = by_layer(
        _joined({OFFSETS[offset]: experiment for offset, experiment in experiments.items()}),
        f"Layer {deepest} gives back {own} of its tokens, {left} of left, {right} of right neighbours",
        f"{KINDS[kind]}, test rate; {sample(experiments[0], context)}",
        experiments[0],
        order=tuple(OFFSETS.values()),
    )
    causal = "A decoder has not read what stands to the right: what is found there was predicted."
    note = causal if context.model.anatomy.causal else ""
    return Shown("identity_neighbours_" + "_".join(kind), f"{PAPER}, Fig. {figure}", drawing, note)


def _neighbour_claims(experiments: dict[int, xarray.Dataset]) -> Iterator[Item]:
    means = {offset: float(experiment["rate"].mean()) for offset, experiment in experiments.items()}
    yield concluded(
        "Neighbours are found much less often than the token itself.",
        means[0] - max(means[-1], means[1]) > MUCH,
        f"mean over layers: itself {means[0]:.1%}, left {means[-1]:.1%}, right {means[1]:.1%}"
        f" (we ask for {points(MUCH)} between them)",
    )
    near, farther, farthest = ((means[-k] + means[k]) / 2 for k in (1, 2, 3))
    yield concluded(
        "The farther a neighbour, the less often it is found.",
        near > farther > farthest,
        f"mean of left and right: 1 away {near:.1%}, 2 away {farther:.1%}, 3 away {farthest:.1%}",
    )
    left, right = trend(experiments[-1]), trend(experiments[1])
    layers = experiments[1].sizes["layer"]
    yield concluded(
        "The deeper the layer, the less often neighbours are found.",
        falls(max(left, right)) if layers > 2 else None,
        f"Spearman of {layers} layers and rates: left {left:+.2f}, right {right:+.2f} (we ask for {FALLING})",
    )


def other_data(context: Context) -> Iterator[Item]:
    if len(context.corpora) == 1:
        yield Left(f"{PAPER}, Figs 38 and 39: CoLA and MNLI", "one corpus was given; name more with --data")
        return
    rows = []
    for place, corpus in enumerate(context.corpora[1:], start=1):
        answers = f"{PAPER}, Figs 38 and 39, on {called(corpus)}"
        shown, experiments = _figure_2a(context, corpus, f"identity_data_{place}", answers)
        yield shown
        main = experiments[KINDS[MAIN]]
        rows.append((called(corpus), f"{last(main):.1%}", f"{guessing(main):.1%}"))
    rows += [(f"{name} ({BASE}, published)", "", f"{share}%") for name, share in _printed("chance_percent").items()]
    yield Beside(
        "identity_data",
        "the published rates of guessing",
        pandas.DataFrame(rows, columns=["data", "last layer, linear, cosine", "guessing"]),
        "Theirs: MRPC dev, CoLA dev (1,043 sentences), 500 pairs of MNLI dev, cut to 128 tokens. Ours: texts of four"
        " tokens or more, as long as the model takes them.",
    )


STUDY = Study(
    name="token-identifiability",
    title="Whether a hidden vector can still be traced to its token",
    asks=(
        "Layer after layer, attention mixes tokens. Is the vector at a position still that of the token that stood"
        " there, so that the token can be found among those of its sentence?"
    ),
    paper="Brunner, Liu, Pascual, Richter, Ciaramita & Wattenhofer (2020). On identifiability in transformers. ICLR.",
    data="sentences or pairs such as --data mrpc:dev.tsv, and further corpora such as CoLA and MNLI",
    sections=(
        Section("By layer", "How many tokens are found, without a probe, with a linear map, with an MLP?", make=rates),
        Section("Across layers", "Does a probe that was trained on one layer work on the others?", make=across_layers),
        Section("New sentences", "How much better do the probes do on what they were trained on?", make=generalisation),
        Section("More data", "Would the probes profit from more training data?", make=training_share),
        Section("One layer at a time", "Is a block's input found from its output?", make=single_layers),
        Section("Neighbours", "Are the tokens next to a position found in its vector too?", make=neighbours),
        Section("Other data", "Is it the same on other texts?", make=other_data),
    ),
)
