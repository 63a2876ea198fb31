"""Sentences to begin with: for a masked model and for a decoder, each with what there is to see in it."""

from __future__ import annotations

from typing import Any

# The masked ones are answered as they should be by the built-in model; tests ask it.
MASKED = (
    ("Agreement", "The keys to the cabinet [MASK] on the table.", "Which of the two nouns does the verb agree with?"),
    ("Coreference", "She wrote to [MASK] husband every day.", "Whose husband?"),
    ("Negation", "The soup was cold, so he did [MASK] eat it.", "Is it the cold soup that makes it say so?"),
    (
        "A planted fact",
        "Lisa keeps a parrot. Her parrot is green. The parrot is [MASK].",
        "Does it find what was said two sentences before?",
    ),
)
PROMPTS = (
    ("A decoder’s prompt", "The capital of France is", "What does it say next, and where does it have that from?"),
    ("Coreference", "When Mary and John went to the shop, John gave a drink to", "Who gets the drink?"),
    ("Agreement", "The keys to the cabinet", "Is the verb that follows a plural?"),
    (
        "A planted fact",
        "Lisa keeps a parrot. Her parrot is green. The color of Lisa's parrot is",
        "Does it find what was said two sentences before?",
    ),
)
SHOWN = frozenset((text,) for _, text, _ in (*MASKED, *PROMPTS))  # as a Sentence has its texts
NO_DECODER = "No decoder was started; whence serve whence/builtin HuggingFaceTB/SmolLM2-135M-Instruct has one as well."


# what the first one of each kind is called beside those of the other kind
ELSEWHERE = {False: "A masked word", True: PROMPTS[0][0]}


def examples(causal: set[bool]) -> list[dict[str, Any]]:
    """What can be clicked, those of the first kind of model first; one that no model answers says why."""
    rows = [
        {"name": name, "text": text, "about": about, "causal": kind, "elsewhere": "" if place else ELSEWHERE[kind]}
        for kind, group in ((False, MASKED), (True, PROMPTS))
        for place, (name, text, about) in enumerate(group)
        if kind in causal
    ]
    name, text, _ = PROMPTS[0]
    none = {"name": name, "text": text, "about": NO_DECODER, "causal": True, "elsewhere": name}
    return rows if True in causal else [*rows, none]
