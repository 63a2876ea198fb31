"""Why this token: parts that add up, derivatives that are the model's own, and clear refusals."""

import pytest
import torch

import whence
from tests import tiny
from tests.families import CONFIGS, build
from whence.errors import BadInput, Unsupported, VerificationFailed
from whence.linear import secant
from whence.linear.secant import head_at, secants
from whence.models.capture import trace
from whence.models.encode import encode
from whence.text.sentence import sentence

TEXT = "ada bo cy dee ed ."
EACH = ["bert", "albert", "modernbert", "gpt2", "opt-350m", "llama", "gemma2", "gpt_neox", "granite", "xlnet"]


@pytest.fixture(params=EACH)
def model(request):
    return whence.load(build(request.param), tiny.tokenizer())


def test_parts_add_up_to_the_models_own_logit_at_every_layer(model):
    ds = whence.why(model, TEXT, position=3).squeeze("predicted")
    batch = encode(model.anatomy, model.tokenizer, sentence(TEXT)).batch
    with torch.no_grad():
        logits = trace(model.anatomy, batch, logits=True).logits[0, 3]
    assert int(ds.predicted_token_id) == int(logits.argmax()) and int(ds.place) == 1
    assert float(ds.logit) == pytest.approx(float(logits.max()), rel=1e-4)
    assert float(ds.probability) == pytest.approx(float(logits.softmax(-1).max()), rel=1e-4)
    total = (ds.share.sum("source") + ds.bias).values
    assert total == pytest.approx(float(ds.logit), rel=1e-4, abs=1e-4)
    last = ds.share.isel(layer=-1).values
    assert last[3] and not last[[place for place in range(len(last)) if place != 3]].any()


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2"])
def test_dependence_is_autograds(family):
    """The length of d log p / d h^0_j, differentiated through the whole model at once."""
    model = build(family)
    loaded = whence.load(model, tiny.tokenizer())
    ds = whence.why(loaded, TEXT, token=7, position=4, measures="dependence")
    batch, seen = encode(loaded.anatomy, loaded.tokenizer, sentence(TEXT)).batch, []

    def start(block, args, kwargs):
        seen.append((args[0] if args else kwargs["hidden_states"]).detach().requires_grad_())
        return ((seen[0], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": seen[0]})

    handle = loaded.anatomy.blocks[0].register_forward_pre_hook(start, with_kwargs=True)
    model(input_ids=batch.ids).logits[0, 4].log_softmax(-1)[7].backward()
    handle.remove()
    expected = seen[0].grad[0].norm(dim=-1).numpy()
    assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(expected, rel=1e-3, abs=1e-7)


def test_pulled_is_pushed():
    """A source's part of the logit is the head's row times what the source's vector became."""
    model = whence.load(build("llama"), tiny.tokenizer())
    ds = whence.why(model, TEXT, token=5, measures="share")
    chain = secants(model.anatomy, encode(model.anatomy, model.tokenizer, sentence(TEXT)).batch)
    count = len(chain.last)
    start = torch.zeros(count, *chain.last.shape)
    start[range(count), range(count)] = chain.states[0]
    at = int(ds.predicted[0])
    made = chain.push(start)[:, at]
    parts = head_at(model.anatomy, chain.last[at][None], [5]).push(made[:, None])[:, 0, 0]
    assert ds.share.isel(predicted=0, layer=0).values == pytest.approx(parts.detach().numpy(), rel=1e-4, abs=1e-6)


def test_against_another_token_is_the_difference():
    model = whence.load(build("gemma2"), tiny.tokenizer())
    one, other, both = (
        whence.why(model, TEXT, **asked) for asked in ({"token": 5}, {"token": 9}, {"token": 5, "against": 9})
    )
    for name in ("logit", "share", "bias"):
        assert both[name].values == pytest.approx((one[name] - other[name]).values, abs=1e-5)
    assert both.against_token_id.item() == 9


def test_every_mask_is_a_prediction(builtin):
    ds = whence.why(builtin, "[MASK] is the capital of [MASK].")
    assert ds.share.dims == ("predicted", "layer", "source") and ds.sizes["predicted"] == 2
    assert ds.predicted.values.tolist() == [1, 6]
    assert float(abs(ds.share.sum("source") + ds.bias - ds.logit).max()) < 1e-3


def test_on_a_real_decoder(smollm2):
    ds = whence.why(smollm2, "The capital of France is", against=" London")
    assert ds.predicted_token.item() == "▁Paris"
    assert float(abs(ds.share.sum("source") + ds.bias - ds.logit).max()) < 1e-2
    best = ds.share.isel(predicted=0, layer=0)
    assert best.source_token[int(best.argmax("source"))].item() == "▁France"


def test_every_family_that_has_all_the_parts_adds_up():
    """Whatever is in the table, at its two ends and one layer between."""
    for family in list(CONFIGS)[::4]:
        ds = whence.why(whence.load(build(family), tiny.tokenizer()), TEXT, position=2).squeeze("predicted")
        assert (ds.share.sum("source") + ds.bias).values == pytest.approx(float(ds.logit), rel=1e-3, abs=1e-3), family


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"token": "ada bo"}, "is 2 tokens"),
        ({"token": 10**6}, "number of a token is a whole number of at most"),
        ({"against": True}, "number of a token is a whole number of at least 0"),
        ({"position": 99}, "positions 0 to"),
        ({"measures": "why"}, "there are: share, dependence"),
        ({"measures": []}, "there are: share, dependence"),
    ],
)
def test_what_cannot_be_is_refused(asked, said):
    model = whence.load(build("llama"), tiny.tokenizer())
    with pytest.raises(BadInput, match=said):
        whence.why(model, TEXT, **asked)


def test_what_a_model_cannot_give_is_refused():
    experts = whence.load(build("mixtral"), tiny.tokenizer())
    with pytest.raises(Unsupported, match=r"'share' needs neurons.*ask for 'dependence' alone"):
        whence.why(experts, TEXT)
    assert "share" not in whence.why(experts, TEXT, measures="dependence")


def test_parts_that_do_not_add_up_are_refused(monkeypatch):
    real = secant.Branches.pull
    monkeypatch.setattr(secant.Branches, "pull", lambda *given: real(*given) * 1.02)
    with pytest.raises(VerificationFailed, match="do not add up to it"):
        whence.why(whence.load(build("llama"), tiny.tokenizer()), TEXT)


def test_a_head_that_is_not_the_models_is_refused(monkeypatch):
    """The parts are held against the head itself, not against the map they come from."""
    real = secant._rows
    monkeypatch.setattr(secant, "_rows", lambda head, tokens: real(head, [token + 1 for token in tokens]))
    with pytest.raises(VerificationFailed, match="do not add up to it"):
        whence.why(whence.load(build("llama"), tiny.tokenizer()), TEXT, token=5)
