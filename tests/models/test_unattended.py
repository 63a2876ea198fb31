"""Models of which some blocks attend, or none, as state-space models: their states are followed all the same."""

import pytest
import torch
from torch import nn

import whence
from tests import tiny
from tests.families import UNATTENDED, batch, build
from tests.measures.reference import derivatives
from whence.errors import Unsupported
from whence.measures.jacobian import jacobian, jacobian_local
from whence.models.capture import trace
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.models.sizes import Sizes
from whence.models.verify import capabilities, verify
from whence.web.limits import Limits
from whence.web.service import Service

TEXT = "ada bo cy dee ed fay ."


@pytest.fixture(params=UNATTENDED)
def anatomy(request):
    return locate(build(request.param))


def test_states_can_be_followed(anatomy):
    assert not anatomy.attends and anatomy.causal
    assert capabilities(verify(anatomy)) - {"left padding"} == {"derivatives"}


def test_states_are_those_the_model_hands_out(anatomy):
    given = batch([7])
    seen = trace(anatomy, given, logits=True)
    with torch.no_grad():
        theirs = anatomy.model(input_ids=given.ids, output_hidden_states=True, use_cache=False)
    assert torch.allclose(seen.logits, theirs.logits, atol=1e-5 * float(theirs.logits.abs().max()))
    for block in seen.blocks[:-1]:  # the last is handed out past the final norm
        assert any(torch.allclose(block.output, states, atol=1e-4) for states in theirs.hidden_states)
    assert all(block.attention.shape == (1, 0, 7, 7) for block in seen.blocks)


def test_the_jacobian_is_that_of_jacrev(anatomy):
    given = batch([4])
    with linearised(anatomy, given) as chain:
        _, blocks = derivatives(chain, 3)
    expected = torch.linalg.matrix_norm(blocks)
    found = jacobian(anatomy, given, mode="exact", layers=[1, 2, 3]).norms
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-5 * float(expected.max()))
    torch.testing.assert_close(jacobian_local(anatomy, given, layers=[1]).norms, found[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mamba", "qwen3_next"])
def test_contributions_are_measured_and_attention_is_refused(name):
    model = tiny.model(name)
    found = whence.measure(model, TEXT, ["contribution", "origin", "gradient"])
    shares = found.contribution.values
    assert abs(shares.sum(axis=-1) - 1).max() < 1e-5
    assert not shares[:, 0, 1:].any()  # nothing comes from the future
    with pytest.raises(Unsupported, match=f"'attention' needs attention, which the family '{name}' does not give"):
        whence.measure(model, TEXT, "attention")
    with pytest.raises(Unsupported, match="head"):
        whence.head(model, TEXT)
    with pytest.raises(Unsupported, match="Another attention needs attention, rows, values"):
        whence.alternative(model, TEXT, 1, 0)


def test_tokens_are_identified_without_attention():
    found = whence.identify(tiny.model("mamba"), tiny.texts(30), "linear", layers=[1, 3], folds=3)
    assert set(found.layer.values) == {1, 3}


def test_the_explorer_shows_what_there_is():
    service = Service({"mamba": tiny.model("mamba")}, Limits())
    service.warm()
    assert "contribution" in service.about()["models"][0]["measures"]


class _Growing(nn.Module):
    def forward(self, states):
        return (states[:, :, None] * states[:, None]).sum(dim=1)


def test_the_largest_tensor_is_seen():
    with Sizes() as sizes:
        _Growing()(torch.randn(5, 7, 3)).transpose(0, 1)
    assert sizes.largest == 5 * 7 * 7 * 3 * 4


def test_memory_is_kept_to_where_a_block_makes_large_tensors():
    """Mamba 2 pads every sentence to its chunk, so a tangent takes far more than its states."""
    anatomy, given = locate(build("mamba2", chunk_size=64)), batch([5])
    with linearised(anatomy, given) as chain:
        assert chain.steps[0].largest > 20 * chain.states.numel() * 4
        sizes = []
        push = type(chain.steps[0]).push
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                type(chain.steps[0]), "push", lambda step, given: sizes.append(len(given)) or push(step, given)
            )
            small = jacobian(anatomy, given, mode="exact", layers=[1], memory=20 * chain.steps[0].largest).norms
    assert max(sizes) <= 2
    torch.testing.assert_close(small, jacobian(anatomy, given, mode="exact", layers=[1]).norms, rtol=1e-4, atol=1e-6)
