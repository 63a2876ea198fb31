"""Rankings before the referee, against the same interventions made by hand with transformers alone."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from transformers import BertConfig, BertForSequenceClassification

import whence
from tests import tiny
from tests.families import build
from whence.corpus import rankings
from whence.corpus.referee import Setting, judged, referee
from whence.corpus.subjects import CLASS, HIDDEN, NEXT, PLANTED, prediction_of, prepared, tasks
from whence.errors import Unsupported
from whence.faithfulness.edits import EDITS
from whence.text.sentence import MASK, Sentence

TEXT = f"ada bo {MASK} cy dee ed fay gus hal ."


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def found(model):
    return referee(model, [Sentence(TEXT, id="a")], without=rankings.SLOW).isel(prediction=0)


def said(model, ids, position):
    with torch.no_grad():
        return model.model.eval()(torch.tensor([ids])).logits[0, position].log_softmax(dim=-1)


def without(model, ids, position, gone, edit, token):
    """The token's log-probability with these places taken away, by transformers alone."""
    if edit == "deletion":
        kept = [place for place in range(len(ids)) if place not in gone]
        return float(said(model, [ids[place] for place in kept], kept.index(position))[token])
    if edit == "mask token":
        return float(said(model, [4 if place in gone else each for place, each in enumerate(ids)], position)[token])
    table = model.model.get_input_embeddings().weight
    embeddings = table[torch.tensor([ids])].clone()
    embeddings[0, sorted(gone)] = table.mean(dim=0)
    with torch.no_grad():
        logits = model.model.eval()(inputs_embeds=embeddings).logits[0, position]
    return float(logits.log_softmax(dim=-1)[token])


def test_what_is_lost_is_what_transformers_loses(model, found):
    """The rankings by position and by the last layer's attention, with every edit, each share and each way round."""
    ids = model.tokenizer(TEXT)["input_ids"]
    position, candidates = ids.index(4), [place for place, each in enumerate(ids) if each not in (2, 3, 4)]
    whole = said(model, ids, position)
    token = int(whole.argmax())
    assert found.probability == pytest.approx(float(whole[token].exp()), rel=1e-4)
    assert (found.predicted, found.candidates, found.position) == (token, len(candidates), position)
    model.model.set_attn_implementation("eager")  # the fixture's model is no one else's
    attention = model.model.eval()(torch.tensor([ids]), output_attentions=True).attentions[-1][0]
    scores = {
        "attention, last layer": attention.detach().mean(dim=0)[position, candidates].tolist(),
        "position": [-abs(place - position) for place in candidates],
    }
    order = sorted(range(len(candidates)), key=lambda place: -scores["attention, last layer"][place])
    for edit in EDITS:
        alone = [float(whole[token]) - without(model, ids, position, {each}, edit, token) for each in candidates]
        for name, values in scores.items():
            agreement = spearmanr(values, alone).statistic
            assert found.agreement.sel(ranking=name, alone=edit) == pytest.approx(agreement, abs=1e-5)
        for share, count in ((0.1, 1), (0.2, 2), (0.5, 5)):
            first = {candidates[place] for place in order[:count]}
            for kind, gone in (("removed", first), ("kept", set(candidates) - first)):
                lost = float(whole[token]) - without(model, ids, position, gone, edit, token)
                cell = found[kind].sel(ranking="attention, last layer", edit=edit, share=share)
                assert cell == pytest.approx(lost, abs=2e-4), (kind, edit, share)


def test_values_that_are_zeroed_are_zeroed_in_the_models_own_layers(model, found):
    """By hooks on BERT's value projections, whose bias goes too; in all blocks, and in the second alone."""
    ids = model.tokenizer(TEXT)["input_ids"]
    position, candidates = ids.index(4), [place for place, each in enumerate(ids) if each not in (2, 3, 4)]
    whole = said(model, ids, position)
    token, layers = int(whole.argmax()), model.anatomy.layers
    near = [-abs(place - position) for place in candidates]
    attention = whence.measure(model, TEXT, "attention").attention.mean("head")

    def lost(place, blocks):
        def zero(module, args, output):
            return output.index_fill(1, torch.tensor([place]), 0)

        values = [model.model.bert.encoder.layer[block - 1].attention.self.value for block in blocks]
        handles = [value.register_forward_hook(zero) for value in values]
        try:
            return float(whole[token] - said(model, ids, position)[token])
        finally:
            for handle in handles:
                handle.remove()

    everywhere = [lost(place, range(1, layers + 1)) for place in candidates]
    agreement = found.agreement.sel(ranking="position", alone="values zeroed")
    assert agreement == pytest.approx(spearmanr(near, everywhere).statistic, abs=1e-5)
    second = [lost(place, [2]) for place in candidates]
    row = attention.sel(layer=2, target=position).values[candidates]
    assert found.zeroed.sel(variable="attention", block=2) == pytest.approx(spearmanr(row, second).statistic, abs=1e-5)


def test_scores_by_layer_are_those_of_the_measures(model, found):
    ids = model.tokenizer(TEXT)["input_ids"]
    position, candidates = ids.index(4), [place for place, each in enumerate(ids) if each not in (2, 3, 4)]
    whole = said(model, ids, position)
    token = int(whole.argmax())
    alone = [float(whole[token]) - without(model, ids, position, {each}, "deletion", token) for each in candidates]
    why = whence.why(model, TEXT)
    norms = whence.measure(model, TEXT, ["block", "rollout"])
    for name, layer, row in (
        ("share", 1, why.share.values[0, 1]),
        ("dependence", 0, why.dependence.values[0, 0]),
        ("block_n", 2, norms.norms.sel(analysis="block_n", layer=2, target=position).values),
        ("rollout_alti", 3, norms.rollout.sel(analysis="alti", layer=3, target=position).values),
    ):
        expected = spearmanr(row[candidates], alone).statistic
        assert found.layered.sel(variable=name, layer=layer) == pytest.approx(expected, abs=1e-5), name
    assert found.agreement.sel(ranking="share", alone="deletion") == pytest.approx(
        float(found.layered.sel(variable="share", layer=0))
    )


def test_gradient_times_input_is_the_logits_own():
    """By autograd through the model's input embeddings, in a decoder, whose layer 0 is nothing else."""
    model = whence.load(build("llama", pad_token_id=0), tiny.tokenizer())
    prediction = prediction_of(model, Sentence("ada bo cy dee ed fay gus"))
    ids = prediction.question.encoded.batch.ids
    embeddings = model.model.get_input_embeddings()(ids).detach().requires_grad_()
    logs = model.model.eval()(inputs_embeds=embeddings).logits[0, prediction.subject.position].log_softmax(dim=-1)
    token = int(logs.argmax())
    gradient = torch.autograd.grad(logs[token], embeddings)[0]
    scores = rankings.rankings(model, whence.corpus.referee.settled(model, prediction), 0, rankings.SLOW).judged
    product = (gradient * embeddings.detach()).sum(dim=-1)[0, list(prediction.subject.candidates)]
    assert scores["gradient × input"] == pytest.approx(product.numpy(), abs=1e-5)
    lengths = gradient.norm(dim=-1)[0, list(prediction.subject.candidates)]
    assert scores["dependence"] == pytest.approx(lengths.numpy(), rel=1e-4)


def test_a_decoder_is_judged_by_what_it_could_see():
    model = whence.load(build("llama", pad_token_id=0), tiny.tokenizer())
    assert tasks(model) == (NEXT, PLANTED)
    found = referee(model, prepared(model, NEXT, [Sentence(text) for text in tiny.texts(6)], 3), blocks=2)
    assert found.sizes["prediction"] >= 1 and found.sizes["block"] == 2
    assert found.removed.sel(edit="mask token").isnull().all() and found.removed.sel(edit="deletion").notnull().all()
    assert found.agreement.sel(alone="mask token").isnull().all()


def test_a_planted_fact_is_asked_for_and_only_what_stands_before_may_go(builtin):
    texts = [Sentence("The old cat slept on the mat all day. It rained in the little town.")]
    first, second = prepared(builtin, PLANTED, texts, 2)
    assert first == prepared(builtin, PLANTED, texts, 1)[0] and first.document != second.document
    prediction = prediction_of(builtin, first)
    tokens = prediction.question.encoded.tokens
    assert tokens[prediction.subject.position] == "[MASK]"
    assert builtin.tokenizer.decode([prediction.subject.token]) == first.labels["answer"].lower()
    shown = " ".join(tokens[place] for place in prediction.subject.candidates)
    assert shown.count("kept by") == 2 and "old cat" in shown and first.labels["answer"].lower() in shown
    assert max(prediction.subject.candidates) < len(tokens) - 11


def test_a_classifier_is_judged_by_its_class():
    config = BertConfig(
        vocab_size=19, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3
    )
    torch.manual_seed(0)
    model = whence.load(BertForSequenceClassification(config), tiny.tokenizer())
    text = "ada bo cy dee ed ."
    assert tasks(model) == (CLASS,) and "share" not in rankings.judged(model)
    found = referee(model, prepared(model, CLASS, [Sentence(text)], 1), without=rankings.SLOW).isel(prediction=0)
    ids = model.tokenizer(text)["input_ids"]
    logs = model.model.eval()(torch.tensor([ids])).logits[0].log_softmax(dim=-1).detach()
    label = int(logs.argmax())
    assert found.predicted == label and found.probability == pytest.approx(float(logs[label].exp()), rel=1e-5)
    alone = []
    for place in range(1, len(ids) - 1):
        left = torch.tensor([ids[:place] + ids[place + 1 :]])
        alone.append(float(logs[label] - model.model(left).logits[0].log_softmax(dim=-1)[label].detach()))
    near = [-place for place in range(1, len(ids) - 1)]
    expected = spearmanr(near, alone).statistic
    assert found.agreement.sel(ranking="position", alone="deletion") == pytest.approx(expected, abs=1e-5)


def test_what_cannot_be_judged_is_counted(model):
    found = referee(model, [Sentence(TEXT), Sentence(f"ada {MASK} .")], without=rankings.SLOW)
    assert found.sizes["prediction"] == 1 and "Only 2 tokens" in found.attrs["outcomes"]
    with pytest.raises(Unsupported, match="Only 2 tokens"):
        referee(model, [Sentence(f"ada {MASK} .")])


def test_a_referee_that_was_stopped_resumes(model, tmp_path, monkeypatch):
    texts = prepared(model, HIDDEN, [Sentence(text) for text in tiny.texts(20)], 3)
    options = {"out": tmp_path / "out", "part_size": 1, "without": rankings.SLOW, "blocks": 1}
    first = referee(model, texts, **options)
    monkeypatch.setattr("whence.corpus.referee.judged", lambda *_: pytest.fail("judged again"))
    assert referee(model, texts, **options).equals(first)


def test_one_after_the_other_is_the_same_as_together(model):
    """Rows are padded to one length; a prediction's numbers do not depend on which rows went with which."""
    prediction = prediction_of(model, Sentence(TEXT))
    setting = Setting.of(model, 1, rankings.SLOW)
    together = judged(model, setting, prediction, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.corpus.referee.TOKENS", 1)
        alone = judged(model, setting, prediction, 0)
    assert np.allclose(together["removed"], alone["removed"], atol=1e-5, equal_nan=True)
