"""whence.cloze: ranks and correlations over a corpus, what is left out and why, and going on after a stop."""

import copy
import json

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from tokenizers.processors import TemplateProcessing

import whence
from tests.families import build
from whence.corpus import questions as asking
from whence.corpus.cloze import HITS, cloze
from whence.corpus.questions import question_of
from whence.errors import BadInput
from whence.text.sentence import Sentence

CLOZES = [
    ("Paris is the capital of [MASK].", "France"),
    ("She opened the [MASK] and went in.", "door"),
    ("The [MASK] of the [MASK] is blue.", "color"),
    ("He plays the [MASK].", "hurdy-gurdy"),
    ("There is no gap.", "gap"),
    ("[MASK] is a long sentence about very little, but it is a sentence all the same.", "This"),
    ("A [MASK] without an answer.", ""),
    ("The sign read [MASK].", "\u4dc0"),
]


def corpus(clozes=CLOZES):
    return [Sentence(text, id=str(number), labels={"answer": answer}) for number, (text, answer) in enumerate(clozes)]


@pytest.fixture(scope="module")
def found(builtin):
    return cloze(builtin, corpus())


def test_nothing_is_dropped_silently(found):
    outcomes = found.outcome.values.tolist()
    assert outcomes == [
        asking.SCORED,
        asking.SCORED,
        asking.FIRST,
        asking.NOT_ONE_TOKEN,
        asking.NO_MASK,
        asking.SCORED,
        asking.NO_ANSWER,
        asking.UNKNOWN,
    ]
    assert found.attrs["sentences"] == 8 and found.attrs["scored"] == 4
    assert json.loads(found.attrs["outcomes"])[asking.NOT_ONE_TOKEN] == 1
    scored = np.isfinite(found["place"].isel(stage=-1).values)
    assert scored.tolist() == [outcome in (asking.SCORED, asking.FIRST) for outcome in outcomes]
    asked = np.isfinite(found.spearman.values).all(axis=(1, 2))
    assert asked.tolist() == [outcome != asking.NO_MASK for outcome in outcomes]


def test_each_sentence_is_what_head_says_of_it(builtin, found):
    """Batched, padded and sorted by length against one at a time."""
    for place, (text, answer) in enumerate(CLOZES):
        if found.outcome.values[place] not in (asking.SCORED, asking.FIRST):
            continue
        one = whence.lm_head(builtin, text).isel(layer=0, position=0)
        assert np.allclose(found.spearman[place], one.spearman, atol=1e-5)
        assert np.allclose(found.pearson[place], one.pearson, atol=1e-5)
        token = builtin.tokenizer.convert_tokens_to_ids(answer.lower())
        scores = one.scores.values
        assert (
            found["place"][place].values.tolist() == (1 + (scores > scores[:, token : token + 1]).sum(axis=1)).tolist()
        )
        assert int(found.position[place]) == int(one.position)


def test_hits_are_counted_from_ranks(found):
    ranks = found["place"].values
    for k in (1, 7, HITS):
        assert found.hits.sel(k=k).values.tolist() == (ranks <= k).sum(axis=0).tolist()
    assert (np.diff(found.hits.values, axis=1) >= 0).all()


def test_parts_change_nothing(builtin, found):
    small = cloze(builtin, corpus(), part_size=3)
    assert np.array_equal(small["place"], found["place"], equal_nan=True)
    assert np.allclose(small.spearman, found.spearman, atol=1e-6, equal_nan=True)


def test_a_stopped_run_goes_on(builtin, found, tmp_path, monkeypatch):
    """The second call computes only what the first had not finished."""
    done = []

    def stop(count, total):
        done.append(count)
        if count == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cloze(builtin, corpus(), out=tmp_path / "run", part_size=3, progress=stop)
    assert done == [0, 3, 6]
    asked = []
    recorded = lambda model, given: asked.append(given.id) or question_of(model, given)  # noqa: E731
    monkeypatch.setattr("whence.corpus.cloze.question_of", recorded)
    again = cloze(builtin, corpus(), out=tmp_path / "run", part_size=3)
    assert asked == ["6", "7"]
    assert np.array_equal(again["place"], found["place"], equal_nan=True)
    assert again.outcome.values.tolist() == found.outcome.values.tolist()
    whole = cloze(builtin, corpus(), out=tmp_path / "run", part_size=3)
    assert asked == ["6", "7"] and whole.identical(again)


def test_what_is_counted_of_clozes_is_written(builtin, tmp_path):
    """Sentences, not tokens."""
    cloze(builtin, corpus(), out=tmp_path / "run", part_size=3)
    counted = json.loads((tmp_path / "run" / "manifest.json").read_text())["corpus"]
    assert (counted["sentences"], counted["tokens"], counted["skipped"], counted["parts"]) == (8, 0, 0, 3)


def test_a_damaged_part_is_done_again(builtin, found, tmp_path):
    cloze(builtin, corpus(), out=tmp_path / "run", part_size=4)
    part = next((tmp_path / "run").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])
    again = cloze(builtin, corpus(), out=tmp_path / "run", part_size=4)
    assert np.array_equal(again["place"], found["place"], equal_nan=True)


def test_another_corpus_or_model_does_not_go_on(builtin, tmp_path):
    cloze(builtin, corpus(), out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"Part 0 of .* was made from other sentences"):
        cloze(builtin, corpus()[1:], out=tmp_path / "run")
    other = whence.load(build("bert", vocab_size=30522), builtin.tokenizer)
    with pytest.raises(BadInput, match="begun with model"):
        cloze(other, corpus(), out=tmp_path / "run")


def test_an_empty_corpus(builtin):
    with pytest.raises(BadInput, match="empty"):
        cloze(builtin, [])


def test_parts_of_no_sentence_are_refused(builtin):
    with pytest.raises(BadInput, match="The part_size is a whole number of at least 1, and 0 was given"):
        cloze(builtin, corpus(), part_size=0)


def test_too_long(builtin):
    found = cloze(builtin, corpus([("word " * 600 + "[MASK].", "end"), CLOZES[0]]))
    assert found.outcome.values.tolist() == [asking.TOO_LONG, asking.SCORED]


def test_nothing_before_the_mask_is_not_called_too_long(builtin):
    """A decoder whose tokenizer adds nothing around the text, and a character that BERT's vocabulary drops."""
    bare = copy.deepcopy(builtin.tokenizer)
    bare.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    decoder = whence.load(build("llama", vocab_size=len(bare)), bare)
    assert question_of(decoder, corpus([("\u200b [MASK]", "door")])[0]) == (None, asking.NO_TOKEN)


def test_a_mask_in_the_second_text_of_a_pair(builtin):
    pair = Sentence("It rained.", "The [MASK] was wet.", labels={"answer": "road"})
    found, outcome = question_of(builtin, pair)
    assert outcome == asking.SCORED and found.answer == builtin.tokenizer.convert_tokens_to_ids("road")
    assert found.segments[found.position] == 1


def test_answers_of_a_table_are_its_labels(builtin, tmp_path):
    (tmp_path / "own.jsonl").write_text('{"text": "The sky is [MASK].", "answer": "blue"}\n')
    found = cloze(builtin, whence.read(tmp_path / "own.jsonl", label="answer"))
    assert found.attrs["scored"] == 1 and found.answer.values.tolist() == ["blue"]


def test_a_decoder_is_asked_for_the_next_token(smollm2):
    found = cloze(
        smollm2,
        corpus([("The capital of France is [MASK].", "Paris"), CLOZES[1], ("He is a [MASK]", "hurdy-gurdy player")]),
    )
    assert found.outcome.values.tolist() == [asking.SCORED, asking.NOT_LAST, asking.NOT_ONE_TOKEN]
    assert found.stage.values.tolist() == ["trf-out", "norm-n", "norm-w", "unembed"]
    one = whence.lm_head(smollm2, "The capital of France is").isel(layer=0, position=0)
    paris = int(np.flatnonzero(one.vocabulary_token.values == "▁Paris")[0])
    scores = one.scores.isel(stage=-1).values
    assert int(found["place"][0, -1]) == 1 + int((scores > scores[paris]).sum()) <= 10


def test_published_clozes(builtin, data):
    """The 146 of ConceptNet: hits, and one sentence's correlations by SciPy."""
    sentences = list(whence.read(f"lama:{data / 'lama' / 'conceptnet_146.jsonl'}"))
    found = cloze(builtin, sentences)
    assert found.attrs["sentences"] == found.attrs["scored"] == 146
    last = found.hits.isel(stage=-1)
    assert 0 < int(last.sel(k=1)) < int(last.sel(k=10)) < int(last.sel(k=100)) < 146
    with torch.no_grad():
        coded = builtin.tokenizer(sentences[5].text, return_tensors="pt")
        logits = builtin.model(**coded).logits[0, int(found.position[5])].numpy()
    one = whence.lm_head(builtin, sentences[5].text).isel(layer=0, position=0)
    expected = spearmanr(one.scores.isel(stage=0).values, logits).statistic
    assert abs(float(found.spearman[5, 0, -1]) - expected) < 1e-5
