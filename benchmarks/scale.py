"""What large work takes: each measure against the plain pass of a model, and hours and money of a corpus.

The ratios are measured here; what a GPU does in a second and costs in an hour is not, and stands in the table below.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.clock import medians, one_thread
from whence import Contribution, load, measure, why
from whence.models.capture import run
from whence.models.encode import encode
from whence.models.load import Model
from whence.text.sentence import Sentence

TOKENS = 128
ROOM = 1.15  # of the weights: a block in float32, attention, states


@dataclass(frozen=True)
class Machine:
    """An accelerator as its maker and its sellers describe it: assumptions, to be replaced by one's own."""

    memory: float = 80e9
    operations: float = 990e12  # a second, dense, bfloat16
    share: float = 0.35  # of them that a plain pass reaches
    price: float = 3.0  # an hour


@dataclass(frozen=True)
class Large:
    """A decoder by its sizes."""

    parameters: float
    layers: int
    width: int

    @property
    def weights(self) -> float:
        """Bytes in bfloat16."""
        return 2 * self.parameters


MODELS = {"8B": Large(8.0e9, 32, 4096), "70B": Large(70.6e9, 80, 8192)}


def hours(model: Large, texts: int, tokens: int, ratio: float, machine: Machine) -> float:
    """Of one accelerator: two operations a parameter and token and the attention's own, times the measure's ratio."""
    attention = 2 * model.layers * model.width * tokens  # scores and mixing of a causal row, which is half full
    operations = texts * tokens * (2 * model.parameters + attention) * ratio
    return operations / (machine.operations * machine.share) / 3600


def main() -> None:
    builtin = load()
    ratios = measured(builtin)
    plan({"plain pass": 1.0, **ratios}, 1_000_000, TOKENS)
    plan({name: ratio for name, ratio in ratios.items() if name == "mixing"} | {"plain pass": 1.0}, 1_000, 32_768)


def plan(ratios: Mapping[str, float], texts: int, tokens: int) -> None:
    """Accelerators for one model, their hours and money. Of several that hold one model, one works at a time."""
    machine = Machine()
    for (name, large), (about, ratio) in itertools.product(MODELS.items(), ratios.items()):
        count = math.ceil(ROOM * large.weights / machine.memory)
        spent = count * hours(large, texts, tokens, ratio, machine)
        money = spent * machine.price
        print(f"{name}, {texts:,} texts of {tokens:,}, {count} of them: {about:26} {spent:7.1f} h {money:7,.0f}")


def measured(builtin: Model) -> dict[str, float]:
    """CPU seconds of a measure over those of the plain pass, in a decoder whose weights are most of the work."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1792, "num_hidden_layers": 4, "num_attention_heads": 8}
    config = LlamaConfig(vocab_size=len(builtin.tokenizer), num_key_value_heads=2, **sizes)
    model = load(LlamaForCausalLM(config).eval(), builtin.tokenizer)
    text = " ".join(["river"] * (TOKENS - 2))
    batch = encode(model.anatomy, model.tokenizer, Sentence(text)).batch
    last = batch.ids.shape[1] - 1
    with one_thread(), torch.no_grad():
        spent = medians(
            {
                "plain": lambda: run(model.anatomy.stack, batch),
                "mixing": lambda: measure(model, text, ["mixing"]),
                "why, the next word": lambda: why(model, text, measures="share"),
                "contribution to one token": lambda: measure(
                    model, text, [Contribution(mode="sketch")], targets=[last]
                ),
            },
            repeats=3,
        )
    ratios = {name: seconds / spent["plain"] for name, seconds in spent.items() if name != "plain"}
    for name, ratio in ratios.items():
        print(f"{name:28} {ratio:6.1f} plain passes of {batch.ids.shape[1]} tokens")
    return ratios
