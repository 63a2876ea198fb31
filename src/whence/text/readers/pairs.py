"""Which nouns and pronouns of a sentence are coreferent."""

from collections import defaultdict
from dataclasses import dataclass

from whence.text.sentence import Mention, Sentence

NOUNS = frozenset({"NOUN", "PROPN"})
PRONOUNS = frozenset({"PRON"})


@dataclass(frozen=True)
class NounPronoun:
    """A noun and a pronoun, by their indices among the sentence's words."""

    noun: int
    pronoun: int
    coreferent: bool


def noun_pronoun(sentence: Sentence) -> list[NounPronoun]:
    """Every noun with every pronoun, both being heads of mentions; coreferent when they have an entity in common.

    In "her friend" the mention of the friend includes the word "her"; only its head stands for it, so that the two are
    not coreferent. Words that head no mention are left out: nothing is known of them.
    """
    entities: dict[int, set[str]] = defaultdict(set)
    for mention in sentence.mentions:
        entities[head(sentence, mention)].add(mention.entity)
    tags = {place: sentence.words[place].labels.get("upos") for place in entities}
    nouns = sorted(place for place, tag in tags.items() if tag in NOUNS)
    pronouns = sorted(place for place, tag in tags.items() if tag in PRONOUNS)
    return [
        NounPronoun(noun, pronoun, bool(entities[noun] & entities[pronoun])) for noun in nouns for pronoun in pronouns
    ]


def head(sentence: Sentence, mention: Mention) -> int:
    """The first word of a mention whose governor is outside it; the last word where no governor is known."""
    inside = frozenset(mention.words)
    if all(sentence.words[place].governor is None for place in inside) and len(inside) > 1:
        return mention.words[-1]
    return next(place for place in mention.words if sentence.words[place].governor not in inside)
