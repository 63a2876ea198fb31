"""Which texts are refused, and how."""

from pathlib import Path

import pandas
import pytest

from whence.errors import BadInput
from whence.text.sentence import Mention, Sentence, Word, decode, sentence, sentences


def test_a_text_or_a_pair():
    assert sentence("one") == Sentence("one")
    assert sentence(("one", "two")) == Sentence("one", "two")
    assert sentence(Sentence("one")) == Sentence("one")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        (("a", ""), "empty"),
        (("a", "b", "c"), "3 were given"),
        (["a", "b"], "a pair as a tuple"),
        (7, "int was given"),
        (b"bytes", "bytes was given"),
        ("caf\udce9", "not UTF-8: character 3"),
        ("a\0b", "NUL at character 1"),
        (Sentence(""), "empty"),
        (Sentence("ab", words=(Word(0, 3),)), "Word 0 has the characters 0 to 3"),
        (Sentence("ab", words=(Word(1, 1),)), "Word 0 has the characters 1 to 1"),
        (Sentence("ab", words=(Word(0, 1, in_pair=True),)), "Word 0 has the characters"),
        (Sentence("ab", words=(Word(0, 1, governor=1),)), "governor 1, and the words are 0 to 0"),
        (Sentence("ab", words=(Word(0, 1),), mentions=(Mention("e", (1,)),)), "mention of 'e' has words"),
    ],
)
def test_refused(given, says):
    with pytest.raises(BadInput, match=says):
        sentence(given)


def test_the_characters_of_a_word():
    pair = sentence(Sentence("a bc", "de f", words=(Word(2, 4), Word(0, 2, in_pair=True))))
    assert [pair.word(place) for place in range(2)] == ["bc", "de"]
    assert pair.texts == ("a bc", "de f") and Sentence("a").texts == ("a",)


def test_bytes():
    assert decode("\ufeffhé".encode(), "x") == "hé"
    with pytest.raises(BadInput, match="x is not UTF-8: byte 1 is 0xe9"):
        decode(b"h\xe9", "x")


@pytest.mark.parametrize(("given", "says"), [("text", "the str 'text'"), (Path("a.txt"), "Path"), (None, "NoneType")])
def test_no_corpus(given, says):
    with pytest.raises(BadInput, match=says):
        sentences(given)


@pytest.mark.parametrize("given", [pandas.DataFrame({"text": ["a b", "c d"]}), {"text": ["a b"]}])
def test_the_names_of_columns_are_no_corpus(given):
    """Both can be gone through, and give their columns' names."""
    with pytest.raises(BadInput, match="give its column of texts"):
        sentences(given)
