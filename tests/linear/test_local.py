"""Structured local norms: the same as from tangents, in every family that has them, far cheaper with many tokens."""

import pytest
import torch

from tests.families import DISTINCT, EXPERTS, OUTSIDE, batch, build
from whence.linear import cost, tangent
from whence.linear.local import local_frobenius
from whence.measures.flow.contribution import jacobian_local
from whence.models.encode import encode
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.text.sentence import sentence

PLENTY = 2**30


def from_tangents(step):
    """Every unit change of every token, through the block's own code."""
    tokens, width = step.states.shape
    basis = torch.eye(tokens * width, dtype=step.states.dtype).view(-1, tokens, width)
    return step.push(basis).view(tokens, width, tokens, width).square().sum(dim=(1, 3)).sqrt().T


@pytest.mark.parametrize("name", [name for name in DISTINCT if name not in {"xlnet", *OUTSIDE, *EXPERTS}])
def test_the_fast_ways(name):
    with linearised(locate(build(name)), batch([4])) as chain:
        step = chain.steps[-1]
        found = local_frobenius(step, 50, PLENTY)
        torch.testing.assert_close(found, from_tangents(step), rtol=1e-5, atol=1e-7)
        assert tangent.by_parts(step) is not None


@pytest.mark.parametrize("name", [name for name in DISTINCT if name in EXPERTS])
def test_experts_are_multiplied_out_without_their_parts(name):
    with linearised(locate(build(name)), batch([4])) as chain:
        step = chain.steps[-1]
        torch.testing.assert_close(local_frobenius(step, 50, PLENTY), from_tangents(step), rtol=1e-5, atol=1e-7)
        assert tangent.by_parts(step) is None


def test_builtin(builtin):
    given = encode(builtin.anatomy, builtin.tokenizer, sentence("Paris")).batch
    with linearised(builtin.anatomy, given) as chain:
        for step in (chain.steps[0], chain.steps[-1]):
            torch.testing.assert_close(local_frobenius(step, 50, PLENTY), from_tangents(step), rtol=1e-5, atol=0)


def test_without_room_or_structure_tangents_are_used():
    given = batch([4])
    with linearised(locate(build("xlnet")), given) as chain:
        assert local_frobenius(chain.steps[0], 50, PLENTY) is None
    anatomy = locate(build("bert"))
    with linearised(anatomy, given) as chain:
        assert local_frobenius(chain.steps[0], 50, 10**5) is None
    small = jacobian_local(anatomy, given, memory=3 * 10**5).norms
    torch.testing.assert_close(small, jacobian_local(anatomy, given).norms, rtol=1e-5, atol=0)


def test_sources_in_several_parts(monkeypatch):
    with linearised(locate(build("llama")), batch([5])) as chain:
        whole = local_frobenius(chain.steps[1], 50, PLENTY)
        monkeypatch.setattr(cost, "PAIRS", 1)
        torch.testing.assert_close(local_frobenius(chain.steps[1], 50, PLENTY), whole)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_tokens_that_are_not_read_alike_are_found_out(name, monkeypatch):
    """Rotary positions and a norm before the attention make a map of every token; supposing otherwise does no harm."""
    with linearised(locate(build(name)), batch([4])) as chain:
        step = chain.steps[-1]
        expected = from_tangents(step)
        monkeypatch.setattr(type(step), "may_read_alike", name != "bert")
        torch.testing.assert_close(local_frobenius(step, 50, PLENTY), expected, rtol=1e-5, atol=1e-7)
