"""Every tensor of a derivative is rounded, once, and nothing of the model itself."""

import torch

from tests.families import batch, build
from whence.linear.direct import direct
from whence.linear.fold import fold
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.models.precision import rounded, rounding_pays, single


def test_rounded_derivatives():
    with linearised(locate(build("bert")), batch([4])) as chain:
        step = chain.steps[0]
        way = direct(step)
        found = rounded(way)
        assert found.parts is way.parts and found.reads.step is step
        tensors = (found.project, found.spread, *found.reads.maps, found.feed.activated, found.after.blind)
        assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}
        assert way.project.dtype == torch.float32
        assert found.after.scale is way.after.scale  # one factor for a vector, whose rounding would not average out


def test_a_matrix_for_all_tokens_stays_one():
    with linearised(locate(build("bert")), batch([4])) as chain:
        maps = fold(chain.steps[0], direct(chain.steps[0]), 50)
        assert maps.keys.stride(0) == 0 and rounded(maps).keys.stride(0) == 0
        assert rounded(maps).own.stride() == maps.own.stride()
        torch.testing.assert_close(rounded(maps).keys.float(), maps.keys, rtol=2**-8, atol=0)


def test_single_leaves_what_is_precise_enough():
    doubled, halved = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float16)
    assert single(doubled) is doubled and single(halved).dtype == torch.float32


def test_only_processors_that_are_known_to_gain_round(monkeypatch):
    assert not rounding_pays(torch.device("meta"))
    for name, expected in (("avx512_bf16", True), ("amx_bf16", True), ("avx2", False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True, "amx_int8": True})
        assert rounding_pays(torch.device("cpu")) is expected
