"""Which texts are refused, and how."""

import pytest

from whence.errors import BadInput
from whence.text import Sentence, decode, sentence


def test_a_text_or_a_pair():
    assert sentence("one") == Sentence("one")
    assert sentence(("one", "two")) == sentence(["one", "two"]) == Sentence("one", "two")
    assert sentence(Sentence("one")) == Sentence("one")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        (("a", ""), "empty"),
        (("a", "b", "c"), "3 were given"),
        (7, "int was given"),
        (b"bytes", "bytes was given"),
        ("caf\udce9", "not UTF-8: character 3"),
    ],
)
def test_refused(given, says):
    with pytest.raises(BadInput, match=says):
        sentence(given)


def test_bytes():
    assert decode("\ufeffhé".encode(), "x") == "hé"
    with pytest.raises(BadInput, match="x is not UTF-8: byte 1 is 0xe9"):
        decode(b"h\xe9", "x")
