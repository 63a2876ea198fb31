"""Words by Unicode's rules, tokens to words by offsets, and values of words from those of tokens."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.text.align import (
    averaged,
    located,
    summed,
    tokens_of_words,
    tokens_starting_in_words,
    worded,
    words,
    words_over_tokens,
)
from whence.text.sentence import Sentence, Word

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, it's 3.14!", ["Don't", "stop", ",", "it's", "3.14", "!"]),
        ("cafe\u0301 au lait", ["cafe\u0301", "au", "lait"]),
        ("我喜欢猫。", ["我", "喜", "欢", "猫", "。"]),
        ("a 👩‍👩‍👧 b", ["a", "👩‍👩‍👧", "b"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("the [MASK], [MASK]ed", ["the", "[MASK]", ",", "[MASK]", "ed"]),
    ],
)
def test_words(text, expected):
    assert [text[slice(*span)] for span in words(text)] == expected


@given(st.text() | st.lists(st.sampled_from(["[MASK]", "[", "MA", "]", "a", " "])).map("".join))
def test_words_cover_everything_but_white_space_once(text):
    covered = "".join(text[slice(*span)] for span in words(text))
    assert "".join(covered.split()) == "".join(text.split())


def test_a_sentence_is_given_words_only_where_it_has_none():
    annotated = Sentence("a b", words=(Word(0, 3),))
    assert worded(annotated) is annotated
    assert worded(Sentence("a b", "c")).words == (Word(0, 1), Word(2, 3), Word(0, 1, in_pair=True))


@given(SPANS, SPANS)
def test_overlaps_are_those_found_one_by_one(of_words, of_tokens):
    over = words_over_tokens(of_words, of_tokens)
    for token, places in zip(of_tokens, over, strict=True):
        shared = {place: set(range(*word)) & set(range(*token)) for place, word in enumerate(of_words)}
        assert sorted(places) == [place for place, characters in shared.items() if characters]
        assert [min(shared[place]) for place in places] == sorted(min(shared[place]) for place in places)
    pieces = tokens_of_words(of_words, of_tokens)
    assert {(token, place) for token, places in enumerate(over) for place in places} == {
        (token, place) for place, tokens in enumerate(pieces) for token in tokens
    }


@given(SPANS, SPANS)
def test_every_token_starts_in_one_word_at_most(of_words, of_tokens):
    starting = [token for tokens in tokens_starting_in_words(of_words, of_tokens) for token in tokens]
    assert sorted(starting) == [token for token, over in enumerate(words_over_tokens(of_words, of_tokens)) if over]


PIECES = st.integers(1, 6).flatmap(
    lambda count: st.tuples(st.just(count), st.lists(st.lists(st.integers(0, count - 1), unique=True), max_size=5))
)


@given(PIECES, st.integers(0, 2), st.integers(0, 99))
def test_values_of_words_are_those_computed_one_by_one(given_pieces, axis, seed):
    count, pieces = given_pieces
    shape = [2, 3, 4]
    shape[axis] = count
    values = np.random.default_rng(seed).random(shape)
    means, sums = averaged(values, pieces, axis), summed(values, pieces, axis)
    assert means.shape[axis] == sums.shape[axis] == len(pieces)
    for word, tokens in enumerate(pieces):
        taken = [values.take(token, axis) for token in tokens]
        np.testing.assert_allclose(sums.take(word, axis), sum(taken, np.zeros_like(values.take(0, axis))))
        expected = sums.take(word, axis) / len(tokens) if tokens else np.full_like(values.take(0, axis), np.nan)
        np.testing.assert_allclose(means.take(word, axis), expected)


def test_shares_of_words_still_sum_to_one():
    """Rows averaged over a word's pieces and columns summed over them: a distribution stays one."""
    pieces = tokens_starting_in_words([(0, 4), (5, 8)], [(0, 2), (2, 4), (4, 8)])
    shares = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 3))
    by_word = summed(averaged(shares, pieces, axis=-2), pieces, axis=-1)
    assert by_word.shape == (4, 2, 2)
    np.testing.assert_allclose(by_word.sum(axis=-1), 1)


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("Zoë ate it", ["zoe", "at", "##e", "it"], ["Zoë", "at", "e", "it"]),
        ("Zoë ate it", ["▁Zo", "ë", "▁ate", "▁", "it"], ["Zo", "ë", "ate", None, "it"]),
        ("low lower", ["low</w>", "low@@", "er"], ["low", "low", "er"]),
        ("a 日本 b", ["a", "<unk>", "b"], ["a", "日本", "b"]),
        ("a é b", ["a", "<0xC3>", "<0xA9>", "b"], ["a", "é", "é", "b"]),
        ("ﬁne", ["f", "##ine"], ["ﬁ", "ﬁne"]),
        ("something else", ["nothing", "else"], [None, None]),
        ("end <unk>", ["end", "<unk>", "<unk>"], ["end", "<unk>", "<unk>"]),
    ],
)
def test_pieces_without_offsets_are_found_by_their_letters(text, pieces, expected):
    found = located(text, pieces, {"<unk>"})
    assert [span and text[slice(*span)] for span in found] == expected


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.data())
def test_a_text_cut_anywhere_is_found_again(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    for piece, span in zip(pieces, located(text, pieces), strict=True):
        assert span is None or (0 <= span[0] < span[1] <= len(text) and piece.strip())
