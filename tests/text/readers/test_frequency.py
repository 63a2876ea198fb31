"""Ranks from a file or a language, and what is not in the list."""

import numpy as np
import pytest

from whence.errors import BadInput
from whence.text.readers.frequency import frequencies, ranks


def test_ranks_of_token_ids(data, builtin):
    found = frequencies(data / "frequency" / "bert_uncased_rank_count_id.txt")
    assert found.by_id and len(found.ranks) == 29_109
    the, stop, nothing = ranks([1996, 1012, 10**6], found).ranks
    assert (the, stop) == (1, 2) and np.isnan(nothing)
    every = ranks(range(builtin.tokenizer.vocab_size), found)
    assert every.unknown == np.isnan(every.ranks).sum() == 30_522 - 29_109


def test_ranks_of_words(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("the\t50\r\nof\t20\nnew york\t20\nThe\t1\nof\t5\n")
    found = ranks(["the", "The", "THE", "of", "new york", "zebra"], frequencies(path))
    np.testing.assert_array_equal(found.ranks, [1, 4, 1, 2, 3, np.nan])
    assert found.unknown == 1


def test_ties_share_their_rank(tmp_path):
    (tmp_path / "a").write_text("a\t5\nb\t9\nc\t5\nd\t1\n")
    np.testing.assert_array_equal(ranks("abcd", frequencies(tmp_path / "a")).ranks, [2, 1, 2, 4])


def test_a_language():
    pytest.importorskip("wordfreq")
    found = frequencies("wordfreq:en")
    the, zyzzyva, unknown = ranks(["The", "zebra", "qzxqzx"], found).ranks
    assert the == 1 < zyzzyva and np.isnan(unknown)
    with pytest.raises(BadInput, match="no language 'tlh'"):
        frequencies("wordfreq:tlh")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"1 2\n", r"a, line 1: '1 2' was found. Expected: rank, count and token id"),
        (b"1 2 3\n1 x 4\n", "a, line 2"),
        (b"1 2 3\n2 2 3\n", "line 2: the token id 3 is listed twice"),
        (b"the\t5\nof\tmany\n", "line 2: .* Expected: a word, a tab and its count"),
        (b"the\t5\n\xe9\t5\n", "line 2: byte 0"),
    ],
)
def test_refused(tmp_path, content, says):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(BadInput, match=says):
        frequencies(tmp_path / "a")


def test_words_and_ids_are_not_mixed(tmp_path):
    (tmp_path / "a").write_text("1 2 3\n")
    with pytest.raises(BadInput, match="one of token ids, and it was asked for 'the'"):
        ranks(["the"], frequencies(tmp_path / "a"))
    with pytest.raises(BadInput, match="no file"):
        frequencies(tmp_path / "b")
