"""What measures take and what they said they would, each measured in a process of its own: a line of JSON per cell.

Run as a program: a process with other threads cannot be forked, and the one that runs the tests has some.
"""

import json
import random

import torch
from benchmarks.memory import resident, stated, took

from tests import tiny
from whence.measures.table import MEASURES
from whence.models.load import Model

SLOWER = {"minimum_simplex", "contribution", "jacobian_local", "gradient", "gradient_local"}
SAME = {"null", "mixing", "jacobian", "origin"}  # as others, by the same code
SIZES = {"hidden_size": 64, "num_attention_heads": 16, "num_hidden_layers": 2, "intermediate_size": 128}
# in a decoder every row sees sources of its own, and tokens are read past a norm
CAUSAL = ("effective", "block", "contribution", "jacobian_local")
PULLED = ("contribution", "gradient")  # for few targets


def main() -> None:
    torch.set_num_threads(1)
    bert, llama = (tiny.model(family, max_position_embeddings=512, **SIZES) for family in ("bert", "llama"))
    resident(bert)
    resident(llama)
    for name in [name for name in MEASURES if name not in SAME]:
        short, long = (48, 80) if name in SLOWER else (192, 320)  # tokens
        for tokens, layers in ((short, [1, 2]), (long, [1, 2]), (long, [1])):
            report("bert", bert, name, tokens, layers)
        if name in CAUSAL:
            report("llama", llama, name, long, [1, 2])
        if name in PULLED:
            report("bert", bert, name, 2 * long, [1, 2], targets=[3])


def report(family: str, model: Model, name: str, tokens: int, layers: list[int], **asked: list[int]) -> None:
    written = " ".join(random.Random(0).choices(tiny.WORDS, k=tokens - 2))
    taken = took(model, written, name, {"layers": layers, **asked})
    work, results = stated(model, tokens, name, {"layers": layers, **asked})
    cell = {"family": family, "name": name, "tokens": tokens, "layers": len(layers), **asked}
    print(json.dumps(cell | {"took": taken.bytes, "said": work + results}), flush=True)


if __name__ == "__main__":
    main()
