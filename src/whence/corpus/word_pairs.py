"""Which words of a sentence are paired: coreferent or not, governor and dependent, neighbours."""

from collections.abc import Iterator
from dataclasses import dataclass

from whence.corpus.annotate import Coded
from whence.text.readers.pairs import head
from whence.text.sentence import Sentence

NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
ACROSS = "across"  # from the answer of an encoder-decoder to its source


@dataclass(frozen=True)
class Pair:
    """A target word and a source word whose share in it is measured; fields that do not apply are None."""

    kind: str
    target: int
    source: int
    relation: str | None = None
    target_is_governor: bool | None = None
    coreferent: bool | None = None


def pairs(coded: Coded, neighbours: int) -> list[Pair]:
    """All pairs whose words have tokens, in both directions; of an encoder-decoder those of words of the answer."""
    every = (*_coreference(coded.sentence), *_dependency(coded.sentence), *_neighbours(coded, neighbours))
    known = [pair for pair in every if pair.target in coded.pieces and pair.source in coded.pieces]
    if not coded.first:
        return known
    words = coded.sentence.words
    return [*(pair for pair in known if words[pair.target].in_pair), *_across(coded)]


def _across(coded: Coded) -> Iterator[Pair]:
    """Every word of the answer with every word of the source."""
    words = coded.sentence.words
    for target in coded.pieces:
        for source in coded.pieces if words[target].in_pair else ():
            if not words[source].in_pair:
                yield Pair(ACROSS, target, source)


def _coreference(sentence: Sentence) -> Iterator[Pair]:
    """Any two of the heads of mentions and nominal words; coreferent if they head mentions of one entity.

    A word inside a mention of the other's entity that is not its head ("President" in "President Obama ... he") is
    neither coreferent nor not, and is left out. Without mentions in the sentence nothing is known.
    """
    if not sentence.mentions:
        return
    heads = _entities(sentence, heads_only=True)
    inside = _entities(sentence, heads_only=False)
    nominal = {place for place, word in enumerate(sentence.words) if word.labels.get("upos") in NOMINAL}
    words = sorted(nominal | heads.keys())
    nobody: frozenset[str] = frozenset()
    for target in words:
        for source in words:
            same = bool(heads.get(target, nobody) & heads.get(source, nobody))
            if target != source and (same or not inside.get(target, nobody) & inside.get(source, nobody)):
                yield Pair("coreference", target, source, coreferent=same)


def _entities(sentence: Sentence, heads_only: bool) -> dict[int, frozenset[str]]:
    entities: dict[int, frozenset[str]] = {}
    for mention in sentence.mentions:
        for word in (head(sentence, mention),) if heads_only else mention.words:
            entities[word] = entities.get(word, frozenset()) | {mention.entity}
    return entities


def _dependency(sentence: Sentence) -> Iterator[Pair]:
    for place, word in enumerate(sentence.words):
        if word.governor is not None and word.governor != place:
            relation = word.labels.get("deprel")
            yield Pair("dependency", place, word.governor, relation, target_is_governor=False)
            yield Pair("dependency", word.governor, place, relation, target_is_governor=True)


def _neighbours(coded: Coded, reach: int) -> Iterator[Pair]:
    """Words at most `reach` apart in the same text."""
    every = coded.sentence.words
    for second in (False, True):
        text = [place for place in coded.pieces if every[place].in_pair == second]
        for at, target in enumerate(text):
            for source in text[max(0, at - reach) : at + reach + 1]:
                if source != target and abs(source - target) <= reach:
                    yield Pair("neighbour", target, source)
