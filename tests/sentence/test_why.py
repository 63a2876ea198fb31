"""Why this token: parts that add up, derivatives that are the model's own, and clear refusals."""

import pytest
import torch

import whence
from tests import tiny
from tests.families import DISTINCT, NO_VALUE_MAP, build
from whence.errors import BadInput, Unsupported, VerificationFailed
from whence.linear import secant
from whence.linear.secant import secants
from whence.measures.flow.readout import Readout, of_tokens
from whence.measures.registry import SECANT
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
    parts = of_tokens(model.anatomy, [0], 1).chain(0, chain.last[at][None], [5]).push(made[:, None])[:, 0, 0]
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


def test_on_a_real_chat(smollm2):
    """Every token of the answer, at every layer, and batched as alone."""
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ds = whence.why(smollm2, chat, generate=8, measures="share", spans="turn")
    size = abs(ds.share).sum("source") + abs(ds.bias)
    assert float((abs(ds.share.sum("source") + ds.bias - ds.logit) / size).max()) < 1e-4
    assert "Paris" in ds.attrs["answer"] and set(ds.span_text.values) == {"template", "user", "answer"}
    last = int(ds.predicted[-1])
    alone = whence.why(smollm2, ds.source_token_id.values[: last + 1], int(ds.predicted_token_id[-1]), measures="share")
    assert alone.share.values[0] == pytest.approx(ds.share.values[-1, :, : last + 1], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("family", [name for name in DISTINCT if name not in NO_VALUE_MAP])
def test_every_kind_of_block_adds_up(family, monkeypatch):
    """At every layer; in decoders for every token of an answer; and the same with every block run again."""
    model = whence.load(build(family), tiny.tokenizer())
    if not model.gives >= SECANT | {"lm_head"} or model.anatomy.side_paths:
        with pytest.raises(Unsupported):
            whence.why(model, TEXT, position=2, measures="share")
        return
    asked = {"answer": " ed fay"} if model.anatomy.causal else {"position": [2, 4]}
    ds = whence.why(model, TEXT, measures="share", **asked)
    size = abs(ds.share).sum("source") + abs(ds.bias)
    assert float((abs(ds.share.sum("source") + ds.bias - ds.logit) / size).max()) < 1e-4
    monkeypatch.setattr("whence.measures.flow.plan.MEMORY", 1)
    again = whence.why(model, TEXT, measures="share", **asked)
    assert again.share.values == pytest.approx(ds.share.values, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"token": "ada bo"}, "is 2 tokens"),
        ({"token": 10**6}, "number of a token is a whole number of at most"),
        ({"against": True}, "number of a token is a whole number of at least 0"),
        ({"token": 7, "against": 7}, "is what is predicted itself; name another token"),
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
    experts = whence.load(build("gpt_oss"), tiny.tokenizer())
    with pytest.raises(Unsupported, match=r"'share' needs secant.*ask for 'dependence' alone"):
        whence.why(experts, TEXT)
    assert "share" not in whence.why(experts, TEXT, measures="dependence")


def test_a_model_without_a_head_is_refused():
    encoder = whence.load(build("bert").bert, tiny.tokenizer())
    with pytest.raises(Unsupported, match=r"no head that predicts; load the model as .*similar_to="):
        whence.why(encoder, TEXT, position=2)


def test_parts_that_do_not_add_up_are_refused(monkeypatch):
    real = secant.Branches.pull
    monkeypatch.setattr(secant.Branches, "pull", lambda *given: real(*given) * 1.02)
    with pytest.raises(VerificationFailed, match="do not add up to it"):
        whence.why(whence.load(build("llama"), tiny.tokenizer()), TEXT)


def test_a_head_that_is_not_the_models_is_refused(monkeypatch):
    """The parts are held against the head itself, not against the map they come from."""
    real = Readout._rows
    monkeypatch.setattr(Readout, "_rows", lambda head, tokens: real(head, [token + 1 for token in tokens]))
    with pytest.raises(VerificationFailed, match="do not add up to it"):
        whence.why(whence.load(build("llama"), tiny.tokenizer()), TEXT, token=5)


def sums(ds):
    """How far the parts are from the logit, at every layer."""
    return float(abs(ds.share.sum("source") + ds.bias - ds.logit).max())


@pytest.fixture(scope="module")
def decoder():
    return whence.load(build("llama"), tiny.tokenizer())


def test_every_token_of_an_answer_is_explained_from_one_pass(decoder):
    ds = whence.why(decoder, "ada bo cy", answer=" dee ed fay")
    assert ds.predicted_token.values.tolist() == ["dee", "ed", "fay"] and ds.attrs["answer"] == "dee ed fay"
    assert ds.source_token.values.tolist() == ["[CLS]", "ada", "bo", "cy", "dee", "ed", "fay"]  # and no [SEP] between
    assert ds.source_is_answer.values.tolist() == [False] * 4 + [True] * 3
    assert sums(ds) < 1e-4
    for place, token in zip((3, 4, 5), ("dee", "ed", "fay"), strict=True):
        alone = whence.why(decoder, ds.source_token_id.values[: place + 1], token=token)
        own = ds.sel(predicted=place).isel(source=slice(place + 1))
        for name in ("share", "dependence", "bias", "logit", "probability"):
            assert alone[name].values[0] == pytest.approx(own[name].values, rel=1e-4, abs=1e-6)
        assert not ds.share.sel(predicted=place, source=slice(place + 1, None)).any()


def test_a_generated_answer_is_the_same_as_its_ids_given(decoder):
    generated = whence.why(decoder, TEXT, generate=4)
    count = int(generated.source_is_answer.sum())
    assert 1 <= count <= 4 and (generated.place == 1).all()
    given = whence.why(decoder, TEXT, answer=generated.source_token_id.values[-count:].tolist())
    for name in ("share", "dependence", "logit"):
        assert (given[name].values == generated[name].values).all()


def test_sampling_depends_on_its_seed_alone(decoder):
    first, again, other = (whence.why(decoder, TEXT, generate=8, seed=seed) for seed in (1, 1, 2))
    assert first.source_token_id.values.tolist() == again.source_token_id.values.tolist()
    assert first.source_token_id.values.tolist() != other.source_token_id.values.tolist()


def test_an_answer_as_one_is_the_sum_of_its_tokens(decoder):
    whole, each = (whence.why(decoder, TEXT, answer=" ada bo", together=together) for together in (True, False))
    assert whole.sizes["predicted"] == 1 and sums(whole) < 1e-4
    assert whole.share.values[0] == pytest.approx(each.share.sum("predicted").values, abs=1e-5)
    assert float(whole.probability[0]) == pytest.approx(float(each.probability.prod()), rel=1e-4)
    assert whole.predicted_token.item() == "ada bo"


def test_the_best_tokens_are_named(decoder):
    ds = whence.why(decoder, TEXT, alternatives=3)
    assert ds.alternative_probability.dims == ("predicted", "alternative") and ds.sizes["alternative"] == 3
    assert ds.alternative_token_id[0, 0] == ds.predicted_token_id[0]
    assert ds.alternative_probability[0, 0] == ds.probability[0]
    assert (ds.alternative_probability.diff("alternative") <= 0).all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma2", "gpt_neox", "granite", "xlnet"])
def test_components_add_up_to_the_logit_in_every_block(family):
    model = whence.load(build(family), tiny.tokenizer())
    ds = whence.why(model, TEXT, position=3, components=True, measures="share")
    total = ds.component_share.sum(["component", "source"]) + ds.component_bias
    assert abs(total.values - ds.logit.values[:, None]).max() < 1e-4 * max(1, float(abs(ds.component_share).max()))
    assert ds.component.values.tolist()[0] == "residual" and ds.component.values.tolist()[-1] == "feed-forward"
    assert ds.sizes["component"] == model.anatomy.heads + 2


def test_a_heads_part_is_what_the_logit_loses_without_it():
    """In the last block the way from a head to the logit is linear but for the feed-forward, here taken out."""
    model = build("llama")
    for parameter in model.model.layers[-1].mlp.parameters():
        torch.nn.init.zeros_(parameter)
    loaded = whence.load(model, tiny.tokenizer())
    ds = whence.why(loaded, TEXT, token=9, components=True, measures="share")
    chain = secants(loaded.anatomy, encode(loaded.anatomy, loaded.tokenizer, sentence(TEXT)).batch)
    at, weight = int(ds.predicted[0]), model.model.layers[-1].self_attn.o_proj.weight
    row = of_tokens(loaded.anatomy, [0], 1).chain(0, chain.last[at][None], [9]).pull(torch.ones(1, 1, 1))[0, 0]
    read = chain.blocks[-1].attention.steps[0].push(chain.states[-2][None], True)
    values = chain.blocks[-1].attention.steps[1].values(read)[0]
    head, width = 1, weight.shape[1] // loaded.anatomy.heads
    group = head // (loaded.anatomy.heads // (values.shape[1] // width))
    written = values[:, group * width : (group + 1) * width] @ weight[:, head * width : (head + 1) * width].T
    attention = whence.measure(loaded, TEXT, "attention").attention.values[-1, head, at]
    expected = (written @ row).detach().numpy() * attention
    found = ds.component_share.sel(component=f"head {head}").isel(predicted=0, block=-1).values
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_what_does_not_fit_is_computed_again(decoder, monkeypatch):
    """With room for one block and one prediction at a time the numbers are the same."""
    roomy = whence.why(decoder, TEXT, answer=" ada bo cy", components=True)
    monkeypatch.setattr("whence.measures.flow.plan.MEMORY", 1)
    narrow = whence.why(decoder, TEXT, answer=" ada bo cy", components=True)
    for name in ("share", "dependence", "bias", "component_share"):
        assert narrow[name].values == pytest.approx(roomy[name].values, rel=1e-4, abs=1e-6)
    with pytest.raises(BadInput, match=r"tokens need .* explain fewer tokens at a time"):
        whence.why(decoder, TEXT, memory_limit=1000)


def test_progress_goes_forward_to_its_end(decoder):
    seen = []
    whence.why(decoder, TEXT, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen}) and seen[-1][0] == seen[-1][1]


def test_hops_hand_on_what_rests_on_the_answer(decoder):
    ds = whence.why(decoder, TEXT, answer=" ada bo cy", through="generated", measures="share")
    first = int(ds.source_is_answer.values.argmax())
    sizes = abs(ds.share.isel(layer=0).values)
    rows = sizes / sizes.sum(axis=1, keepdims=True)
    # (I - G)^-1 P by plain linear algebra
    among = rows[:, first : first + 3]
    expected = torch.linalg.solve(torch.eye(3) - torch.tensor(among), torch.tensor(rows[:, :first])).numpy()
    assert ds.carried.values[:, :first] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert not ds.carried.values[:, first:].any()
    assert ds.carried.sum("source").values == pytest.approx(1.0, rel=1e-4)
    assert ds.carried_through.values == pytest.approx(among.sum(axis=1), rel=1e-4, abs=1e-6)
    assert ds.carried_through.values[0] == 0 and (ds.carried_through.values[1:] > 0).all()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"answer": "  "}, "answer is empty"),
        ({"answer": []}, "answer is empty"),
        ({"answer": [{"role": "user", "content": "ada"}]}, "a text or token ids, and a chat"),
        ({"answer": [10**6]}, "the ids have 1,000,000"),
        ({"answer": "ada", "generate": 2}, "ask for one of them"),
        ({"answer": "ada", "position": 2}, r"goes without position="),
        ({"generate": 2, "token": 5}, r"goes without token="),
        ({"generate": -1}, "whole number of at least 0"),
        ({"generate": 10**4}, "10,000 tokens more are 10,007, and the model takes at most 64"),
        ({"through": "all", "answer": "ada"}, "through 'generated' tokens"),
        ({"through": "generated"}, r"ask for an answer \(answer=, generate=\)"),
        ({"spans": "chapter"}, "there are: word, line, sentence, paragraph, turn"),
        ({"spans": "turn"}, "Spans by turn are of a chat"),
        ({"spans": [(0, 999)]}, r"\(start, end\) of the text's 18 characters"),
        ({"spans": [(0, 5), (3, 8)]}, "overlaps another"),
        ({"components": True, "measures": "dependence"}, "ask for 'share' as well"),
        ({"token": "\ud800"}, "not UTF-8: character 0 is half of a surrogate pair"),
        ({"label": 0}, "goes without label="),
    ],
)
def test_answers_that_cannot_be_are_refused(decoder, asked, said):
    with pytest.raises(BadInput, match=said):
        whence.why(decoder, TEXT, **asked)


def test_a_masked_model_gives_no_answer(builtin):
    with pytest.raises(BadInput, match=r"put \[MASK\] where it is to predict"):
        whence.why(builtin, "Paris is", answer=" nice")
