"""Can a hidden vector still be traced to its input token? (Brunner et al. 2020, section 4 and appendix B)"""

from functools import partial
from typing import Any

import numpy as np
import pandas

from whence.stats.estimate import Estimate
from whence.studies.frame.context import Context, called
from whence.studies.frame.published import hub_name, published
from whence.studies.frame.study import Absent, Claim, Figure, Items, Section, Study, Table
from whence.studies.frame.verdict import ALIKE, FALLS, HARDLY, MORE, Criterion
from whence.studies.token_experiments import (
    KINDS,
    LINES,
    MAIN,
    Experiment,
    Kind,
    folds_of,
    guessing,
    identified,
    last_rate,
    layers_of,
    mean_rate,
    points,
    sample,
    spans,
    trend_of,
    worst_rate,
)
from whence.studies.token_neighbours import NEIGHBOURS

PAPER = "Brunner et al. 2020"
BASE = "bert-base-uncased"
ALONE: tuple[Kind, Kind] = (("naive", "cosine"), ("naive", "l2"))
# probe -> the figure that trains on one layer and tests on all; the figure that looks for neighbours
ACROSS: dict[Kind, str] = {MAIN: "2b", ("linear", "l2"): "8", ("mlp", "l2"): "9", ("mlp", "cosine"): "10"}
SHARES = (0.5, 0.8, 0.9, 1.0)
MOST = Criterion.named("most tokens")  # our reading of "most tokens"


def _printed(*keys: str) -> Any:
    return published("brunner2020", *keys)


THEIRS = (
    f"Theirs: {_printed('data')}, {_printed('sentences'):,} sentences, {_printed('tokens'):,} tokens,"
    f" {_printed('layers')} layers, probes trained with Adam; ours are solved for in closed form, the MLP with L2 in a"
    " short training."
)


def _same(context: Context, place: int = 0) -> bool:
    return hub_name(context.model.id) == BASE and context.corpora[place].format == "mrpc"


def _rate(context: Context, kind: Kind, place: int = 0) -> Experiment:
    return identified(context, kind, corpus=context.corpora[place], folds=folds_of(context, kind))


def rates(context: Context, place: int = 0) -> pandas.DataFrame:
    """The rate of every probe by layer, with the span of the folds."""
    experiments = {name: _rate(context, kind, place) for kind, name in KINDS.items()}
    table = pandas.concat([spans(experiment, name) for name, experiment in experiments.items()], ignore_index=True)
    comparable = (table["probe"] == KINDS[MAIN]) & (table["layer"] == 12) & _same(context, place)
    printed = np.where(comparable, _printed("identifiability_linear_cosine_percent", "12") / 100, np.nan)
    table = table.assign(published=printed, data=called(context.corpora[place]))
    table.attrs |= {"sample": sample(experiments[KINDS[MAIN]]), "note": _note(context)}
    return table


def _note(context: Context) -> str:
    quick = "Dots are what was measured: the quick sample leaves layers out." if context.quick else ""
    ties = "Where the input embedding holds no position, the same word twice is a tie and counts as half found."
    return " ".join(filter(None, [quick, ties if context.model.anatomy.causal else ""]))


def _found(table: pandas.DataFrame) -> str:
    main = table[table["probe"] == KINDS[MAIN]]
    return f"After layer {int(main['layer'].max())}, a linear map finds {main['rate'].iloc[-1]:.0%} of the tokens again"


def last_layer(context: Context) -> pandas.DataFrame:
    main = _rate(context, MAIN)
    rows = [{"last layer": name, "ours": last_rate(_rate(context, kind)).value} for kind, name in KINDS.items()]
    table = pandas.DataFrame([*rows, {"last layer": "guessing", "ours": guessing(main)}])
    theirs = {KINDS[MAIN]: _printed("identifiability_linear_cosine_percent", "12")}
    theirs["guessing"] = _printed("chance_percent", "MRPC")
    table[BASE] = table["last layer"].map(theirs).map(lambda share: "" if pandas.isna(share) else f"{share:g}%")
    table["ours"] = [f"{share:.1%}" for share in table["ours"]]
    table.attrs["sample"] = f"Ours: {sample(main)}, {main.layer.values[-1]} layers."
    return table


def naive_trend(context: Context) -> Estimate:
    return trend_of(_rate(context, ("naive", "cosine")))


def main_rate(context: Context) -> Estimate:
    return last_rate(_rate(context, MAIN))


def cosine_less_l2(context: Context) -> dict[str, Estimate]:
    return {
        probe: last_rate(_rate(context, (probe, "cosine"))) - last_rate(_rate(context, (probe, "l2")))
        for probe in ("naive", "linear", "mlp")
    }


def _across(context: Context, kind: Kind) -> Experiment:
    if context.quick and kind[0] == "mlp":
        raise Absent("it is left out of the quick sample")
    layers = layers_of(context, kind[0])
    return identified(context, kind, layers=layers, test_layers=layers, folds=folds_of(context, kind))


def across_layers(kind: Kind, context: Context) -> pandas.DataFrame:
    experiment = _across(context, kind)
    table = experiment["transfer"].mean("fold").to_dataframe("rate")[["rate"]].reset_index()
    table.attrs["sample"] = sample(experiment)
    return table


def _both_ways(table: pandas.DataFrame) -> str:
    cells = table.set_index(["trained_on", "tested_on"])["rate"]
    low, high = table["trained_on"].min(), table["trained_on"].max()
    return (
        f"Trained on layer {high}, a probe finds {cells[high, low]:.0%} in layer {low};"
        f" the other way round {cells[low, high]:.0%}"
    )


def across_beside(context: Context) -> pandas.DataFrame:
    cells = across_layers(MAIN, context).set_index(["trained_on", "tested_on"])["rate"]
    deep = int(cells.index.get_level_values("trained_on").max())
    printed = {
        (deep, deep): f"{_printed('identifiability_trained_on_12_tested_on_12_percent')}%",
        (deep, 1): "",
        (1, deep): f"{_printed('identifiability_trained_on_1_tested_on_11_and_12_percent')}%",
    }
    rows = [(*pair, f"{cells[pair]:.0%}", theirs) for pair, theirs in printed.items()]
    return pandas.DataFrame(rows, columns=["trained on", "tested on", "ours", f"{BASE}, last layer 12"])


def down_less_up(context: Context) -> dict[str, Estimate]:
    """The mean rate on earlier layers less that on later ones, of every probe that was trained on each layer."""
    kinds = [kind for kind in ACROSS if kind[0] != "mlp" or not context.quick]
    experiments = {KINDS[kind]: _across(context, kind) for kind in kinds}
    if any(experiment.sizes["trained_on"] < 2 for experiment in experiments.values()):
        raise Absent("the model has one layer")
    return {name: mean_rate(experiment, "transfer", _triangles) for name, experiment in experiments.items()}


def _triangles(transfer: np.ndarray) -> float:
    return float(
        transfer[np.tril_indices_from(transfer, -1)].mean() - transfer[np.triu_indices_from(transfer, 1)].mean()
    )


def train_and_test(context: Context) -> pandas.DataFrame:
    parts = []
    for probe, name in (("linear", "linear"), ("mlp", "MLP")):
        experiment = _rate(context, (probe, "l2"))
        parts += [spans(experiment, f"{name}, train", "train_rate"), spans(experiment, f"{name}, test")]
    table = pandas.concat(parts, ignore_index=True)
    table.attrs["sample"] = sample(experiment)
    return table


def _lost(table: pandas.DataFrame) -> str:
    last = table[table["layer"] == table["layer"].max()].set_index("probe")["rate"]
    linear, network = (points(last[f"{name}, train"] - last[f"{name}, test"]) for name in ("linear", "MLP"))
    return f"On new sentences the linear map loses {linear} in the last layer, the MLP {network}"


def overfitting(context: Context) -> Estimate:
    """How much more the linear map loses on new sentences than the MLP."""
    linear, network = (_rate(context, (probe, "l2")) for probe in ("linear", "mlp"))
    gaps = [last_rate(experiment, "train_rate") - last_rate(experiment) for experiment in (linear, network)]
    return gaps[0] - gaps[1]


def _shared(context: Context, share: float) -> Experiment:
    layer = max(1, context.model.anatomy.layers - 1)
    kind: Kind = ("mlp", "l2")
    return identified(context, kind, layers=[layer], train_share=share, folds=folds_of(context, kind))


def training_share(context: Context) -> pandas.DataFrame:
    experiments = [_shared(context, share) for share in SHARES]
    theirs = list(_printed("mlp_layer11_rate_by_training_share").values())
    table = pandas.DataFrame({"share": [f"{share:.0%}" for share in SHARES]})
    table["rate"] = [last_rate(experiment).value for experiment in experiments]
    table["published"] = theirs if _same(context) else np.nan
    table[f"{BASE}, layer 11"] = theirs
    table.attrs["sample"] = f"layer {int(experiments[0].layer[0])}; {sample(experiments[0])}"
    return table


def _added(table: pandas.DataFrame) -> str:
    half, _, most, whole = table["rate"]
    return f"Twice the training data adds {points(whole - half)}, its last tenth {points(whole - most)}"


def last_tenth(context: Context) -> Estimate:
    return last_rate(_shared(context, 1.0)) - last_rate(_shared(context, 0.9))


def _previous(context: Context, kind: Kind) -> Experiment:
    return identified(context, kind, target="previous", folds=folds_of(context, kind))


def single_layers(context: Context) -> pandas.DataFrame:
    kinds = {kind: name for kind, name in KINDS.items() if kind[0] != "mlp" or not context.quick}
    table = pandas.concat([spans(_previous(context, kind), name) for kind, name in kinds.items()], ignore_index=True)
    table.attrs["sample"] = sample(_previous(context, ALONE[0]))
    return table


def _at_least(table: pandas.DataFrame) -> str:
    worst = table.groupby("probe")["rate"].min()
    cosine, distance = (worst[KINDS[kind]] for kind in ALONE)
    shares = f"for at least {cosine:.0%} of tokens by cosine, {distance:.0%} by L2"
    return f"Without a probe, a block's output finds its input {shares}"


def single_worst(context: Context) -> Estimate:
    return worst_rate(_previous(context, ALONE[0]))


def angle_less_length(context: Context) -> Estimate:
    angle, length = (mean_rate(_previous(context, kind)) for kind in ALONE)
    return angle - length


def single_trend(context: Context) -> Estimate:
    return trend_of(_previous(context, ALONE[1]))


def alone(context: Context) -> pandas.DataFrame:
    """Figs 12 and 13: without a probe, to the layer before; of two models, solid and dashed."""
    table = single_layers(context)
    return table[table["probe"].isin([KINDS[kind] for kind in ALONE])]


def alone_last(context: Context) -> dict[str, Estimate]:
    angle, length = (last_rate(_previous(context, kind)) for kind in ALONE)
    return {"by L2": length, "by L2 less by cosine": length - angle}


def elsewhere(context: Context) -> pandas.DataFrame:
    if len(context.corpora) == 1:
        raise Absent("one corpus was given; name more with --data")
    return pandas.concat([rates(context, place) for place in range(1, len(context.corpora))], ignore_index=True)


def elsewhere_beside(context: Context) -> pandas.DataFrame:
    if len(context.corpora) == 1:
        raise Absent("one corpus was given; name more with --data")
    rows = [
        (called(corpus), f"{last_rate(main).value:.1%}", f"{guessing(main):.1%}")
        for place, corpus in enumerate(context.corpora[1:], start=1)
        for main in [_rate(context, MAIN, place)]
    ]
    rows += [(f"{name} ({BASE}, published)", "", f"{share}%") for name, share in _printed("chance_percent").items()]
    return pandas.DataFrame(rows, columns=["data", "last layer, linear, cosine", "guessing"])


RATES: Items = (
    Figure(
        "identity_rates",
        f"{PAPER}, Fig. 2a",
        rates,
        {**LINES, "published": "published"},
        _found,
        "nearest neighbour within the sentence, bands span the folds",
    ),
    Table(
        "identity_last_layer", "the published rates of the last layer, where the paper prints them", last_layer, THEIRS
    ),
    Claim("Without a probe, fewer tokens are recognised the deeper the layer.", naive_trend, FALLS, form="+.2f"),
    Claim(
        "A linear map is enough to find most tokens of the last layer.",
        main_rate,
        MOST,
        ("brunner2020", "identifiability_linear_cosine_percent", "12"),
        ".1%",
    ),
    Claim("Cosine distance finds more tokens than L2 distance.", cosine_less_l2, MORE, form=".1%"),
)
LAYERS: Items = (
    *(
        Figure(
            "identity_across_" + "_".join(kind),
            f"{PAPER}, Fig. {figure}",
            partial(across_layers, kind),
            {"kind": "grid", "x": "tested_on", "y": "trained_on", "value": "rate", "limits": (0.0, 1.0)}
            | {"x_title": "tested on layer", "y_title": "trained on layer"},
            _both_ways,
            f"{KINDS[kind]}, test rate",
        )
        for kind, figure in ACROSS.items()
    ),
    Table("identity_across", "what the text says of Fig. 2b", across_beside, THEIRS),
    Claim(
        "What is learned on late layers holds for early ones better than the other way round.",
        down_less_up,
        MORE,
        form=".1%",
    ),
)
NEW: Items = (
    Figure(
        "identity_train_test",
        f"{PAPER}, Fig. 7",
        train_and_test,
        LINES,
        _lost,
        "L2, training and test sentences, bands span the folds",
    ),
    Claim("Linear map and MLP overfit to the same degree.", overfitting, ALIKE, form=".1%"),
)
MORE_DATA: Items = (
    Figure(
        "identity_training_share",
        f"{PAPER}, appendix B.2",
        training_share,
        {"kind": "bars", "x": "share", "y": "rate", "published": "published", "y_title": "tokens recognised"}
        | {"x_title": "of the training sentences", "limits": (0.0, 1.0)},
        _added,
        "MLP, L2, test rate",
    ),
    Claim("More training data would hardly help.", last_tenth, HARDLY, form=".1%"),
)
SINGLE: Items = (
    Figure(
        "identity_previous",
        f"{PAPER}, Fig. 11",
        single_layers,
        LINES,
        _at_least,
        "from hidden vectors to those of the layer before, by layer",
    ),
    Claim("Across a single layer, even the vectors as they are find most tokens.", single_worst, MOST, form=".1%"),
    Claim("A block changes the angle of a vector less than its length.", angle_less_length, MORE, form=".1%"),
    Claim("Later layers make their input harder to find.", single_trend, FALLS, form="+.2f"),
)
OTHER: Items = (
    Figure(
        "identity_alone",
        f"{PAPER}, Figs 12 and 13",
        alone,
        LINES,
        _at_least,
        "to the layer before, without a probe",
    ),
    Claim(
        "Fine-tuning makes the last layer's tokens harder to find by L2, and much less so by cosine.",
        alone_last,
        MORE,
        form=".1%",
        beside_first=True,
    ),
)
DATA: Items = (
    Figure(
        "identity_elsewhere",
        f"{PAPER}, Figs 38 and 39",
        elsewhere,
        {**LINES, "by": "data"},
        _found,
        "nearest neighbour within the sentence, bands span the folds",
    ),
    Table(
        "identity_data",
        "the published rates of guessing",
        elsewhere_beside,
        f"Theirs: {_printed('data')}, CoLA dev ({_printed('cola', 'sentences'):,} sentences), 500 pairs of MNLI dev,"
        " cut to 128 tokens. Ours: texts of four"
        " tokens or more, as long as the model takes them.",
    ),
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
        Section("By layer", "How many tokens are found, without a probe, with a linear map, with an MLP?", RATES),
        Section("Across layers", "Does a probe that was trained on one layer work on the others?", LAYERS),
        Section("New sentences", "How much better do the probes do on what they were trained on?", NEW),
        Section("More data", "Would the probes profit from more training data?", MORE_DATA),
        Section("One layer at a time", "Is a block's input found from its output?", SINGLE),
        Section("Another model", "Does fine-tuning change what the last layers keep?", OTHER),
        Section("Neighbours", "Are the tokens next to a position found in its vector too?", NEIGHBOURS),
        Section("Other data", "Is it the same on other texts?", DATA),
    ),
)
