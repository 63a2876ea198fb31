"""Words by Unicode's rules, and tokens to words by offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.align import words, words_of_tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, it's 3.14!", ["Don't", "stop", ",", "it's", "3.14", "!"]),
        ("cafe\u0301 au lait", ["cafe\u0301", "au", "lait"]),
        ("我喜欢猫。", ["我", "喜", "欢", "猫", "。"]),
        ("a 👩‍👩‍👧 b", ["a", "👩‍👩‍👧", "b"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    ],
)
def test_words(text, expected):
    assert [text[slice(*span)] for span in words(text)] == expected


@given(st.text())
def test_words_cover_everything_but_white_space_once(text):
    covered = "".join(text[slice(*span)] for span in words(text))
    assert "".join(covered.split()) == "".join(text.split())


@given(st.text(min_size=1), st.data())
def test_a_token_is_given_the_word_it_starts_in(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    (word,) = words_of_tokens(text, [(start, end)])
    piece = text[start:end].lstrip()
    assert word in text
    assert not piece or piece[0] in word


def test_pieces_share_their_word():
    assert words_of_tokens("unbelievable things", [(0, 2), (2, 8), (8, 12), (12, 19)]) == [
        "unbelievable",
        "unbelievable",
        "unbelievable",
        "things",
    ]
