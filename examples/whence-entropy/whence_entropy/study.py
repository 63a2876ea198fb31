"""A study: do later layers look at fewer tokens? A figure, a claim, and nothing else."""

import pandas

from whence.stats.estimate import Estimate, estimate
from whence.studies.frame.context import Context, by_document, trend
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Claim, Figure, Section, Study
from whence.studies.frame.verdict import FALLS

ENTROPY = "attention_entropy_1"  # Shannon's, as a run keeps it: the mean of the heads


def tokens(context: Context) -> pandas.DataFrame:
    texts = Chosen(context.corpus, context.amount(quick=20, full=500))
    return by_document(context.run("entropy", ["attention_entropy"], texts).tokens)


def by_layer(context: Context) -> pandas.DataFrame:
    return context.kept(tokens).groupby("layer", as_index=False)[ENTROPY].mean()


def falling(context: Context) -> Estimate:
    return estimate(context.kept(tokens), ENTROPY, "layer", trend)


def first_to_last(table: pandas.DataFrame) -> str:
    return f"From {table[ENTROPY].iloc[0]:.1f} nats in the first layer to {table[ENTROPY].iloc[-1]:.1f} in the last"


LINES = {"kind": "lines", "x": "layer", "y": ENTROPY, "share": False, "y_title": "nats"}
DEPTH = (
    Figure("entropy_by_layer", "", by_layer, LINES, first_to_last, "mean over tokens and heads"),
    Claim("Later layers look at fewer tokens.", falling, FALLS, form="+.2f"),
)
STUDY = Study(
    name="entropy",
    title="How spread out attention is",
    asks="Do later layers look at fewer tokens?",
    paper="",
    data="running text such as --data text:wikipedia.txt",
    sections=(Section("Depth", "Does the entropy of attention fall with depth?", DEPTH, frozenset({"attention"})),),
)
