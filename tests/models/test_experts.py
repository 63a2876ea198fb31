"""Mixtures of experts: found by watching, summed to the module's own output, held as a linear map."""

import pytest
import torch

import whence
from tests import tiny
from tests.families import EXPERTS, UNREAD_EXPERTS, batch, build
from tests.sweep.shrink import models
from whence.errors import Unsupported
from whence.linear.secant import secants
from whence.linear.steps import Mixture
from whence.models import experts
from whence.models.capture import trace
from whence.models.experts import routes
from whence.models.locate import locate
from whence.models.verify import capabilities, verify
from whence.models.weights import Opaque

READ = [name for name in EXPERTS if name not in UNREAD_EXPERTS]


def fed(block):
    norm = block.parts.feed_forward_norms.before
    return block.middle[0] if norm is None else norm(block.middle[0])


@pytest.mark.parametrize("family", READ)
def test_the_experts_of_each_token_sum_to_the_modules_own_output(family):
    for block in trace(locate(build(family).double()), batch([9])).blocks:
        read, found = fed(block), routes(block.parts.feed_forward, fed(block))
        for token, expected in enumerate(block.parts.feed_forward(read)):
            own = [(each, (each.tokens == token).nonzero()) for each in found if token in each.tokens]
            total = sum(each.expert(read[token]) * each.factor[place[0, 0]] for each, place in own)
            assert torch.allclose(total, expected, atol=1e-8)
    if family == "mixtral":
        assert all(sum(token in each.tokens for each in found) == 2 for token in range(9))  # two experts per token


@pytest.mark.parametrize("family", sorted(UNREAD_EXPERTS))
def test_experts_laid_out_otherwise_are_not_taken_for_these(family):
    blocks = trace(locate(build(family)), batch([9])).blocks
    assert any(routes(block.parts.feed_forward, fed(block)) is None for block in blocks)


def test_a_module_that_does_more_than_its_experts_is_seen(monkeypatch):
    model = build("mixtral")
    monkeypatch.setattr(model.model.layers[1].mlp.experts, "act_fn", torch.nn.Tanh())
    anatomy = locate(model)
    block = trace(anatomy, batch([9])).blocks[1]
    assert routes(block.parts.feed_forward, fed(block)) is not None
    more = Opaque(torch.nn.Sequential(block.parts.feed_forward.module, torch.nn.Tanh()))
    assert routes(more, fed(block)) is None
    assert routes(Opaque(torch.nn.Linear(64, 64)), fed(block)) is None


def test_pulled_is_pushed_and_some_tokens_are_those_of_all():
    anatomy = locate(build("qwen2_moe").double())
    with torch.no_grad():
        chain = secants(anatomy, batch([9]))
        vectors, covectors = torch.randn(2, 3, *chain.last.shape, dtype=torch.float64)
        for block in chain.blocks:
            mixture = next(step for step in block.feed_forward.steps if isinstance(step, Mixture))
            through, back = mixture.push(vectors), mixture.pull(covectors)
            assert torch.allclose((through * covectors).sum(), (vectors * back).sum())
            assert torch.allclose(mixture.among(slice(4, 7)).push(vectors[:, 4:7]), through[:, 4:7])
        made = chain.blocks[0].push(chain.states[0][None], constants=True)[0]
        assert torch.allclose(made, chain.states[1], atol=1e-5)  # norms and softmax are in float32


def test_a_decomposition_of_experts_sums_to_the_states():
    model = whence.load(build("mixtral"), tiny.tokenizer())
    ds = whence.measure(model, "ada bo cy dee", "decomposition")
    total = ds.decomposition_signed.sum("source") + ds.decomposition_bias_signed
    assert abs(total.values - 1).max() < 1e-4


def test_a_text_at_which_they_do_not_add_up_is_refused(monkeypatch):
    model = whence.load(build("mixtral"), tiny.tokenizer())
    monkeypatch.setattr(experts, "CLOSE", -1.0)
    with pytest.raises(Unsupported, match="does not give what its experts give"):
        whence.why(model, "ada bo", measures="share")


def test_weights_that_do_not_fit_are_not_read():
    """Aria has the names of these experts and lays them out transposed."""
    _, model = next(iter(models("aria_text")))
    given = capabilities(verify(locate(model)))
    assert "secant" not in given and "norms" in given
