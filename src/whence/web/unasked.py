"""What the explorer measures without being asked, in which order, and up to how many tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Unasked:
    """One row of the plan; measures of one stage are asked for together, the first stage first."""

    stage: int | None = None
    most: int | None = None
    "tokens up to which it is measured unasked; of `map`, up to which that of all layers is"
    offer: str = ""
    "what is said instead for more of them; `{tokens}` of them take `{time}`"
    refusal: str = ""
    "what is said where that is more than a computation may take, `{most}`"
    options: Mapping[str, Any] = field(default_factory=dict)
    positions: bool = False
    "whether it is asked for at some tokens only"
    read: str = ""
    "where its result is read, /api/…/{key}, when it is not one of the arrays that are put together"
    view: str = ""
    "the view that waits for it: a picture by something else would be replaced while somebody reads it"


# What is predicted and why is what a reader looks at first, as soon as there is a sentence to show it on.
# How long a text is, is known once something was measured: maps, which grow with its square, wait for mixing ratios.
# Effective and null attention are large and seldom needed for long texts; the decomposition, by which the flow is
# drawn, takes seconds; contributions are as accurate as hovering shows, and take the longest by far.
PLAN: dict[str, Unasked] = {
    "attention": Unasked(4, most=600),
    "mixing": Unasked(0),
    "answer": Unasked(1, read="answer"),
    "map": Unasked(2, most=600, read="map"),
    "why": Unasked(3, positions=True, read="why", view="hero"),
    "norms": Unasked(4, most=600, view="sources"),
    "effective": Unasked(4, most=300),
    "null": Unasked(4, most=300),
    "value_rank": Unasked(4),
    "lm_head": Unasked(5, positions=True),
    "lens": Unasked(8, positions=True, read="lens", view="sides"),
    "decomposition": Unasked(6, most=80, view="flow"),
    "contribution": Unasked(
        7,
        most=40,
        offer="Contribution, from the input through all layers, is not measured unasked for more than 40 tokens: "
        "{tokens} take {time}.",
        refusal="Contribution of all {tokens} tokens would take {time}; here a computation may take {most}. Shorten the"
        " text, or measure one token in Python: targets=[-1].",
        options={"error": 0.05},
    ),
}


def planned(name: str) -> dict[str, Any]:
    """The row of a measure for the page; one without a stage waits to be asked for."""
    return asdict(PLAN.get(name, Unasked()))
