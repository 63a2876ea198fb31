"""What measures take and what they said they would, each measured in a process of its own: a line of JSON per cell.

Run as a program: a process with other threads cannot be forked, and the one that runs the tests has some.
"""

import json
import random
from typing import Any

import torch
from benchmarks.memory import grown, resident, stated, took

import whence
from tests import tiny
from whence.measures.flow.plan import planned
from whence.measures.table import MEASURES
from whence.models.load import Model
from whence.models.memory import HEAP
from whence.sentence.why import NEEDS

SLOWER = {"minimum_simplex", "contribution", "jacobian_local", "gradient", "gradient_local"}
SAME = {"null", "mixing", "jacobian", "origin"}  # as others, by the same code
SIZES = {"hidden_size": 64, "num_attention_heads": 16, "num_hidden_layers": 2, "intermediate_size": 128}
LIMIT = HEAP + 55_000_000  # bytes in which not all blocks of eight fit
# in a decoder every row sees sources of its own, and tokens are read past a norm
CAUSAL = ("effective", "block", "contribution", "jacobian_local")
PULLED = ("contribution", "gradient")  # for few targets
SHORTENED = ("attention", "norms", "contribution", "rollout")  # to the largest sources


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
        if name in SHORTENED:
            report("bert", bert, name, long, [1, 2], top=4)
    deep = tiny.model("llama", max_position_embeddings=512, **SIZES | {"num_hidden_layers": 8})
    resident(deep)
    for name in NEEDS:
        for predicted, limit in ((1, None), (6, None), (6, LIMIT)):
            account(deep, name, predicted, limit)


def account(model: Model, name: str, predicted: int, limit: int | None) -> None:
    """The account of several predictions; within the limit blocks are computed again, and few are pulled at a time."""
    written = " ".join(random.Random(0).choices(tiny.WORDS, k=318))
    asked = {"measures": name, "memory_limit": limit}
    places = list(range(300, 300 + predicted))
    taken = grown(
        lambda: whence.why(model, written, position=places, **asked),
        lambda: whence.why(model, "a b c d e f", position=1, measures=name),
    )
    plan = planned(model, 320, predicted, [name], limit)
    cell = {"name": f"why {name}", "predicted": predicted, "limit": limit, "kept": plan.kept, "portion": plan.portion}
    print(json.dumps(cell | {"took": taken.bytes, "said": plan.takes}), flush=True)


def report(family: str, model: Model, name: str, tokens: int, layers: list[int], **asked: Any) -> None:
    written = " ".join(random.Random(0).choices(tiny.WORDS, k=tokens - 2))
    taken = took(model, written, name, {"layers": layers, **asked})
    work, results = stated(model, tokens, name, {"layers": layers, **asked})
    cell = {"family": family, "name": name, "tokens": tokens, "layers": len(layers), **asked}
    print(json.dumps(cell | {"took": taken.bytes, "said": work + results}), flush=True)


if __name__ == "__main__":
    main()
