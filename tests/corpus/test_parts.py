"""How a corpus is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny import annotated
from whence.corpus.parts import cut
from whence.errors import BadInput
from whence.text.sentence import Sentence


@given(st.integers(0, 50), st.integers(1, 12))
def test_parts_are_the_corpus_in_order(count, size):
    parts = list(cut((f"text {number}" for number in range(count)), size))
    assert [part.number for part in parts] == list(range(len(parts)))
    assert all(part.first == part.number * size for part in parts)
    assert [each.text for part in parts for each in part.sentences] == [f"text {number}" for number in range(count)]
    assert all(len(part.sentences) == size for part in parts[:-1])


def test_a_corpus_is_read_as_parts_are_asked_for():
    read = []
    parts = cut((read.append(number) or "text" for number in range(100)), 10)
    assert not read
    next(parts)
    assert len(read) == 10


def test_the_sentence_that_is_none_is_named():
    with pytest.raises(BadInput, match="Sentence 2 of the corpus, counted from 0: The text is empty"):
        list(cut(["one", ("two", "three"), " "], 2))


def test_the_digest_sees_every_annotation():
    one = annotated(1)[0]
    others = [
        Sentence(one.text),
        Sentence(one.text, "pair"),
        Sentence(one.text, id="x"),
        Sentence(one.text, document="x"),
        Sentence(one.text, labels={"label": "1"}),
        Sentence(one.text, words=one.words),
        Sentence(one.text, words=one.words, mentions=one.mentions),
        one,
    ]
    digests = {next(cut([each], 1)).sha256 for each in others}
    assert len(digests) == len(others)
