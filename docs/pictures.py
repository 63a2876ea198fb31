"""Draws the pictures of the documentation with the built-in model: make pictures."""

from pathlib import Path
from typing import Any

import whence
from whence.models.load import Model
from whence.plot.charts import maps, mixing_grid, mixing_lines
from whence.plot.head import lens

HERE = Path(__file__).parent / "pictures"
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
        "mixing": mixing_grid(short),
        "mixing_methods": mixing_lines(short),
        **head(model),
    }
    HERE.mkdir(exist_ok=True)
    for name, chart in pictures.items():
        chart.save(HERE / f"{name}.svg")


def head(model: Model) -> dict[str, Any]:
    """The LM head on the states of every layer."""
    return {"head_lens": lens(whence.head(model, "The keys to the [MASK] were on the table.", layer="all"))}


if __name__ == "__main__":
    main()
