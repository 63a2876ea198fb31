"""How spread each head's attention is: Rényi entropies of its rows, an axis of this measure's own."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whence.measures.options import Options
from whence.measures.registry import HEAD_TOKEN, ROWS, Axis, Measure, Settings, Variable
from whence.models.block import Block

# 1: Shannon's; 2: of the probability that two draws agree; inf: of the largest weight
ORDERS = ("1", "2", "inf")


@dataclass(frozen=True, kw_only=True)
class Entropy(Options):
    """`bits`: in bits rather than nats."""

    bits: bool = False


def entropy(block: Block, settings: Settings) -> dict[str, Float[Tensor, "b order head t"]]:
    """H_1 = - sum_j a_j ln a_j,  H_2 = - ln sum_j a_j^2,  H_inf = - ln max_j a_j; zero at padding."""
    weights = block.attention
    found = [
        torch.special.entr(weights).sum(dim=-1),
        -weights.square().sum(dim=-1).clamp_min(1e-30).log(),
        -weights.amax(dim=-1).clamp_min(1e-30).log(),
    ]
    real = settings.mask[:, None, None, :].to(weights.device)
    values = torch.stack(found, dim=1).masked_fill(~real, 0)
    return {"attention_entropy": values / torch.log(torch.tensor(2.0)) if settings.options["bits"] else values}


ENTROPY = Measure(
    about="How spread a head's attention is, by Rényi entropies.",
    variables={"attention_entropy": Variable(("order", *HEAD_TOKEN), "nats", "entropy of a row of attention", ROWS)},
    papers=(
        "@inproceedings{renyi1961measures,\n  title = {On Measures of Entropy and Information},\n"
        "  author = {R{\\'e}nyi, Alfr{\\'e}d},\n  year = {1961}\n}",
    ),
    source="whence_entropy.measure:entropy",
    options=Entropy,
    axes={"order": Axis(lambda sizes: len(ORDERS), lambda size: ORDERS, kept="columns")},
)
