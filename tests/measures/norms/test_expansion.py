"""The expansion rate against singular values."""

import pytest
import torch

from tests.families import DISTINCT, NO_VALUE_MAP, build
from tests.measures.reference import captured
from whence.measures.norms.expansion import affine_of, expansion
from whence.models.locate import locate
from whence.models.values import value_maps


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "albert", "xlnet"])
def test_the_rate_is_that_of_the_singular_values(name):
    anatomy = locate(build(name))
    rates = expansion(anatomy)
    for block, value, rate in zip(anatomy.blocks, value_maps(anatomy), rates, strict=True):
        both = affine_of(value, anatomy.projection(block))
        matrix = torch.zeros(65, 65)
        matrix[:64, :64], matrix[64, 64] = both.weight, 1
        matrix[64, :64] = 0 if both.bias is None else both.bias
        assert torch.allclose(rate, torch.linalg.svdvals(matrix).square().sum().sqrt() / 65**0.5, rtol=1e-5)


def test_f_of_the_input_is_what_heads_write():
    """sum_h f_h(x_j), from the affine map and from the captured values."""
    (block, *_), _ = captured("bert", torch.float32)
    anatomy = locate(build("bert"))
    both = affine_of(value_maps(anatomy)[0], anatomy.projection(anatomy.blocks[0]))
    written = torch.einsum("b h s d, h d m -> b s m", block.values, block.parts.projection.weight)
    assert torch.allclose(both(block.input), written, atol=1e-4)


def test_double_stays_double():
    assert expansion(locate(build("llama").double())).dtype == torch.float64
    assert expansion(locate(build("llama").bfloat16())).dtype == torch.float32


@pytest.mark.parametrize("name", [name for name in DISTINCT if name not in NO_VALUE_MAP])
def test_every_family_has_a_rate_per_layer(name):
    anatomy = locate(build(name))
    rates = expansion(anatomy)
    assert rates.shape == (anatomy.layers,) and bool((rates > 0).all())
