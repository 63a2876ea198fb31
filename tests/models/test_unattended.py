"""Models of which some blocks attend, or none, as state-space models: their states are followed all the same."""

import pytest
import torch
from torch import nn

import whence
from tests import tiny
from tests.families import UNATTENDED, batch, build
from tests.measures.reference import derivatives
from whence.errors import BadInput, Unsupported
from whence.measures.flow.contribution import jacobian, jacobian_local
from whence.models.capture import trace
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.models.sizes import Sizes
from whence.models.verify import capabilities, verify
from whence.page.payload import describe
from whence.web.limits import Limits
from whence.web.service import Service

TEXT = "ada bo cy dee ed fay ."


# the layers that attend, by the configuration
HYBRIDS = {
    "qwen3_next": (4,),
    "qwen3_5_text": (4,),
    "jamba": (2,),
    "recurrent_gemma": (3,),
    "lfm2": (2,),
    "granitemoehybrid": (2,),
}


@pytest.fixture(params=UNATTENDED)
def anatomy(request):
    return locate(build(request.param))


def test_states_can_be_followed(anatomy):
    assert anatomy.attending == HYBRIDS.get(anatomy.family, ()) and anatomy.causal
    gives = capabilities(verify(anatomy)) - {"left padding"}
    assert gives >= {"derivatives", "lm_head"} | ({"attention", "rows"} if anatomy.family in HYBRIDS else set())
    assert not gives & {"attention throughout", "norms"}


@pytest.mark.parametrize("name", ["mamba", "jamba", "qwen3_next"])
def test_a_prediction_depends_on_its_embeddings(name):
    """By autograd of the model's own code, from the log-probability of the next token to the embeddings."""
    model = tiny.model(name)
    found = whence.why(model, TEXT, measures="dependence")
    network, ids = model.model, torch.from_numpy(found.source_token_id.values)[None]
    embeddings = network.get_input_embeddings()(ids).detach().requires_grad_()
    scores = network(inputs_embeds=embeddings, use_cache=False).logits[0, int(found.predicted[0])]
    chosen = scores.log_softmax(dim=-1)[int(found.predicted_token_id[0])]
    expected = torch.autograd.grad(chosen, embeddings)[0][0].norm(dim=-1)
    torch.testing.assert_close(torch.from_numpy(found.dependence.values[0, 0]), expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", HYBRIDS)
def test_attention_is_what_the_model_hands_out(name):
    model, given = build(name), batch([7])
    seen = [block for block in trace(locate(model), given).blocks if block.attends]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = model(input_ids=given.ids, output_attentions=True, use_cache=False).attentions
    assert [block.layer for block in seen] == list(HYBRIDS[name])
    for block, expected in zip(seen, theirs, strict=True):
        torch.testing.assert_close(block.attention, expected)


def test_states_are_those_the_model_hands_out(anatomy):
    given = batch([7])
    seen = trace(anatomy, given, logits=True)
    with torch.no_grad():
        theirs = anatomy.model(input_ids=given.ids, output_hidden_states=True, use_cache=False)
    assert torch.allclose(seen.logits, theirs.logits, atol=1e-5 * float(theirs.logits.abs().max()))
    for block in seen.blocks[:-1]:  # the last is handed out past the final norm
        assert any(torch.allclose(block.output, states, atol=1e-4) for states in theirs.hidden_states)
    assert all(block.attends == (block.layer in anatomy.attending) for block in seen.blocks)


def test_the_jacobian_is_that_of_jacrev(anatomy):
    given = batch([4])
    with linearised(anatomy, given) as chain:
        _, blocks = derivatives(chain, 3)
    expected = torch.linalg.matrix_norm(blocks)
    found = jacobian(anatomy, given, mode="exact", layers=[1, 2, 3]).norms
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-5 * float(expected.max()))
    torch.testing.assert_close(jacobian_local(anatomy, given, layers=[1]).norms, found[:1], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def jamba():
    """Every second of four layers attends."""
    return tiny.model("jamba", num_hidden_layers=4)


@pytest.mark.parametrize("name", ["mamba", "qwen3_next"])
def test_contributions_are_measured(name):
    model = tiny.model(name)
    found = whence.measure(model, TEXT, ["contribution", "origin", "gradient"])
    shares = found.contribution.values
    assert abs(shares.sum(axis=-1) - 1).max() < 1e-5
    assert not shares[:, 0, 1:].any()  # nothing comes from the future


@pytest.mark.parametrize("name", HYBRIDS)
def test_the_last_stage_of_the_head_gives_the_logits(name):
    model = tiny.model(name)
    found = whence.lm_head(model, TEXT)
    ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
    logits = model.model(ids, use_cache=False).logits[0, int(found.position[0])]
    best = found.top_id.isel(layer=0, position=0, stage=-1).values
    assert best.tolist() == logits.topk(len(best)).indices.tolist()


def test_attention_is_refused_where_there_is_none():
    model = tiny.model("mamba")
    with pytest.raises(Unsupported, match="'attention' needs attention, which the family 'mamba' does not give"):
        whence.measure(model, TEXT, "attention")
    with pytest.raises(Unsupported, match="Another attention needs attention, rows, values"):
        whence.alternative_attention(model, TEXT, 1, 0)


def test_layers_that_do_not_attend_are_empty(jamba):
    found = whence.measure(jamba, TEXT, ["attention", "effective", "null", "value_rank", "contribution"])
    assert found.layer.values.tolist() == [1, 2, 3, 4]
    for name in ("attention", "effective", "null", "value_rank"):
        assert found[name].sel(layer=[1, 3]).isnull().all() and found[name].sel(layer=[2, 4]).notnull().all()
    assert found.contribution.notnull().all()
    assert abs(found.attention - found.effective - found.null).max() < 1e-5
    assert abs(found.attention.sel(layer=[2, 4]).sum("source") - 1).max() < 1e-5


def test_what_makes_no_sense_in_a_hybrid_is_said(jamba, tmp_path):
    with pytest.raises(BadInput, match="None of the layers asked for attends; 2, 4 do"):
        whence.measure(jamba, TEXT, "attention", layers=[1, 3])
    with pytest.raises(Unsupported, match="'rollout_attn_w' needs attention throughout"):
        whence.measure(jamba, TEXT, "rollout_attn_w")
    with pytest.raises(BadInput, match="Layer 1 does not attend; 2, 4 do"):
        whence.alternative_attention(jamba, TEXT, 1, 0)
    with pytest.raises(BadInput, match="'attention' is there in layers 2, 4 alone"):
        whence.run(jamba, tiny.texts(1), ["attention", "contribution"], tmp_path / "run")


def test_an_attention_of_a_hybrid_has_alternatives(jamba):
    found = whence.alternative_attention(jamba, 4 * TEXT, 2, 0, direction="unlike")
    assert found.attrs["change"] > 0.01 and found.attrs["logits_difference"] < 1e-4


def test_a_corpus_has_the_layers_that_attend(jamba, tmp_path):
    run = whence.open_run(whence.run(jamba, tiny.texts(4), ["attention"], tmp_path / "run"))
    assert set(run.tokens.layer) == {2, 4} and run.tokens.filter(like="attention_").notnull().all(axis=None)


def test_a_page_leaves_out_what_a_layer_does_not_have(jamba):
    both = whence.measure(jamba, TEXT, ["attention", "contribution"])
    assert describe(both)["absent"] == {"attention": [0, 2]} and "flow" in describe(both)["panels"]
    alone = describe(both[["attention"]])
    assert "flow" not in alone["panels"] and "heads" in alone["panels"]


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
