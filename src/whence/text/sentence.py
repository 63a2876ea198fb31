"""What a sentence is, and which texts and annotations are refused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from whence.errors import BadInput

MASK = "[MASK]"  # in every corpus, whatever the model's own mask token is


@dataclass(frozen=True)
class Word:
    """A word by its characters `text[start:end]`, with its annotations: upos, xpos, lemma, deprel, ner."""

    start: int
    end: int
    labels: Mapping[str, str] = field(default_factory=dict)
    governor: int | None = None
    "The index of its governor among the sentence's words; None for a root, or when unknown."
    in_pair: bool = False
    "Its characters are in the second text."


@dataclass(frozen=True)
class Mention:
    """Words that refer to an entity; mentions of the same entity are coreferent within their document."""

    entity: str
    words: tuple[int, ...]
    "Indices among the sentence's words, ascending."
    labels: Mapping[str, str] = field(default_factory=dict)
    "Its annotations: etype and infstat in GUM, role in GAP."


@dataclass(frozen=True)
class Turn:
    """One message of a chat: who says what."""

    role: str
    content: str
    span: tuple[int, int] = (0, 0)
    "The characters of the content, once the tokenizer's template has made a text of the chat."


@dataclass(frozen=True)
class Sentence:
    """A text, or two that a model reads as a pair, with annotations; or a chat, or token ids."""

    text: str
    pair: str | None = None
    id: str = ""
    document: str = ""
    words: tuple[Word, ...] = ()
    mentions: tuple[Mention, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    "Annotations of the whole: `label` of a classified sentence, `answer` of a cloze."
    turns: tuple[Turn, ...] = ()
    ids: tuple[int, ...] = ()
    "Taken as they are: no special token is added."

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, and the second of a pair."""
        return (self.text,) if self.pair is None else (self.text, self.pair)

    def word(self, place: int) -> str:
        """The characters of a word."""
        word = self.words[place]
        return self.texts[word.in_pair][word.start : word.end]


def sentence(item: object) -> Sentence:
    """A checked sentence from a text, a tuple of two texts, a chat, token ids, or a sentence."""
    if isinstance(item, Sentence):
        check_names(item)
        _check_annotation(item)
        if item.turns or item.ids:
            return item
        texts: Sequence[object] = item.texts
    elif isinstance(item, list) and item and all(isinstance(message, Mapping) for message in item):
        return Sentence("", turns=tuple(_turn(number, message) for number, message in enumerate(item)))
    elif isinstance(item, list) or hasattr(item, "tolist"):
        return Sentence("", ids=_ids(item if isinstance(item, list) else item.tolist()))
    else:
        texts = item if isinstance(item, tuple) else (item,)
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"A sentence is one text or a pair of two, and {len(texts)} were given.")
    for text in texts:
        check(text)
    return item if isinstance(item, Sentence) else Sentence(*texts)  # type: ignore[arg-type]


def _turn(number: int, message: Mapping[str, object]) -> Turn:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not isinstance(content, str):
        raise BadInput(f'Message {number} of the chat is not of the form {{"role": "user", "content": "a text"}}.')
    check_encodable(role, "The role")
    check_encodable(content, "The content")
    return Turn(role, content)


def _ids(item: object) -> tuple[int, ...]:
    """One row of whole numbers, as a tokenizer or `generate` gives it."""
    row = item[0] if isinstance(item, list) and len(item) == 1 and isinstance(item[0], list) else item
    if isinstance(row, list) and row and all(type(number) is int for number in row):
        if min(row) < 0:
            raise BadInput(f"Token ids count from 0, and {min(row)} was given.")
        return tuple(row)
    many = f"A list of {len(item)}" if isinstance(item, list) else f"A single {type(item).__name__}"
    raise BadInput(
        f"{many} was given; give one text, a pair as a tuple (first, second), a chat as a list of messages, token ids"
        " as one row of whole numbers, or a corpus to whence.run."
    )


def sentences(corpus: object) -> Iterable[object]:
    """The corpus itself, if it can be one: any iterable of sentences, but not a single text or a file's name."""
    if isinstance(corpus, Mapping) or type(corpus).__name__ == "DataFrame":  # both give the names of their columns
        raise BadInput(
            f"A corpus is sentences, and a {type(corpus).__name__} was given; give its column of texts, or what"
            " whence.read(frame, text=COLUMN) gives."
        )
    if isinstance(corpus, str | bytes | PathLike) or not isinstance(corpus, Iterable):
        what = f"the str {corpus!r}" if isinstance(corpus, str) else type(corpus).__name__
        raise BadInput(f"A corpus is sentences, and {what} was given; give a list of texts, or what whence.read gives.")
    return corpus


def decode(data: bytes, name: str) -> str:
    """The text of UTF-8 bytes without a byte-order mark; anything else is an error that names the byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; convert it to UTF-8 first."
        ) from error


def check(text: object, what: str = "The text") -> None:
    """Refuses what cannot be a text, and says why."""
    if not isinstance(text, str):
        raise BadInput(f"A text is a str, and {type(text).__name__} was given.")
    if not text.strip():
        raise BadInput(f"{what} is empty; give at least one word.")
    if "\0" in text:
        raise BadInput(f"{what} has a NUL at character {text.index(chr(0))}, which no text has; take it out.")
    check_encodable(text, what)


def check_encodable(text: object, what: str) -> None:
    """Refuses a name, a label or a text that cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise BadInput(f"{what} is a str, and {type(text).__name__} was given.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{what} {text!a:.60} is not UTF-8: character {error.start} is half of a surrogate pair, or stands for a"
            " byte that could not be read; correct it or leave it out."
        ) from error


def check_names(sentence: Sentence) -> None:
    """Refuses an id, a document, a label or an entity that cannot be written as UTF-8."""
    check_encodable(sentence.id, "The id")
    check_encodable(sentence.document, "The document")
    annotated: tuple[Sentence | Word | Mention, ...] = (sentence, *sentence.words, *sentence.mentions)
    for labelled in annotated:
        for name, value in labelled.labels.items():
            check_encodable(name, "The name of a label")
            check_encodable(value, f"The label {name!r}")
    for mention in sentence.mentions:
        check_encodable(mention.entity, "The entity")


def _check_annotation(sentence: Sentence) -> None:
    lengths = [len(text) for text in sentence.texts]
    for place, word in enumerate(sentence.words):
        if word.in_pair >= len(lengths) or not 0 <= word.start < word.end <= lengths[word.in_pair]:
            raise BadInput(f"Word {place} has the characters {word.start} to {word.end}, which the text does not have.")
        if word.governor is not None and not 0 <= word.governor < len(sentence.words):
            last = len(sentence.words) - 1
            raise BadInput(f"Word {place} has the governor {word.governor}, and the words are 0 to {last}.")
    for mention in sentence.mentions:
        if any(not 0 <= place < len(sentence.words) for place in mention.words):
            raise BadInput(f"A mention of {mention.entity!r} has words that the sentence does not have.")
