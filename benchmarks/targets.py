"""What contributions of one target and layer cost beside those of all: pulled back to the input, or pushed from it.

Built-in model and a paragraph of 128 tokens, in CPU seconds of one thread, everything taken in turns in one run. All of
them exactly would take minutes, so that is timed on some sources and scaled.
"""

import torch

import whence
from benchmarks.clock import medians, one_thread
from benchmarks.jacobian import PARAGRAPH
from whence.linear.tangent import by_parts
from whence.measures.flow.contribution import gradient, jacobian
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.encode import encode
from whence.models.frozen import FrozenBlock
from whence.models.linearise import linearised
from whence.text.sentence import sentence

GOAL, SLICE = 30, 4  # times faster than all; sources that exact is timed on
COUNTS = (8, 16, 32, 64)  # cotangents for which a block's own code and its parts are compared


def main() -> None:
    torch.manual_seed(0)
    with one_thread():
        model = whence.load()
        batch = encode(model.anatomy, model.tokenizer, sentence(PARAGRAPH)).batch
        few_against_all(model.anatomy, batch)
        own_code_or_parts(model.anatomy, batch)


def few_against_all(anatomy: Anatomy, batch: Batch) -> None:
    tokens, last = batch.ids.shape[1], anatomy.layers
    one = {"targets": [tokens // 2], "layers": [last]}
    spent = medians(
        {
            "all, sketch": lambda: jacobian(anatomy, batch, mode="sketch"),
            "one, sketch": lambda: jacobian(anatomy, batch, mode="sketch", **one),
            "one target, all layers, sketch": lambda: jacobian(anatomy, batch, mode="sketch", targets=one["targets"]),
            "some, exact": lambda: jacobian(anatomy, batch, mode="exact", sources=range(SLICE)),
            "more, exact": lambda: jacobian(anatomy, batch, mode="exact", sources=range(2 * SLICE)),
            "one, exact": lambda: jacobian(anatomy, batch, mode="exact", **one),
            "all, gradient": lambda: gradient(anatomy, batch),
            "one, gradient": lambda: gradient(anatomy, batch, **one),
        },
        repeats=1,
    )
    each = (spent["more, exact"] - spent["some, exact"]) / SLICE  # the blocks' matrices are made once
    spent["all, exact"] = spent["some, exact"] + each * (tokens - SLICE)
    for what, whole in (
        ("one, sketch", "all, sketch"),
        ("one target, all layers, sketch", "all, sketch"),
        ("one, exact", "all, exact"),
        ("one, gradient", "all, gradient"),
    ):
        ratio = spent[whole] / spent[what]
        print(f"{what}: {spent[what]:.2f} s, {ratio:.0f} x faster than {whole}, {spent[whole]:.0f} s (goal {GOAL})")


def own_code_or_parts(anatomy: Anatomy, batch: Batch) -> None:
    """From how many cotangents on it pays to take a block apart first, and to check it."""
    with linearised(anatomy, batch) as chain:
        step = chain.steps[-1]
        for count in COUNTS:
            cotangents = torch.randn(count, *step.states.shape)
            spent = medians(
                {"own": lambda c=cotangents: step.pull(c), "parts": lambda c=cotangents: _by_parts(step, c)}, repeats=3
            )
            print(f"{count} cotangents through a block: by its parts {spent['own'] / spent['parts']:.2f} x faster")


def _by_parts(step: FrozenBlock, cotangents: torch.Tensor) -> torch.Tensor:
    parts = by_parts(step, back=True)
    assert parts is not None
    return parts.pull(cotangents)


if __name__ == "__main__":
    main()
