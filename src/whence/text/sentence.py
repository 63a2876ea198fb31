"""What a sentence is, and which texts and annotations cannot be one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from whence.errors import BadInput

MASK = "[MASK]"  # in every corpus, whatever the mask of a model is


@dataclass(frozen=True)
class Word:
    """A word by its characters `text[start:end]`, with what is known of it: upos, xpos, lemma, deprel, ner."""

    start: int
    end: int
    labels: Mapping[str, str] = field(default_factory=dict)
    governor: int | None = None
    "The place of its governor among the sentence's words; None for a root, or when unknown."
    in_pair: bool = False
    "Its characters are those of the second text."


@dataclass(frozen=True)
class Mention:
    """Words that speak of an entity; mentions with the same entity are coreferent within their document."""

    entity: str
    words: tuple[int, ...]
    "Places among the sentence's words, ascending."
    labels: Mapping[str, str] = field(default_factory=dict)
    "What is known of the mention: its etype and infstat in GUM, its role in GAP."


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

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, and the second of a pair."""
        return (self.text,) if self.pair is None else (self.text, self.pair)

    def word(self, place: int) -> str:
        """The characters of a word."""
        word = self.words[place]
        return self.texts[word.in_pair][word.start : word.end]


def sentence(given: object) -> Sentence:
    """A checked sentence from a text, a tuple of two texts, or a sentence."""
    if isinstance(given, list):
        raise BadInput(
            f"A list of {len(given)} was given; give one text, a pair as a tuple (first, second), or a corpus to"
            " whence.run."
        )
    if isinstance(given, Sentence):
        check_names(given)
        _check_annotation(given)
        texts: Sequence[object] = given.texts
    else:
        texts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"A sentence is one text or a pair of two, and {len(texts)} were given.")
    for text in texts:
        check(text)
    return given if isinstance(given, Sentence) else Sentence(*texts)  # type: ignore[arg-type]


def sentences(given: object) -> Iterable[object]:
    """A corpus as it is, if it can be one: anything but a single text or name that gives sentences."""
    if isinstance(given, Mapping) or type(given).__name__ == "DataFrame":  # both give the names of their columns
        raise BadInput(f"A corpus is sentences, and a {type(given).__name__} was given; give its column of texts.")
    if isinstance(given, str | bytes | PathLike) or not isinstance(given, Iterable):
        what = f"the str {given!r}" if isinstance(given, str) else type(given).__name__
        raise BadInput(f"A corpus is sentences, and {what} was given; give a list of texts, or what whence.read gives.")
    return given


def decode(data: bytes, name: str) -> str:
    """UTF-8, without a byte-order mark; anything else is named with its position."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; convert it to UTF-8 first."
        ) from error


def check(text: object) -> None:
    """Nothing, or an error that says why this cannot be a text."""
    if not isinstance(text, str):
        raise BadInput(f"A text is a str, and {type(text).__name__} was given.")
    if not text.strip():
        raise BadInput("The text is empty; give at least one word.")
    if "\0" in text:
        raise BadInput(f"The text has a NUL at character {text.index(chr(0))}, which no text has; take it out.")
    check_encodable(text, "The text")


def check_encodable(text: object, what: str) -> None:
    """Nothing, or an error when a name, a label or a text cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise BadInput(f"{what} is a str, and {type(text).__name__} was given.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{what} {text!a:.60} is not UTF-8: character {error.start} is half of a surrogate pair, or stands for a"
            " byte that could not be read; correct it or leave it out."
        ) from error


def check_names(given: Sentence) -> None:
    """Nothing, or an error when an id, a document, a label or an entity cannot be written as UTF-8."""
    check_encodable(given.id, "The id")
    check_encodable(given.document, "The document")
    annotated: tuple[Sentence | Word | Mention, ...] = (given, *given.words, *given.mentions)
    for each in annotated:
        for name, value in each.labels.items():
            check_encodable(name, "The name of a label")
            check_encodable(value, f"The label {name!r}")
    for mention in given.mentions:
        check_encodable(mention.entity, "The entity")


def _check_annotation(given: Sentence) -> None:
    lengths = [len(text) for text in given.texts]
    for place, word in enumerate(given.words):
        if word.in_pair >= len(lengths) or not 0 <= word.start < word.end <= lengths[word.in_pair]:
            raise BadInput(f"Word {place} has the characters {word.start} to {word.end}, which the text does not have.")
        if word.governor is not None and not 0 <= word.governor < len(given.words):
            last = len(given.words) - 1
            raise BadInput(f"Word {place} has the governor {word.governor}, and the words are 0 to {last}.")
    for mention in given.mentions:
        if any(not 0 <= place < len(given.words) for place in mention.words):
            raise BadInput(f"A mention of {mention.entity!r} has words that the sentence does not have.")
