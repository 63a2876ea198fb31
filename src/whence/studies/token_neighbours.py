"""Are the tokens next to a position found in its vector too? (Brunner et al. 2020, figures 14 to 17)"""

from functools import partial

import pandas

from whence.stats.estimate import Estimate
from whence.studies.frame.context import Context
from whence.studies.frame.study import Absent, Claim, Figure, Items
from whence.studies.frame.verdict import FALLS, MORE, MUCH
from whence.studies.token_experiments import (
    KINDS,
    LINES,
    MAIN,
    Experiment,
    Kind,
    folds_of,
    identified,
    layers_of,
    mean_rate,
    sample,
    spans,
    trend_of,
)

PAPER = "Brunner et al. 2020"
BESIDE: dict[Kind, str] = {MAIN: "14", ("mlp", "cosine"): "15", ("mlp", "l2"): "16", ("linear", "l2"): "17"}
OFFSETS = {-3: "3 to the left", -2: "2 to the left", -1: "1 to the left", 0: "the token itself"}
OFFSETS |= {1: "1 to the right", 2: "2 to the right", 3: "3 to the right"}


def _beside(context: Context, kind: Kind, offset: int) -> Experiment:
    if context.quick and kind != MAIN:
        raise Absent("it is left out of the quick sample")
    layers = layers_of(context, "mlp" if context.quick else kind[0])
    return identified(context, kind, layers=layers, offset=offset, folds=folds_of(context, kind) if kind == MAIN else 1)


def neighbours(kind: Kind, context: Context) -> pandas.DataFrame:
    experiments = {name: _beside(context, kind, offset) for offset, name in OFFSETS.items()}
    table = pandas.concat([spans(experiment, name) for name, experiment in experiments.items()], ignore_index=True)
    causal = "A decoder has not read what stands to the right: what is found there was predicted."
    table.attrs |= {"sample": sample(experiments[OFFSETS[0]]), "note": causal if context.model.anatomy.causal else ""}
    return table


def _given_back(table: pandas.DataFrame) -> str:
    last = table[table["layer"] == table["layer"].max()].set_index("probe")["rate"]
    own, left, right = (f"{last[OFFSETS[offset]]:.0%}" for offset in (0, -1, 1))
    deepest = int(table["layer"].max())
    return f"Layer {deepest} gives back {own} of its tokens, {left} of left, {right} of right neighbours"


def _mean(context: Context, offset: int) -> Estimate:
    return mean_rate(_beside(context, MAIN, offset))


def own_less_neighbour(context: Context) -> dict[str, Estimate]:
    itself = _mean(context, 0)
    return {name: itself - _mean(context, offset) for name, offset in (("left", -1), ("right", 1))}


def near_less_far(context: Context) -> dict[str, Estimate]:
    return {
        f"{side}, {near} less {near + 1} away": _mean(context, sign * near) - _mean(context, sign * (near + 1))
        for side, sign in (("left", -1), ("right", 1))
        for near in (1, 2)
    }


def neighbour_trends(context: Context) -> dict[str, Estimate]:
    return {name: trend_of(_beside(context, MAIN, offset)) for name, offset in (("left", -1), ("right", 1))}


NEIGHBOURS: Items = (
    *(
        Figure(
            "identity_neighbours_" + "_".join(kind),
            f"{PAPER}, Fig. {figure}",
            partial(neighbours, kind),
            LINES,
            _given_back,
            f"{KINDS[kind]}, test rate",
        )
        for kind, figure in BESIDE.items()
    ),
    Claim("Neighbours are found much less often than the token itself.", own_less_neighbour, MUCH, form=".1%"),
    Claim("The farther a neighbour, the less often it is found.", near_less_far, MORE, form=".1%"),
    Claim("The deeper the layer, the less often neighbours are found.", neighbour_trends, FALLS, form="+.2f"),
)
