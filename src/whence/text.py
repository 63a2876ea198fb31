"""What a sentence is, and which texts cannot be one."""

from dataclasses import dataclass

from whence.errors import BadInput


@dataclass(frozen=True)
class Sentence:
    """A text, or two that a model reads as a pair."""

    text: str
    pair: str | None = None


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
