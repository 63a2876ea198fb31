"""Why this class, and why two texts are similar: parts that add up to the model's own score, read where it reads."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

import whence
from tests import tiny
from tests.families import EVERY, MASKED, scatter
from whence.cli.why_json import record
from whence.errors import BadInput, Unsupported
from whence.models.embedding import pooling_of
from whence.models.encode import encode
from whence.page.why import payload
from whence.plot.terminal_why import picture
from whence.plot.why import explained
from whence.text.sentence import sentence

TEXT = "ada bo cy dee ed ."
SEQUENCE, TOKENS = AutoModelForSequenceClassification, AutoModelForTokenClassification
# one for each way to read a class, and those that are used most
READ = ["bert", "roberta", "xlm-roberta", "electra", "albert", "distilbert", "modernbert", "deberta", "deberta-v2"]
READ += ["mpnet", "esm", "xlnet", "nomic_bert", "gpt2", "opt-350m", "llama", "gemma2", "gpt_neox", "qwen3", "mixtral"]
READ += ["modernbert-decoder"]


def classifier(family, kind=SEQUENCE, **more):
    name, settings = EVERY[family]
    torch.manual_seed(0)
    return scatter(kind.from_config(AutoConfig.for_model(name, **({"num_labels": 3} | settings | more)))).eval()


def loaded(family, kind=SEQUENCE, **more):
    return whence.load(classifier(family, kind, **more), tiny.tokenizer())


def scores(model, text=TEXT):
    """The model's own, by its own forward."""
    encoded = encode(model.anatomy, model.tokenizer, sentence(text))
    with torch.no_grad():
        return model.model(input_ids=encoded.batch.ids).logits[0]


def far(ds):
    size = abs(ds.share).sum("source") + abs(ds.bias)
    return float((abs(ds.share.sum("source") + ds.bias - ds.logit) / size).max())


@pytest.mark.parametrize("family", READ)
def test_parts_add_up_to_the_score_of_a_class(family):
    model = loaded(family)
    ds = whence.why(model, TEXT, measures="share")
    own = scores(model)
    assert ds.logit.item() == pytest.approx(float(own.max()), rel=1e-4, abs=1e-5)
    assert ds.probability.item() == pytest.approx(float(own.softmax(-1).max()), rel=1e-4)
    assert ds.predicted_token_id.item() == int(own.argmax()) and far(ds) < 1e-4
    assert ds.predicted_token.item() == f"LABEL_{int(own.argmax())}"
    last = abs(ds.share.isel(predicted=0, layer=-1)).values
    assert last.argmax() == ds.predicted.item() and (np.delete(last, ds.predicted.item()) == 0).all()


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert", "llama", "gpt2", "xlnet"])
def test_every_token_has_a_class(family):
    model = loaded(family, TOKENS)
    ds = whence.why(model, TEXT, measures="share")
    own = scores(model)
    special = [place for place, flag in enumerate(ds.source_is_special.values) if flag]
    assert ds.predicted.values.tolist() == [place for place in range(len(own)) if place not in special]
    best = own.max(dim=-1).values[ds.predicted.values.tolist()]
    assert ds.logit.values == pytest.approx(best.numpy(), rel=1e-4, abs=1e-5)
    assert far(ds) < 1e-4
    alone = whence.why(model, TEXT, position=2, label="LABEL_1", measures="share")
    assert alone.logit.item() == pytest.approx(float(own[2, 1]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("family", "kind"),  # decoders read the class of a token like that of a text, without a choice of the token
    [(name, SEQUENCE) for name in EVERY if name not in READ] + [(name, TOKENS) for name in sorted(MASKED - {*READ})],
)
def test_the_head_of_every_family_is_read(family, kind):
    """By the check at loading, against the model's own scores."""
    try:
        model = loaded(family, kind)
    except ValueError:
        pytest.skip(f"transformers has no such classifier of {family}")
    late = family == "eurobert" and kind is SEQUENCE  # a mean of scores, unless configured otherwise
    assert ("classes" in model.gives) != late


@pytest.mark.parametrize(("family", "pooling"), [("modernbert", "mean"), ("eurobert", "mean"), ("eurobert", "bos")])
def test_the_configuration_says_what_is_pooled(family, pooling):
    model = loaded(family, classifier_pooling=pooling)
    ds = whence.why(model, TEXT, label=1)
    assert ds.logit.item() == pytest.approx(float(scores(model)[1]), rel=1e-4, abs=1e-5) and far(ds) < 1e-4
    assert ds.predicted.item() == (-1 if pooling == "mean" else 0)


def test_a_decoder_reads_the_last_token_that_is_not_its_padding():
    """transformers compares ids: a text may end in the padding token."""
    model = loaded("llama", pad_token_id=9)
    ids = [2, 7, 8, 10, 9, 9]
    ds = whence.why(model, ids, label=0)
    with torch.no_grad():
        own = model.model(input_ids=torch.tensor([ids])).logits[0, 0]
    assert ds.logit.item() == pytest.approx(float(own), rel=1e-4) and ds.predicted.item() == 3


@pytest.mark.parametrize(("family", "kind"), [("bert", SEQUENCE), ("llama", SEQUENCE), ("modernbert", TOKENS)])
def test_dependence_is_autograds(family, kind):
    """The length of d log p / d h^0_j, differentiated through the whole model at once."""
    model = loaded(family, kind)
    ds = whence.why(model, TEXT, label=1, measures="dependence", **({} if kind is SEQUENCE else {"position": 3}))

    def log_probability(ids):
        logs = model.model(input_ids=ids).logits.log_softmax(-1)
        return logs[0, 1] if kind is SEQUENCE else logs[0, 3, 1]

    assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(
        gradient(model, TEXT, log_probability), rel=1e-3, abs=1e-7
    )


def gradient(model, text, value):
    """Lengths of the derivative of value(ids) by every token's input to the first block."""
    seen = []

    def start(block, args, kwargs):
        seen.append((args[0] if args else kwargs["hidden_states"]).detach().requires_grad_())
        return ((seen[0], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": seen[0]})

    handle = model.anatomy.blocks[0].register_forward_pre_hook(start, with_kwargs=True)
    value(encode(model.anatomy, model.tokenizer, sentence(text)).batch.ids).backward()
    handle.remove()
    return seen[0].grad[0].norm(dim=-1).numpy()


def test_one_class_against_another_is_the_difference():
    model = loaded("roberta", id2label={0: "bad", 1: "fair", 2: "good"}, label2id={"bad": 0, "fair": 1, "good": 2})
    one, other, both = (
        whence.why(model, TEXT, **asked)
        for asked in ({"label": "good"}, {"label": 0}, {"label": "good", "against": "bad"})
    )
    for name in ("logit", "share", "bias"):
        assert both[name].values == pytest.approx((one[name] - other[name]).values, abs=1e-5)
    assert both.against_token.item() == "bad" and both.predicted_token.item() == "good"
    assert one.alternative_token.values.ravel().tolist()[0] == whence.why(model, TEXT).predicted_token.item()


def test_a_reranker_has_one_score_of_a_pair():
    model = loaded("bert", num_labels=1)
    ds = whence.why(model, ("ada bo", "cy dee ed"), spans="sentence")
    encoded = encode(model.anatomy, model.tokenizer, sentence(("ada bo", "cy dee ed")))
    with torch.no_grad():
        own = model.model(input_ids=encoded.batch.ids, token_type_ids=encoded.batch.segments).logits.item()
    assert ds.logit.item() == pytest.approx(own, rel=1e-4) and far(ds) < 1e-4
    assert ds.probability.item() == pytest.approx(1 / (1 + np.exp(-own)), rel=1e-4)
    assert {"ada bo", "cy dee ed"} <= set(ds.span_text.values) and "alternative_token" not in ds
    finding = explained(ds)[0].finding
    assert finding.startswith("“LABEL_0” is scored")


def test_what_has_no_probability_is_given_none():
    """Of a regression; dependence is then the derivative of the score."""
    model = loaded("distilbert", num_labels=1, problem_type="regression")
    ds = whence.why(model, TEXT)
    assert "probability" not in ds
    expected = gradient(model, TEXT, lambda ids: model.model(input_ids=ids).logits[0, 0])
    assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(expected, rel=1e-3, abs=1e-7)
    assert "scored" in explained(ds)[0].finding and "%" not in explained(ds)[0].title


def test_classes_that_may_hold_at_once_have_each_a_probability():
    model = loaded("bert", problem_type="multi_label_classification")
    ds = whence.why(model, TEXT, label=2)
    assert ds.probability.item() == pytest.approx(float(scores(model)[2].sigmoid()), rel=1e-4)


@pytest.mark.parametrize("asked", [{}, {"against": "LABEL_0", "label": "LABEL_2"}], ids=["alone", "against"])
def test_it_is_told_of_a_class(asked):
    model = loaded("bert")
    ds = whence.why(model, TEXT, spans="word", **asked)
    told = str(picture(ds, [0], 80, False))
    assert "Best classes: " in told and "logit" not in told
    assert payload(ds)["words"]["logit"] == "the score of {token}"
    assert record(ds)["predicts"] == "class"
    json.dumps(record(ds), allow_nan=False)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"label": "LABEL_9"}, "no class 'LABEL_9'; there are: LABEL_0, LABEL_1, LABEL_2"),
        ({"label": 3}, "number of a class is a whole number of at most 2"),
        ({"label": 1, "against": 1}, "'LABEL_1' is what is predicted itself; name another class"),
        ({"token": 0}, "says classes; name one with label=, so it goes without token="),
        ({"position": 0}, "A class is of the whole text"),
        ({"generate": 3}, "goes without generate="),
    ],
)
def test_what_cannot_be_asked_of_a_classifier_is_refused(asked, said):
    with pytest.raises(BadInput, match=said):
        whence.why(loaded("bert"), TEXT, **asked)


def test_a_label_is_not_asked_of_a_decoder():
    with pytest.raises(BadInput, match="predicts tokens; name one with token="):
        whence.why(tiny.model("llama"), TEXT, label="good")


def test_a_head_that_is_not_the_models_is_noticed():
    """Everything else is measured; its classes are not explained."""

    class Other(type(classifier("bert"))):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = output.logits * 1.01
            return output

    network = classifier("bert")
    network.__class__ = type("OtherForSequenceClassification", (Other,), {})
    model = whence.load(network, tiny.tokenizer())
    assert "norms" in model.gives and "classes" not in model.gives
    with pytest.raises(Unsupported, match="How OtherForSequenceClassification scores its classes is not known"):
        whence.why(model, TEXT)


# How similar two texts are

ONE, OTHER = "A man is eating food.", "Someone has a meal."


def vector(model, text):
    """The mean of the last states, by the model's own forward."""
    encoded = encode(model.anatomy, model.tokenizer, sentence(text))
    with torch.no_grad():
        return model.model(input_ids=encoded.batch.ids).last_hidden_state[0]


def test_the_parts_of_a_similarity_add_up_to_the_cosine(minilm):
    ds, back = whence.why(minilm, ONE, similar_to=OTHER), whence.why(minilm, OTHER, similar_to=ONE)
    one, other = vector(minilm, ONE), vector(minilm, OTHER).mean(dim=0)
    cosine = torch.cosine_similarity(one.mean(dim=0), other, dim=0)
    for found in (ds, back):
        assert found.logit.item() == pytest.approx(float(cosine), rel=1e-5)
        assert abs(found.share.sum("source") + found.bias - found.logit).max() < 1e-5
    parts = one @ other / (len(one) * one.mean(dim=0).norm() * other.norm())
    assert ds.share.isel(predicted=0, layer=-1).values == pytest.approx(parts.numpy(), rel=1e-4, abs=1e-6)
    best = ds.share.isel(predicted=0, layer=0).values.argsort()[-2:]
    assert set(ds.source_token.values[best]) == {"eating", "food"}


def test_the_dependence_of_a_similarity_is_autograds(minilm):
    ds = whence.why(minilm, ONE, similar_to=OTHER, measures="dependence")
    other = vector(minilm, OTHER).mean(dim=0)

    def cosine(ids):
        return torch.cosine_similarity(minilm.model(input_ids=ids).last_hidden_state[0].mean(dim=0), other, dim=0)

    assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(gradient(minilm, ONE, cosine), rel=1e-3)


@pytest.mark.parametrize(("family", "pooling"), [("llama", "last"), ("bert", "first"), ("gemma2", "mean")])
def test_any_model_makes_vectors(family, pooling):
    model = tiny.model(family)
    ds = whence.why(model, TEXT, similar_to="fay gus", pooling=pooling)
    place = {"last": -1, "first": 0}
    read = []
    for text in (TEXT, "fay gus"):
        ids = encode(model.anatomy, model.tokenizer, sentence(text)).batch.ids
        with torch.no_grad():
            states = model.model.base_model(input_ids=ids).last_hidden_state[0]
        read.append(states.mean(dim=0) if pooling == "mean" else states[place[pooling]])
    assert ds.logit.item() == pytest.approx(float(torch.cosine_similarity(*read, dim=0)), rel=1e-4, abs=1e-6)
    assert far(ds) < 1e-4


def test_it_is_told_of_a_similarity(minilm, tmp_path):
    ds = whence.why(minilm, ONE, similar_to=OTHER, spans="word")
    told = str(picture(ds, [0], 80, False))
    assert (
        told.startswith("The similarity to “Someone has a meal.” is 0.") and "Part of the similarity by token" in told
    )
    assert "logit" not in told and "%" not in told.split("Strongest")[0]
    page = payload(ds)
    assert page["words"]["logit"] == "the similarity to {token}" and page["predicted"][0]["chance"] == "0.68"
    assert whence.report(ds, tmp_path / "page.html").is_file()
    json.dumps(record(ds), allow_nan=False)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"similar_to": "bo"}, "is not said by its files; name it: pooling='mean'"),
        ({"similar_to": "bo", "pooling": "max"}, "no pooling 'max'; there are: first,"),
        ({"similar_to": "bo", "pooling": "mean", "against": 0}, "which is one number, so it goes without against="),
        ({"pooling": "mean", "position": 2}, "predicts tokens; name one with token=, so it goes without pooling="),
    ],
)
def test_what_cannot_be_asked_of_a_similarity_is_refused(asked, said):
    with pytest.raises(BadInput, match=said):
        whence.why(tiny.model("bert"), TEXT, **asked)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True}, "first"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode_max_tokens": True}, None),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, None),
    ],
)
def test_the_files_of_sentence_transformers_say_how_to_pool(settings, expected, tmp_path):
    model = _sentence_transformer(tmp_path, settings, ["Transformer", "Pooling", "Normalize"])
    if expected is not None:
        assert pooling_of(model) == expected
        return
    with pytest.raises(Unsupported, match="pools in a way that is no sum"):
        pooling_of(model)


def test_a_dense_layer_behind_the_pooling_is_refused(tmp_path):
    model = _sentence_transformer(tmp_path, {"pooling_mode_mean_tokens": True}, ["Transformer", "Pooling", "Dense"])
    with pytest.raises(Unsupported, match=r"a part of its own behind the pooling \(Dense\)"):
        whence.why(model, TEXT, similar_to="bo")


def _sentence_transformer(folder, settings, kinds):
    source = tiny.model("bert")
    source.model.save_pretrained(folder)
    source.tokenizer.save_pretrained(folder)
    kept = [
        {"path": f"{place}_{kind}", "type": f"sentence_transformers.models.{kind}"} for place, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(kept))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64} | settings))
    return whence.load(folder)
