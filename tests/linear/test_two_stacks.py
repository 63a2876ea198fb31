"""Two stacks as one chain: its states, its transpose, its pieces, and the derivative of the model's own code."""

import pytest
import torch

from tests.measures.reference import apart
from tests.stacks import DISTINCT, KINDS, batch, build, derivative
from whence.linear.two_stacks import BackwardsOfBoth, secants
from whence.measures.flow.contribution import gradient, jacobian, jacobian_local
from whence.measures.flow.decomposition import decomposition
from whence.models.linearise import linearised
from whence.models.locate import locate


@pytest.fixture(params=KINDS)
def anatomy(request):
    return locate(build(request.param).double())


def test_it_gives_back_every_state_and_is_pulled_as_it_is_pushed(anatomy):
    chain = secants(anatomy, batch())
    assert len(chain.blocks) == 5 and chain.last.shape == (10, 64)
    for block, before, after in zip(chain.blocks, chain.states[:-1], chain.states[1:], strict=True):
        assert apart(block.push(before[None], True)[0], after) < 2e-6
    generator = torch.Generator().manual_seed(0)
    vectors, covectors = (torch.randn(2, 10, 64, generator=generator).double() for _ in range(2))
    for start, end in ((0, None), (1, 4), (3, 5)):
        forwards = (covectors * chain.push(vectors, start, end)).sum(dim=(1, 2))
        backwards = (chain.pull(covectors, end, start) * vectors).sum(dim=(1, 2))
        assert torch.allclose(forwards, backwards, rtol=1e-9)
    pieces = chain.push(chain.push(vectors, 0, 3), 3, None)
    assert torch.allclose(chain.push(vectors), pieces)


def test_blocks_that_are_made_again_are_the_same(anatomy):
    every, some = (list(BackwardsOfBoth.of(anatomy, batch(), kept)) for kept in (5, 1))
    vectors = torch.randn(1, 10, 64, generator=torch.Generator().manual_seed(0)).double()
    for (block, states), (again, same) in zip(every, some, strict=True):
        assert torch.equal(block.push(vectors, True), again.push(vectors, True)) and torch.equal(states, same)


@pytest.mark.parametrize("name", DISTINCT)
def test_contributions_are_those_of_jacrev_through_the_models_own_code(name):
    anatomy, given = locate(build(name).double()), batch(5, 3)
    expected = torch.linalg.matrix_norm(derivative(anatomy, given))
    asked = {"layers": [anatomy.chained], "targets": [5, 6, 7]}
    found = jacobian(anatomy, given, mode="exact", **asked)
    torch.testing.assert_close(found.norms[0], expected, rtol=1e-5, atol=1e-7)
    shares = found.contribution[0]
    assert torch.allclose(shares.sum(-1), torch.ones(3, dtype=shares.dtype)) and (shares[:, :5].sum(-1) > 0.01).all()
    assert not found.norms[0, 0, 6:].any(), "the decoder's first token knows nothing of later ones"
    pushed = jacobian(anatomy, given, mode="exact", layers=range(1, anatomy.chained + 1))
    torch.testing.assert_close(pushed.norms[-1, 5:], expected, rtol=1e-5, atol=1e-7)


def test_gradients_of_sums_and_of_one_block_are_those_of_autograd():
    anatomy, given = locate(build("bart").double()), batch(5, 3)
    expected = derivative(anatomy, given).sum(dim=2).norm(dim=-1)
    found = gradient(anatomy, given, layers=[anatomy.chained], targets=[5, 6, 7]).norms[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    with linearised(anatomy, given) as chain:
        step = chain.steps[-1]
        own = torch.func.jacrev(step.block)(step.states).transpose(1, 2)
    local = jacobian_local(anatomy, given, layers=[anatomy.chained], targets=[5, 6, 7]).norms[0]
    torch.testing.assert_close(local, torch.linalg.matrix_norm(own)[5:], rtol=1e-5, atol=1e-7)


def test_vectors_of_all_tokens_and_the_bias_add_up_to_the_states(anatomy):
    found, chain = decomposition(anatomy, batch()), secants(anatomy, batch())
    assert torch.allclose(found.signed.sum(-1) + found.bias_signed, torch.ones(5, 10).double(), atol=1e-6)
    for source in (0, 7):  # one of either text, by itself
        alone = torch.zeros_like(chain.states[0])
        alone[source] = chain.states[0][source]
        assert torch.allclose(found.length[-1, :, source], chain.push(alone[None])[0].norm(dim=-1))
    assert not found.length[-1, :6, 6:].any(), "the encoder does not see the decoder's text"
