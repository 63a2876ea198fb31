"""Finds the spans of words in their text when only their letters are given."""

from collections.abc import Sequence

from whence.errors import BadInput
from whence.text.align import Span


def joined(forms: Sequence[str], spaced: Sequence[bool]) -> str:
    """The words joined to a text, with a space after those that have one."""
    text = "".join(form + " " * space for form, space in zip(forms, spaced, strict=True))
    return text[:-1] if spaced and spaced[-1] else text


def spans(text: str, forms: Sequence[str]) -> list[Span]:
    """The span of each word, in order; together they use up all letters of the text, white space aside."""
    located: list[Span] = []
    cursor = 0
    for form in forms:
        start = _past_space(text, cursor)
        with_space = max(cursor, start - len(form) + len(form.lstrip()))  # a word may begin with a space of its own
        start = with_space if text.startswith(form, with_space) else start
        cursor = _past_form(text, start, form)
        located.append((start, cursor))
    if _past_space(text, cursor) < len(text):
        raise BadInput(f"the words end before the text does, at {text[cursor:].strip():.40}.")
    return located


def _past_space(text: str, cursor: int) -> int:
    while cursor < len(text) and text[cursor].isspace():
        cursor += 1
    return cursor


def _past_form(text: str, cursor: int, form: str) -> int:
    if text.startswith(form, cursor):
        return cursor + len(form)
    end = cursor
    for letter in "".join(form.split()):
        end = _past_space(text, end)
        if not text.startswith(letter, end):
            raise BadInput(
                f"the word {form!r:.40} does not stand in the text, which goes on with {text[cursor:]!r:.40}."
            )
        end += 1
    return end
