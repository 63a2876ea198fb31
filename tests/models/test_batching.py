"""Which sentences go through the model together, and how they are padded."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.models.batching import batches, padded
from whence.models.block import Batch

LENGTHS = st.lists(st.integers(1, 60), max_size=40)


@given(LENGTHS, st.integers(1, 200), st.booleans())
def test_batches_hold_every_sentence_once_and_keep_the_budget(lengths, budget, longest_first):
    found = batches(lengths, lambda longest: budget // longest, longest_first)
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= budget


@given(LENGTHS, st.integers(1, 200), st.booleans())
def test_a_batch_ends_only_where_the_next_sentence_has_no_room(lengths, budget, longest_first):
    found = batches(lengths, lambda longest: budget // longest, longest_first)
    for batch, after in itertools.pairwise(found):
        longest = max(lengths[place] for place in [*batch, after[0]])
        assert (len(batch) + 1) * longest > budget
    order = [lengths[place] for batch in found for place in batch]
    assert order == sorted(lengths, reverse=longest_first)


@pytest.mark.parametrize("pairs", [False, True])
def test_sentences_keep_their_tokens_and_padding_is_masked(pairs):
    rows = [torch.arange(1, length + 1)[None] for length in (3, 1, 5)]
    found = padded([Batch(ids, torch.ones_like(ids, dtype=torch.bool), ids % 2 if pairs else None) for ids in rows], 9)
    assert found.ids.tolist() == [[1, 2, 3, 9, 9], [1, 9, 9, 9, 9], [1, 2, 3, 4, 5]]
    assert found.mask.sum(dim=1).tolist() == [3, 1, 5] and bool(found.mask[:, 0].all())
    assert (found.segments is None) == (not pairs)
    if pairs:
        assert found.segments.tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [1, 0, 1, 0, 1]]
