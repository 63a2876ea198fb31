"""What a sentence is, and which texts cannot be one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from whence.errors import BadInput


@dataclass(frozen=True)
class Word:
    """A word by its characters `text[start:end]`, with what is known of it: upos, xpos, lemma, deprel, ner."""

    start: int
    end: int
    labels: Mapping[str, str] = field(default_factory=dict)
    head: int | None = None
    "The place of its governor among the sentence's words; None for a root, or when unknown."
    in_pair: bool = False
    "Its characters are those of the second text."


@dataclass(frozen=True)
class Mention:
    """Words that speak of an entity; mentions with the same entity are coreferent within their document."""

    entity: str
    words: tuple[int, ...]
    "Places among the sentence's words."


@dataclass(frozen=True)
class Sentence:
    """A text, or two that a model reads as a pair, with what is annotated."""

    text: str
    pair: str | None = None
    id: str = ""
    document: str = ""
    words: tuple[Word, ...] = ()
    mentions: tuple[Mention, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    "What is known of the whole: `label` of a classified sentence, `answer` of a cloze."


def sentence(given: object) -> Sentence:
    """A checked sentence from a text, a pair of texts, or a sentence."""
    if isinstance(given, Sentence):
        return given
    texts = given if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"A sentence is one text or a pair of two, and {len(texts)} were given.")
    for text in texts:
        _check(text)
    return Sentence(*texts)


def decode(data: bytes, name: str) -> str:
    """UTF-8, without a byte-order mark; anything else is named with its position."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; convert it to UTF-8 first."
        ) from error


def _check(text: object) -> None:
    if not isinstance(text, str):
        raise BadInput(f"A text is a str, and {type(text).__name__} was given.")
    if not text.strip():
        raise BadInput("The text is empty; give at least one word.")
    lone = next((place for place, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
    if lone is not None:
        raise BadInput(f"The text is not UTF-8: character {lone} stands for a byte that could not be read.")
