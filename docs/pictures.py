"""Draws the pictures of the documentation with the built-in model: make pictures."""

from pathlib import Path
from typing import Any

import whence
from whence.models.load import Model
from whence.plot.charts import maps, mixing_grid, mixing_lines
from whence.plot.identity import grid, neighbours, rates
from whence.plot.lm_head import lens

HERE = Path(__file__).parent / "pictures"
MRPC = Path(__file__).parents[2] / "shared" / "data" / "mrpc" / "dev.tsv"
OTHERS = (("linear", "l2"), ("naive", "cosine"), ("naive", "l2"))
SHORT = "The keys to the cabinet [MASK] on the table."
LONG = (
    "The old man who fed the hungry pigeons every morning was [MASK], and nobody who lived near the station knew where"
    " he had come from or why he never spoke."
)


def main() -> None:
    model = whence.load()
    short = whence.measure(model, SHORT, ["attention", "norms", "mixing", "block", "rollout_block_n"])
    long = whence.measure(model, LONG, ["attention", "effective", "null"])
    pictures = {
        "attention": maps(short, ["attention"], layer=6),
        "effective": maps(long, ["attention", "effective", "null"], layer=2, head=3),
        "norms": maps(short, ["attn_w", "attn_n", "attnresln_n"], layer=6),
        "block": maps(short, ["attnresln_n", "block_n"], layer=6),
        "rollout": maps(short, ["block_n", "rollout_block_n"], layer=6),
        "mixing": mixing_grid(short, "attnresln_n"),
        "mixing_analyses": mixing_lines(short),
        **head(model),
        **identity(model),
    }
    HERE.mkdir(exist_ok=True)
    for name, chart in pictures.items():
        chart.save(HERE / f"{name}.svg")


def head(model: Model) -> dict[str, Any]:
    """The LM head on the states of every layer."""
    return {"head_lens": lens(whence.lm_head(model, "The keys to the [MASK] were on the table.", layer="all"))}


def identity(model: Model) -> dict[str, Any]:
    """Token identifiability on MRPC, minutes of work; without that corpus the pictures there are stay."""
    if not MRPC.exists():
        return {}
    corpus = whence.read(f"mrpc:{MRPC}")
    linear = whence.identify(model, corpus, test_layers=range(1, 7))
    others = [whence.identify(model, corpus, probe, loss=loss) for probe, loss in OTHERS]
    beside = [whence.identify(model, corpus, offset=offset, folds=3) for offset in (-2, -1, 1, 2)]
    return {
        "identity": rates([linear, *others]),
        "identity_grid": grid(linear),
        "identity_neighbours": neighbours([linear, *beside]),
    }


if __name__ == "__main__":
    main()
