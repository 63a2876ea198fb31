"""Value zeroing against the model itself, run with one token's column of the attention set to zero."""

import pytest
import torch

from tests.families import DISTINCT, batch, build
from tests.measures.reference import captured
from whence.measures.norms.rollout import shares
from whence.measures.norms.value_zeroing import zeroed
from whence.models.block import Batch
from whence.models.capture import walk
from whence.models.locate import locate


@pytest.mark.parametrize("name", DISTINCT)
def test_every_kind_of_block_against_the_model_run_without_the_value(name):
    anatomy, rows = locate(build(name).double()), batch([5, 3])
    found = walk(anatomy, rows, lambda block: zeroed(block, rows.mask)).blocks
    real = walk(anatomy, rows, lambda block: block.output).blocks
    for layer in (0, len(found) - 1):
        expected = shares(_changes(anatomy, rows, real[layer], layer))
        assert torch.allclose(found[layer], expected, atol=1e-5)


def _changes(anatomy, rows, real, layer):
    """b x t x s: every sentence once for each of its tokens, whose column is zero, all in one pass."""
    length = rows.ids.shape[1]

    def edit(place, weights):
        if place != layer + 1:
            return None
        changed = weights.unflatten(0, (-1, length)).clone()
        for token in range(length):
            changed[:, token, ..., token] = 0
        return changed.flatten(end_dim=1)

    copies = Batch(rows.ids.repeat_interleave(length, dim=0), rows.mask.repeat_interleave(length, dim=0))
    other = walk(anatomy, copies, lambda block: block.output, edit=edit).blocks[layer].unflatten(0, (-1, length))
    change = 1 - torch.cosine_similarity(real[:, None], other, dim=-1).mT
    return change.clamp(min=0) * rows.mask[:, :, None] * rows.mask[:, None]


def test_pieces_change_nothing():
    (block, *_), rows = captured("llama", torch.float64, (7, 4))
    assert torch.allclose(zeroed(block, rows.mask, budget=1), zeroed(block, rows.mask), rtol=1e-10)


def test_rows_are_shares_and_padding_is_zero():
    (block, *_), rows = captured("bert", torch.float32, (7, 4), side="left")
    found = zeroed(block, rows.mask)
    assert torch.allclose(found.sum(dim=-1), rows.mask.float())
    assert not found[1, :, :3].any()
