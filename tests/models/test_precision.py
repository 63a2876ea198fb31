"""Half precision becomes float32, and what is precise enough stays the very same."""

import torch

from tests.families import build
from whence.models.locate import locate
from whence.models.precision import single


def test_single_leaves_what_is_precise_enough():
    doubled, halved = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float16)
    assert single(doubled) is doubled and single(halved).dtype == torch.float32


def test_the_parts_of_a_block():
    anatomy = locate(build("bert").to(torch.bfloat16))
    parts = anatomy.parts(anatomy.blocks[0])
    found = single(parts)
    assert found.projection.weight.dtype == found.feed_forward.down.bias.dtype == torch.float32
    assert single(found) is found and found.feed_forward.activation is parts.feed_forward.activation
