"""What answers rest on, of a whole corpus: the numbers of `whence.why`, in tables that resume byte for byte."""

import json

import numpy as np
import pytest

import whence
from tests import tiny
from tests.corpus.test_run import content
from tests.families import build
from whence.corpus.predictions import Explainer
from whence.errors import BadInput
from whence.models.fingerprint import corpus_sha256
from whence.text.sentence import Sentence, sentence

TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
LAYERS = [0, 2]
ANSWERED = [
    Sentence("ada bo cy", id="first", labels={"answer": " dee ed"}),
    "dee ed",
    Sentence("bo cy dee [MASK] .", labels={"answer": "ada"}),
    Sentence("ed ada bo cy [MASK].", labels={"answer": "dee ed"}),
    Sentence("", labels={"answer": "cy"}, turns=sentence([{"role": "user", "content": "ada bo"}]).turns),
]
CLOZES = [
    Sentence("ada bo [MASK] cy .", labels={"answer": "dee"}),
    "ada [MASK] cy [MASK] .",
    Sentence("[MASK] bo .", labels={"answer": "dee ed"}),
    Sentence("ada bo .", "cy [MASK] .", labels={"answer": "ed"}),
]


@pytest.fixture(scope="module")
def decoder():
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = TEMPLATE
    return whence.load(build("llama"), tokenizer)


@pytest.fixture(scope="module")
def masked():
    return whence.load(build("bert"), tiny.tokenizer())


@pytest.fixture(scope="module")
def folder(decoder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "why"
    whence.run(decoder, ANSWERED, ["why"], out, part_size=2, layers=LAYERS, threads=1)
    return out


def explained(model, number):
    """Each sentence asked by itself."""
    chat = [{"role": "user", "content": "ada bo"}]
    asked = [
        ("ada bo cy", {"answer": " dee ed"}),
        ("dee ed", {}),
        ("bo cy dee", {"answer": " ada"}),
        ("ed ada bo cy", {"answer": " dee ed"}),
        (chat, {"answer": "cy"}),
    ]
    text, how = asked[number]
    return whence.why(model, text, **how)


@pytest.mark.parametrize("number", range(len(ANSWERED)))
def test_tables_are_what_one_sentence_gives(decoder, folder, number):
    run, expected = whence.open_run(folder), explained(decoder, number)
    tokens = run.tokens[run.tokens.sentence == number]
    assert tokens.position.tolist() == expected.predicted.values.tolist()
    assert tokens.token_id.tolist() == expected.predicted_token_id.values.tolist()
    assert tokens.token.tolist() == expected.predicted_token.values.tolist()
    assert set(tokens.is_given) == {number != 1}
    for name in ("logit", "probability", "place"):
        assert tokens[name].values == pytest.approx(expected[name].values, rel=1e-5)
    assert tokens.best_token.tolist() == expected.alternative_token.isel(alternative=0).values.tolist()
    assert tokens[["bias_0", "bias_2"]].values == pytest.approx(expected.bias.sel(layer=LAYERS).values, rel=1e-5)
    pairs = run.pairs[run.pairs.sentence == number]
    for row in pairs.itertuples():
        at = expected.sel(predicted=row.position, layer=row.layer, source=row.source)
        assert row.share == pytest.approx(float(at.share), rel=1e-4, abs=1e-6)
        assert row.dependence == pytest.approx(float(at.dependence), rel=1e-4, abs=1e-6)
        assert row.source_token == at.source_token.item() and row.distance == row.source - row.position
        assert row.source_is_answer == ("source_is_answer" in at.coords and bool(at.source_is_answer))
    sources = sum(int(position) + 1 for position in tokens.position)
    assert len(pairs) == len(LAYERS) * sources


def test_parts_of_every_predicted_token_add_up(folder):
    run = whence.open_run(folder)
    sums = run.pairs.groupby(["sentence", "position", "layer"]).share.sum().unstack()
    tokens = run.tokens.set_index(["sentence", "position"])
    for layer in LAYERS:
        assert (sums[layer] + tokens[f"bias_{layer}"]).values == pytest.approx(tokens.logit.values, rel=1e-3, abs=1e-4)


def test_clozes_of_a_masked_model(masked, tmp_path):
    """The answer at the mask where it is one token, else the model's best at every mask."""
    run = whence.open_run(whence.run(masked, CLOZES, "share", tmp_path / "run"))
    tokens = run.tokens
    assert tokens.sentence.tolist() == [0, 1, 1, 2, 3]
    assert tokens.is_given.tolist() == [True, False, False, False, True]
    assert tokens.token.tolist()[0] == "dee" and tokens.token.tolist()[-1] == "ed"
    assert "dependence" not in run.pairs and run.manifest["plan"]["layers"] == [0]
    alone = whence.why(masked, ("ada bo .", "cy [MASK] ."), token="ed")
    found = run.pairs[run.pairs.sentence == 3]
    assert found.share.values == pytest.approx(alone.share.values[0, 0], rel=1e-4, abs=1e-6)
    assert len(found) == alone.sizes["source"]


@pytest.mark.parametrize("stop", [1, 2])
def test_resumed_it_is_the_same_byte_for_byte(decoder, folder, tmp_path, monkeypatch, stop):
    done = []
    write = Explainer.write

    def stopped(self, asked):
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(asked)
        return write(self, asked)

    settings = {"part_size": 2, "layers": LAYERS, "threads": 1}
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Explainer, "write", stopped)
        whence.run(decoder, ANSWERED, ["why"], tmp_path / "run", **settings)
    assert not whence.open_run(tmp_path / "run").finished
    whence.run(decoder, ANSWERED, ["why"], tmp_path / "run", **settings)
    assert content(tmp_path / "run") == content(folder)


def test_free_memory_changes_no_byte(decoder, folder, tmp_path, monkeypatch):
    """What is pulled at a time is the same on a machine with little room, or else it is refused."""
    monkeypatch.setattr("whence.models.memory.free_bytes", lambda device: 10**8)
    whence.run(decoder, ANSWERED, ["why"], tmp_path / "run", part_size=2, layers=LAYERS, threads=1)
    assert content(tmp_path / "run") == content(folder)
    monkeypatch.setattr("whence.models.memory.free_bytes", lambda device: 1000)
    with pytest.raises(BadInput, match=r"tokens need .* may be used"):
        whence.run(decoder, ANSWERED, ["why"], tmp_path / "small", threads=1)


def test_what_cannot_be_asked_is_named_or_left_out(masked, decoder, tmp_path):
    with pytest.raises(BadInput, match=r"^Sentence 1 of the corpus, counted from 0: A masked model .* no \[MASK\]"):
        whence.run(masked, [CLOZES[0], "ada bo ."], "why", tmp_path / "run")
    run = whence.open_run(whence.run(masked, [CLOZES[0], "ada bo ."], "why", tmp_path / "some", too_long="skip"))
    assert run.manifest["corpus"]["skipped"] == 1 and run.sentences.sentence.tolist() == [0]
    with pytest.raises(BadInput, match="the mask is not last"):
        whence.run(decoder, ["ada [MASK] bo ."], "why", tmp_path / "decoder")
    with pytest.raises(BadInput, match="it is about predictions"):
        _ = run.moments


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"measures": ["why", "mixing"]}, "does not go with 'mixing'"),
        ({"measures": ["why"], "maps": True}, "'why' has no maps"),
        ({"measures": ["why"], "layers": [9]}, "The model has layers 0 to"),
    ],
)
def test_what_does_not_go_together_is_refused(decoder, tmp_path, asked, message):
    with pytest.raises(BadInput, match=message):
        whence.run(decoder, ANSWERED, out=tmp_path / "run", **asked)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_another_chat_is_another_corpus(decoder, tmp_path):
    """Chats and ids have no text of their own, and count by what they say."""
    first, second = (sentence([{"role": "user", "content": text}]) for text in ("ada bo", "cy dee"))
    numbered = [sentence([5, 6, 7]), sentence([5, 6, 8])]
    assert len({corpus_sha256([each]) for each in (first, second, *numbered)}) == 4
    whence.run(decoder, [first], "share", tmp_path / "run")
    with pytest.raises(BadInput, match="made from other sentences"):
        whence.run(decoder, [second], "share", tmp_path / "run")


def test_prompts_are_read_with_their_answers(decoder, tmp_path):
    chat = [{"role": "user", "content": "ada bo"}, {"role": "assistant", "content": "cy"}]
    rows = [{"prompt": "ada bo cy", "answer": " dee ed", "id": "first"}, {"prompt": "dee ed"}, {"messages": chat}]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = list(whence.read(f"prompts:{tmp_path}/asked.jsonl"))
    assert read[0] == Sentence("ada bo cy", id="first", document="first", labels={"answer": " dee ed"})
    assert [each.labels.get("answer") for each in read] == [" dee ed", None, "cy"]
    assert [turn.role for turn in read[2].turns] == ["user"]
    run = whence.open_run(whence.run(decoder, read, "share", tmp_path / "run"))
    assert run.tokens.token.tolist()[:2] == ["dee", "ed"] and len(run.tokens) == 4
    np.testing.assert_array_equal(run.tokens.sentence, [0, 0, 1, 2])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "ada"}, "has no 'prompt' and no 'messages'; its members are 'text'"),
        ({"prompt": "ada", "answer": " "}, "The text is empty"),
        ({"prompt": 3}, "A text is a str"),
        ({"messages": "ada"}, "'messages' is a list of messages"),
        ({"messages": [{"role": "assistant", "content": "cy"}]}, "has an answer alone"),
    ],
)
def test_malformed_prompts_are_named_or_counted(tmp_path, row, message):
    good = {"prompt": "ada"}
    (tmp_path / "asked.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(good) + "\n")
    with pytest.raises(BadInput, match=message):
        list(whence.read(f"prompts:{tmp_path}/asked.jsonl"))
    corpus = whence.read(f"prompts:{tmp_path}/asked.jsonl", skip_bad=True)
    assert len(list(corpus)) == 1 and corpus.skipped.count == 1
