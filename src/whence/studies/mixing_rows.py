"""What the sections of the study of mixing share: its runs as long tables, and the names of the analyses."""

import pandas

from whence.corpus.open_run import Run
from whence.measures.registry import MIXED, WHOLE_BLOCK, given_by
from whence.studies.frame.context import Context, by_document
from whence.studies.frame.sentences import masked

PAPER = "Kobayashi et al. 2021"
MASKED = 0.12  # share of the words, as in the paper
WORDS = 90  # about the paper's 128 tokens
BASE = "bert-base-uncased"
MAIN = "attnresln_n"
ANALYSES = (*MIXED, WHOLE_BLOCK)
FEED_FORWARD = f"mixing_{WHOLE_BLOCK}"  # not of the paper, and not of every model


def run_of(context: Context, place: int = 0) -> Run:
    """Words are masked if the model has a mask token; all models read the same texts."""
    share = MASKED if context.model.tokenizer.mask_token is not None else 0.0
    sentences = context.texts(24, 992, masked(share, WORDS, least=4), context.corpora[place])
    return context.run(f"mixing-{place}", ["mixing", *given_by(context.model.gives, [FEED_FORWARD])], sentences)


def long_table(context: Context, place: int = 0) -> pandas.DataFrame:
    """One row per token, layer and analysis; `kind` is normal, mask, or the name of a special token."""
    tokens = by_document(run_of(context, place).tokens)
    columns = ["document", "layer", "token_id", "kind"]
    names = {column: analysis for analysis in ANALYSES if (column := f"mixing_{analysis}") in tokens}
    table = tokens.assign(kind=_kind(context, tokens["class"]))[[*columns, *names]].rename(columns=names)
    table = table.melt(columns, var_name="analysis", value_name="mixing")
    share = (table["kind"] == "mask").mean()
    table.attrs["sample"] = f"{len(tokens):,} tokens × layers, {share:.0%} of the tokens masked"
    return table


def _kind(context: Context, classes: pandas.Series) -> pandas.Series:
    mask = context.model.tokenizer.mask_token
    special = set(context.model.tokenizer.all_special_tokens)
    return classes.map(lambda name: "mask" if name == mask else name if name in special else "normal")


def main_rows(context: Context) -> pandas.DataFrame:
    table = context.kept(long_table)
    return table[table["analysis"] == MAIN]


def in_order(table: pandas.DataFrame) -> tuple[str, ...]:
    """The analyses that were measured, in the order of how much of the block they count."""
    measured = set(table["analysis"])
    return tuple(name for name in ANALYSES if name in measured)
