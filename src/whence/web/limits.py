"""How much the explorer takes at once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one server; beyond each of them the answer is a sentence with the figure."""

    body: int = 2**18
    "Bytes of a request."
    arrival: float = 30.0
    "Seconds the head of a request may take to arrive, and its body as many again."
    tokens: int = 2048
    "Tokens of a sentence, special ones included."
    memory: int | None = None
    "Bytes that measuring one sentence may take; what is free, when None."
    waiting: int = 16
    "Jobs that wait their turn; the next one is told when to come back."
    seconds: float = 600.0
    "Time one job may take."
    patience: float = 0.8
    "Seconds an answer is held back for a job that may be done by then."
    kept: int = 2**29
    "Bytes of results that are kept, the least recently used going first."
    examples_only: bool = False
    "Whether only the texts of the examples are measured, for a page that is shown and not used."
