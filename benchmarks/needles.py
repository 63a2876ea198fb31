"""Is a planted fact found again: how often its sentence comes first among those that an answer rests on.

A sentence with a code or a name ("The secret code of the library is 7391.") stands somewhere among sentences of
Wikipedia that have nothing to do with it; behind them stands the question and the beginning of the answer. Shares and
dependences of the answer are summed by sentence, and ranked with the question and the first token's sentence, and
without them. FlashTrace runs beside where it is installed (see benchmarks/faithful.py).
"""

import random
from dataclasses import dataclass

import numpy as np
import regex
import torch
import xarray

import whence
from benchmarks.clock import one_thread
from benchmarks.faithful import DATA, Asked, Peer, beside
from benchmarks.memory import smollm2
from benchmarks.norms import row
from whence.models.load import Model

NEEDLES, SENTENCES = 30, 14
SURE = "probability"
PLACES = ("library", "harbour", "museum", "station", "garden", "tower", "bakery", "castle", "school", "theatre")
NAMES = ("Martha", "Oliver", "Sophie", "Victor", "Helen", "Simon", "Alice", "Edgar", "Clara", "Hugo")
KINDS = (
    (
        "The secret code of the {place} is {code}.",
        "What is the secret code of the {place}? The secret code is",
        " {code}",
    ),
    (
        "The new director of the {place} is {name}.",
        "Who is the new director of the {place}? The new director is",
        " {name}",
    ),
    ("The keys of the {place} are kept by {name}.", "Who keeps the keys of the {place}? They are kept by", " {name}"),
)


@dataclass(frozen=True)
class Needle:
    """A text whose sentence number `place` has the answer, and the answer."""

    text: str
    place: int
    answer: str


def main() -> None:
    torch.manual_seed(0)
    model = smollm2()
    with one_thread(), beside(model) as peer:
        found = [ranks(model, needle, peer) for needle in needles(NEEDLES)]
    row("probability of the answer", f"median {np.median([each[SURE] for each in found]):.2f}")
    for name in [name for name in found[0] if name != SURE]:
        first = [each[name] for each in found]
        places = f"median rank {int(np.median(first))}, worst {int(max(first))}"
        row(f"needle first by {name}", f"{sum(rank == 1 for rank in first)} of {len(first)}", places)


def needles(count: int) -> list[Needle]:
    """Facts, their kinds and their places varied; the same ones in every run."""
    drawn = random.Random(0)
    every = _sentences()
    made = []
    for number in range(count):
        filled = {"place": drawn.choice(PLACES), "name": drawn.choice(NAMES), "code": str(drawn.randrange(1000, 10000))}
        fact, question, answer = (part.format(**filled) for part in KINDS[number % len(KINDS)])
        place = 1 + number * (SENTENCES - 1) // count
        around = drawn.sample(every, SENTENCES)
        made.append(Needle(" ".join([*around[:place], fact, *around[place:], question]), place, answer))
    return made


def ranks(model: Model, needle: Needle, peer: Peer | None) -> dict[str, float]:
    """The rank of the needle's sentence by each score, among all sentences and among the context's behind the first."""
    found = whence.why(model, needle.text, answer=needle.answer, together=True, spans="sentence")
    scores = by_sentence(found)
    if peer is not None:
        count = int((~found.source_is_answer).sum())
        ids = found.source_token_id.values.tolist()
        scored = np.array(peer(Asked(ids[:count], ids[count:], (needle.text, needle.answer)))["scores"])
        scores["FlashTrace"] = np.bincount(found.source_span.values[:count], scored)
    last = SENTENCES + 1  # the question; with what the answer begins with, two sentences
    return {SURE: found.probability.item()} | {
        f"{name}{rest}": 1 + int((values[among] > values[needle.place]).sum())
        for name, values in scores.items()
        for rest, among in {", of all": slice(None), "": slice(1, last)}.items()
    }


def by_sentence(found: xarray.Dataset) -> dict[str, np.ndarray]:
    share = found.share.values[0]
    spans, count = found.source_span.values, found.sizes["span"]
    middle = share.shape[0] // 2
    return {
        "share": found.span_share.values[0, 0],
        "share, sizes": np.bincount(spans, np.abs(share[0]), minlength=count),
        "share, middle layer": found.span_share.values[0, middle],
        "share, middle layer, sizes": np.bincount(spans, np.abs(share[middle]), minlength=count),
        "dependence": found.span_dependence.values[0, 0],
        "dependence, middle layer": found.span_dependence.values[0, middle],
    }


def _sentences() -> list[str]:
    """Plain sentences of one length, that are one to the splitter as well."""
    text = (DATA / "enwiki/excerpt_5MB.txt").read_text()[:600_000]
    return regex.findall(r"(?<=[a-z]\. )[A-Z][A-Za-z, ]{60,120}[a-z]\.(?= [A-Z])", text)


if __name__ == "__main__":
    main()
