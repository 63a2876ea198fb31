"""A corpus measured: its tables are what one sentence at a time gives, and nothing that happens changes a byte."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import scipy.stats

import whence
from tests import tiny
from whence.corpus.store import CannotWrite, Store
from whence.corpus.worker import Worker
from whence.errors import BadInput, Unsupported, WhenceError
from whence.measures.registry import Measure, Variable
from whence.measures.table import MEASURES as TABLE
from whence.plot import flattened

MEASURES = ["mixing", "mixing_block_n", "attention", "norms", "effective", "value_rank", "rollout_attnres_n"]
LONGEST = 64


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def corpus():
    return [*tiny.annotated(14), ("ada bo cy .", "dee , ed ."), "ada"]


@pytest.fixture(scope="module")
def folder(model, corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    whence.run(model, corpus, MEASURES, out, part_size=5, batch_tokens=40, neighbours=2, maps=True, threads=1)
    return out


@pytest.fixture(scope="module")
def run(folder):
    return whence.open_run(folder)


def content(folder: Path) -> dict[str, str]:
    """Every file but the journal, which tells of times, and the lock."""
    files = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("journal.jsonl", ".lock")
    ]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def alone(model, sentence):
    return whence.measure(model, sentence, MEASURES)


# what is in the tables


def test_tokens_are_what_one_sentence_gives(model, corpus, run):
    for number in (0, 5, 9, 14, 15):
        found = run.tokens[run.tokens.sentence == number]
        dataset = alone(model, corpus[number])
        size = dataset.sizes["target"]
        assert found.token.tolist() == [*dataset.target_token.values] * 3
        assert found.layer.tolist() == np.repeat([1, 2, 3], size).tolist()
        assert found.position.tolist() == [*range(size)] * 3
        for analysis in dataset.analysis.values:
            wanted = dataset.mixing.sel({"analysis": analysis}).values.ravel()
            np.testing.assert_allclose(found[f"mixing_{analysis}"], wanted, atol=1e-5)
        mean = dataset.attention.mean("head").values
        np.testing.assert_allclose(found.attention_own, np.diagonal(mean, axis1=1, axis2=2).ravel(), atol=1e-5)
        np.testing.assert_allclose(found.attention_entropy, scipy.stats.entropy(mean, axis=-1).ravel(), atol=1e-4)
        lengths = dataset.norms.sel(analysis="attn_n").values
        rows = lengths / lengths.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(found.attn_n_own, np.diagonal(rows, axis1=1, axis2=2).ravel(), atol=1e-5)
        largest = rows.argmax(axis=-1) == np.arange(size)
        assert (found.attn_n_own_largest.to_numpy() == largest.ravel()).all()
        assert "effective_entropy" not in found  # may be negative


def test_annotations_are_on_the_tokens(corpus, run):
    first = run.tokens[(run.tokens.sentence == 1) & (run.tokens.layer == 2)]
    words = corpus[1].words
    assert first.upos.tolist()[1:-1] == [word.labels["upos"] for word in words]
    assert first.upos.isna().tolist() == [True, *[False] * len(words), True]
    assert first.word_index.tolist()[1:-1] == [*range(len(words))]
    assert first.entity.tolist()[1:4:2] == ["e1", "e1"] and first.entity.isna().sum() == len(first) - 2
    assert first["class"].tolist()[0] == "[CLS]" and first["class"].tolist()[-2:] == [".", "[SEP]"]
    assert set(first.document) == {"d0"}
    bare = run.tokens[run.tokens.sentence == 15]
    assert bare.upos.isna().all() and bare.word.tolist()[1] == "ada"


def test_pairs_are_means_over_pieces(model, corpus, run):
    """Taken from the maps of one sentence by a plain loop over the tokens of both words."""
    for number in (3, 14):
        dataset, found = flattened(alone(model, corpus[number])), run.pairs[run.pairs.sentence == number]
        tokens = run.tokens[(run.tokens.sentence == number) & (run.tokens.layer == 1)]
        assert len(found)
        for row in found.sample(20, random_state=0).itertuples():
            targets = tokens.position[tokens.word_index == row.target_index]
            sources = tokens.position[tokens.word_index == row.source_index]
            for name in ("attn_n", "rollout_attnres_n", "attention"):
                layer = dataset[name].sel(layer=row.layer)
                layer = layer.mean("head") if name == "attention" else layer
                wanted = np.mean([layer.values[target, source] for target in targets for source in sources])
                np.testing.assert_allclose(getattr(row, name), wanted, atol=1e-5)
            assert row.distance == row.source_index - row.target_index
            assert row.target_position == min(targets)


def test_pieces_of_words_are_averaged(builtin, tmp_path):
    text = "Unbelievably, the antidisestablishmentarian whispered."
    whence.run(builtin, [text], ["attn_w"], tmp_path / "run", neighbours=1)
    dataset, run = whence.measure(builtin, text, ["attn_w"]), whence.open_run(tmp_path / "run")
    pieces = np.flatnonzero(dataset.target_word.values == "antidisestablishmentarian")
    assert len(pieces) > 1
    row = run.pairs[(run.pairs.target_word == "antidisestablishmentarian") & (run.pairs.source_word == "the")].iloc[0]
    wanted = (
        dataset.norms.sel(analysis="attn_w")
        .values[0][pieces, np.flatnonzero(dataset.source_word.values == "the")]
        .mean()
    )
    np.testing.assert_allclose(row.attn_w, wanted, atol=1e-6)


def test_moments_are_those_of_the_tokens(run):
    moments, tokens = run.moments, run.tokens
    for by, column in (("class", "class"), ("upos", "upos")):
        chosen = moments[(moments.by == by) & (moments["variable"] == "mixing_attn_n")].set_index(["layer", "group"])
        groups = tokens.groupby(["layer", column])["mixing_attn_n"]
        assert len(chosen) == len(groups.size())  # pandas 2 counts the tokens without a label in len(groups)
        for key, values in groups:
            found, wide = chosen.loc[key], values.astype(np.float64)
            assert found["count"] == len(values)
            np.testing.assert_allclose(found["mean"], wide.mean(), rtol=1e-6)
            np.testing.assert_allclose(found["m2"], wide.var(ddof=0) * len(wide), rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose([found["minimum"], found["maximum"]], [wide.min(), wide.max()], rtol=1e-6)
    all_of_them = moments[(moments.by == "all") & (moments["variable"] == "attention_own") & moments["head"].isna()]
    np.testing.assert_allclose(all_of_them["mean"], tokens.groupby("layer").attention_own.mean(), rtol=1e-5)


def test_moments_by_head_and_by_class_of_source(model, corpus, run):
    """How much of each head's attention [SEP] and the comma get from other tokens, where there are any, by a loop."""
    given = {"[SEP]": [], ",": []}
    for sentence in corpus:
        dataset = alone(model, sentence)
        tokens = dataset.target_token.values
        other = ~np.isin(tokens, ["[CLS]", "[SEP]", ".", ","])
        for name in given.keys() & set(tokens):
            given[name].extend(dataset.attention.values[1, 2][other][:, tokens == name].sum(axis=-1))
    moments = run.moments.set_index(["variable", "layer", "by", "group", "source"])
    for name, values in given.items():
        row = moments.loc[("attention_to", 2, "class", "other", name)].query("head == 2").iloc[0]
        assert row["count"] == len(values)
        np.testing.assert_allclose([row["mean"], row["std"]], [np.mean(values), np.std(values, ddof=1)], rtol=1e-4)


def test_numbers_of_a_sentence_are_in_the_moments(model, corpus, run):
    ranks = np.stack([alone(model, sentence)["value_rank"].values for sentence in corpus])
    found = run.moments[run.moments["variable"] == "value_rank"].sort_values(["layer", "head"])
    assert (found["count"] == len(corpus)).all()
    np.testing.assert_allclose(found["mean"].to_numpy().reshape(3, 4), ranks.mean(axis=0))


def test_sentences(corpus, run):
    assert run.sentences.sentence.tolist() == [*range(len(corpus))]
    assert run.sentences.text.tolist()[:3] == [sentence.text for sentence in corpus[:3]]
    assert run.sentences.pair.tolist()[14] == "dee , ed ." and run.sentences.id.tolist()[2] == "s2"


@pytest.mark.parametrize("family", ["roberta", "gpt2", "llama", "modernbert", "xlnet"])
def test_padding_changes_nothing(family, tmp_path):
    """Sentences of many lengths in one batch, for families with other positions, masks and norms."""
    model, texts = tiny.model(family), tiny.texts(9)
    names = ["mixing", "mixing_block_n", "attn_n", "rollout_attn_n"]
    whence.run(model, texts, names, tmp_path / "run", batch_tokens=10_000)
    tokens = whence.open_run(tmp_path / "run").tokens
    for number, text in enumerate(texts):
        found = tokens[tokens.sentence == number]
        dataset = whence.measure(model, text, ["mixing", "mixing_block_n", "rollout_attn_n"])
        for analysis in ("attnresln_n", "block_n"):
            wanted = dataset.mixing.sel({"analysis": analysis}).values.ravel()
            np.testing.assert_allclose(found[f"mixing_{analysis}"], wanted, atol=2e-5)
        own = np.diagonal(dataset.rollout.sel(analysis="attn_n").values, axis1=1, axis2=2).ravel()
        np.testing.assert_allclose(found.rollout_attn_n_own, own, atol=2e-5)


def test_a_run_without_the_whole_block_is_read_and_resumed_but_not_added_to(model, tmp_path):
    """`block` once meant the map alone, and such a run is asked for by the name of that map."""
    texts, out = tiny.texts(3), tmp_path / "run"
    whence.run(model, texts, ["mixing", "block_n"], out)
    assert "mixing_block_n" not in whence.open_run(out).tokens
    whence.run(model, texts, ["mixing", "block_n"], out)
    with pytest.raises(BadInput, match=r"begun with variables .*'block_n'\], and .*'mixing_block_n'\] was asked for"):
        whence.run(model, texts, ["mixing", "block"], out)


def test_derivatives_sentence_by_sentence(model, tmp_path):
    texts = tiny.texts(3)
    exact = whence.Contribution(mode="exact")
    whence.run(model, texts, [exact, "gradient_local"], tmp_path / "run", layers=[1, 3])
    run = whence.open_run(tmp_path / "run")
    for number, text in enumerate(texts):
        dataset = whence.measure(model, text, exact, layers=[1, 3])
        found = run.tokens[run.tokens.sentence == number]
        assert sorted(set(found.layer)) == [1, 3]
        own = np.diagonal(dataset.contribution.values, axis1=1, axis2=2)
        np.testing.assert_allclose(found.contribution_own, own.ravel(), atol=1e-5)
    assert "contribution_se" not in run.pairs and {"contribution", "gradient_local"} <= set(run.pairs)


# what it depends on, and what not


def test_the_same_run_gives_the_same_bytes(model, corpus, folder, tmp_path):
    whence.run(
        model,
        iter(corpus),
        MEASURES,
        tmp_path / "run",
        part_size=5,
        batch_tokens=40,
        neighbours=2,
        maps=True,
        threads=1,
    )
    mine, theirs = content(tmp_path / "run"), content(folder)
    mine.pop("manifest.json"), theirs.pop("manifest.json")  # says list_iterator where the other says list
    assert mine == theirs


def test_how_it_is_cut_changes_no_number(model, corpus, run, tmp_path):
    whence.run(model, corpus, MEASURES, tmp_path / "run", part_size=100, batch_tokens=5000, neighbours=2)
    other = whence.open_run(tmp_path / "run")
    for mine, theirs in ((run.tokens, other.tokens), (run.pairs, other.pairs)):
        numbers = [name for name in mine if mine[name].dtype == np.float32]
        np.testing.assert_allclose(mine[numbers], theirs[numbers], atol=2e-5)
        assert mine.drop(columns=numbers).iloc[:, :12].equals(theirs.drop(columns=numbers).iloc[:, :12])
    assert (run.moments["count"].to_numpy() == other.moments["count"].to_numpy()).all()


def test_the_manifest_says_where_the_numbers_come_from(corpus, run):
    manifest = run.manifest
    assert manifest["finished"] and manifest["corpus"]["sentences"] == len(corpus) and manifest["corpus"]["parts"] == 4
    assert len(manifest["corpus"]["sha256"]) == len(manifest["model"]["weights_sha256"]) == 64
    assert manifest["versions"]["torch"] and manifest["plan"]["part_size"] == 5
    assert manifest["corpus"]["tokens"] == len(run.tokens) / 3


def test_the_journal_tells_of_every_attempt(folder):
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    assert lines[0]["engine"] == "local" and lines[0]["command"] == sys.argv and lines[1]["outcome"] == "finished"


def test_progress_counts_sentences(model, tmp_path):
    seen = []
    whence.run(model, tiny.texts(7), "mixing", tmp_path / "run", part_size=3, progress=lambda *pair: seen.append(pair))
    assert seen == [(0, 7), (3, 7), (6, 7), (7, 7)]
    seen.clear()
    whence.run(
        model, iter(tiny.texts(7)), "mixing", tmp_path / "run", part_size=3, progress=lambda *pair: seen.append(pair)
    )
    assert seen == [(0, None), (3, None), (6, None), (7, None)]


def test_an_empty_corpus_gives_empty_tables(model, tmp_path):
    whence.run(model, [], "mixing", tmp_path / "run")
    run = whence.open_run(tmp_path / "run")
    assert run.finished and run.manifest["corpus"]["sentences"] == 0 and len(run.moments) == 0


# what is refused


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"measures": ["attention"]}, "it was begun with measures"),
        ({"part_size": 4}, r"it was begun with part_size 3, and 4 was asked for; name another folder"),
        ({"batch_tokens": 77}, "begun with batch_tokens"),
        ({"threads": 2}, "begun with threads"),
        ({"neighbours": 5}, "begun with neighbours"),
        ({"layers": [1]}, "begun with layers"),
        ({"maps": True}, "begun with maps"),
        ({"too_long": "skip"}, "begun with too_long"),
    ],
)
def test_another_run_in_the_same_folder_is_refused(model, tmp_path, change, says):
    asked = {"measures": ["mixing"], "part_size": 3, "threads": 1, "too_long": "truncate"}
    whence.run(model, tiny.texts(4), out=tmp_path / "run", **asked)
    before = content(tmp_path / "run")
    with pytest.raises(BadInput, match=says):
        whence.run(model, tiny.texts(4), out=tmp_path / "run", **(asked | change))
    assert content(tmp_path / "run") == before


def test_other_weights_are_refused(model, tmp_path):
    whence.run(model, ["ada"], "mixing", tmp_path / "run")
    with pytest.raises(BadInput, match="model weights_sha256"):
        whence.run(tiny.model(seed=1), ["ada"], "mixing", tmp_path / "run")


@pytest.mark.parametrize(
    "changed", [tiny.texts(6, seed=1), tiny.texts(9)[:6], tiny.texts(12)], ids=["other", "less", "more"]
)
def test_another_corpus_is_refused(model, tmp_path, changed):
    whence.run(model, tiny.texts(9), "mixing", tmp_path / "run", part_size=3)
    before = content(tmp_path / "run")
    with pytest.raises(BadInput, match="give the corpus as it was"):
        whence.run(model, changed, "mixing", tmp_path / "run", part_size=3)
    assert {name: digest for name, digest in content(tmp_path / "run").items() if name in before} == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"part_size": 0}, "part_size is a whole number of at least 1"),
        ({"neighbours": -1}, "neighbours is a whole number of at least 0"),
        ({"too_long": "cut"}, "refuse, truncate, skip"),
        ({"by": ["colour"]}, "grouped by class"),
        ({"engine": "steam"}, "no engine 'steam'; there are: local, ray"),
        ({"layers": [9]}, "layers 1 to 3"),
        ({"measures": [whence.Contribution(sources=[1])]}, "'sources' names positions"),
    ],
)
def test_refused_before_any_work(model, tmp_path, arguments, says):
    with pytest.raises(BadInput, match=says):
        whence.run(model, ["ada"], **({"measures": ["mixing"], "out": tmp_path / "run"} | arguments))
    assert not content(tmp_path / "run")


def test_a_name_is_no_corpus(model, tmp_path):
    with pytest.raises(BadInput, match=r"the str 'file\.txt' was given"):
        whence.run(model, "file.txt", "mixing", tmp_path / "run")


@pytest.mark.parametrize(
    ("measures", "says"),
    [
        ("contribution_se", "ask for maps=True"),
        (["contribution", "contribution_se"], "ask for maps=True"),
        (iter(["contribution", "contribution_se"]), "ask for maps=True"),
        (
            "by_place",
            r"'by_place' has the axes \(layer, target, distance\), and a run stores what has.* \(layer, head\)",
        ),
    ],
)
def test_what_a_run_has_no_table_for_is_refused(model, tmp_path, monkeypatch, measures, says):
    variable = Variable(("layer", "target", "distance"), "share", "x")
    row = Measure("x", {"by_place": variable}, (), "whence.measures.norms.variables:norms")
    monkeypatch.setitem(TABLE, "by_place", row)
    with pytest.raises(WhenceError, match=says):
        whence.run(model, ["ada"], measures, tmp_path / "run")
    assert not content(tmp_path / "run")


def test_what_is_about_the_model_is_refused(model, tmp_path):
    with pytest.raises(Unsupported, match="'expansion' is about the model"):
        whence.run(model, ["ada"], "expansion", tmp_path / "run")


def test_sentences_that_are_too_long(model, tmp_path):
    texts = [*tiny.texts(4), "ada " * 100, *tiny.texts(4, seed=2)]
    with pytest.raises(BadInput, match=r"Sentence 4 of the corpus, counted from 0: The text is 102 tokens .*too-long"):
        whence.run(model, texts, "mixing", tmp_path / "run", part_size=2)
    # the parts done so far had nothing too long, so the run can go on in another way
    whence.run(model, texts, "mixing", tmp_path / "run", part_size=2, too_long="skip")
    run = whence.open_run(tmp_path / "run")
    assert run.manifest["corpus"]["skipped"] == 1 and 4 not in set(run.tokens.sentence) and len(run.sentences) == 8
    assert run.records[2]["skipped"][0]["sentence"] == 4 and "102 tokens" in run.records[2]["skipped"][0]["why"]
    whence.run(model, texts, "mixing", tmp_path / "cut", part_size=2, too_long="truncate")
    assert whence.open_run(tmp_path / "cut").sentences.tokens.max() == LONGEST


def test_a_part_without_a_sentence(model, tmp_path):
    whence.run(
        model, ["ada " * 100, "ada"], ["mixing", "attention"], tmp_path / "run", part_size=1, too_long="skip", maps=True
    )
    run = whence.open_run(tmp_path / "run")
    assert set(run.tokens.sentence) == {1} and list(run.maps) == [1]


# what can happen


def test_a_second_run_at_the_same_time_is_refused(model, tmp_path):
    def again(done, total):
        if done == 2:
            with pytest.raises(BadInput, match="Another run is writing into"):
                whence.run(model, tiny.texts(4), "mixing", tmp_path / "run", part_size=2)
            told.append(done)

    told = []
    whence.run(model, tiny.texts(4), "mixing", tmp_path / "run", part_size=2, progress=again)
    assert told


@pytest.fixture(scope="module")
def eight(model, tmp_path_factory):
    """A run of eight texts in three parts, which tests copy."""
    out = tmp_path_factory.mktemp("eight") / "run"
    whence.run(model, tiny.texts(8), ["mixing", "attention"], out, part_size=3, threads=1)
    return out


@pytest.mark.parametrize(
    ("table", "damage"),
    [("tokens", "truncated"), ("pairs", "changed"), ("moments", "gone"), ("sentences", "truncated")]
    + [("parts", damage) for damage in ("truncated", "changed", "gone")],
)
def test_a_damaged_part_is_found_and_redone(model, eight, tmp_path, table, damage):
    asked = {"measures": ["mixing", "attention"], "part_size": 3, "threads": 1}
    shutil.copytree(eight, tmp_path / "run")
    before = content(tmp_path / "run")
    file = tmp_path / "run" / table / ("00001.json" if table == "parts" else "00001.parquet")
    data = file.read_bytes()
    changed = data[:50] + bytes([data[50] ^ 255]) + data[51:]
    file.unlink() if damage == "gone" else file.write_bytes({"truncated": data[:-20], "changed": changed}[damage])
    seen = []
    whence.run(model, tiny.texts(8), out=tmp_path / "run", progress=lambda done, total: seen.append(done), **asked)
    assert content(tmp_path / "run") == before


def test_a_full_disk_leaves_a_run_that_goes_on(model, tmp_path, monkeypatch):
    asked = {"measures": ["mixing"], "part_size": 2, "threads": 1}
    whence.run(model, tiny.texts(8), out=tmp_path / "undisturbed", **asked)
    write, room = Store.write, [9]

    def full(self, name, data):
        room[0] -= 1
        if room[0] < 0:
            monkeypatch.setattr("whence.corpus.store._write_here", no_space)
        write(self, name, data)

    def no_space(filesystem, temporary, final, data):
        Path(temporary).write_bytes(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context():
        monkeypatch.setattr(Store, "write", full)
        with pytest.raises(CannotWrite, match="No space left on device"):
            whence.run(model, tiny.texts(8), out=tmp_path / "run", **asked)
    monkeypatch.undo()
    assert not whence.open_run(tmp_path / "run").finished and len(whence.open_run(tmp_path / "run").records) >= 1
    whence.run(model, tiny.texts(8), out=tmp_path / "run", **asked)
    assert content(tmp_path / "run") == content(tmp_path / "undisturbed")


def test_control_c_leaves_a_run_that_goes_on(model, tmp_path):
    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    asked = {"measures": ["mixing"], "part_size": 2, "threads": 1}
    with pytest.raises(KeyboardInterrupt):
        whence.run(model, tiny.texts(9), out=tmp_path / "run", progress=stop, **asked)
    assert len(whence.open_run(tmp_path / "run").records) in (2, 3)  # the next one may have been begun
    assert '"stopped"' in (tmp_path / "run" / "journal.jsonl").read_text()
    seen = []
    whence.run(model, tiny.texts(9), out=tmp_path / "run", progress=lambda done, total: seen.append(done), **asked)
    assert seen[:3] == [0, 2, 4]
    whence.run(model, tiny.texts(9), out=tmp_path / "undisturbed", **asked)
    assert content(tmp_path / "run") == content(tmp_path / "undisturbed")


def test_an_error_in_a_part_loses_none_before_it(model, tmp_path, monkeypatch):
    measure = Worker.measure

    def failing(self, prepared):
        if prepared.part.number == 2:
            raise BadInput("no")
        return measure(self, prepared)

    with monkeypatch.context() as patch, pytest.raises(BadInput, match="no"):
        patch.setattr(Worker, "measure", failing)
        whence.run(model, tiny.texts(9), "mixing", tmp_path / "run", part_size=2)
    assert [record["part"] for record in whence.open_run(tmp_path / "run").records] == [0, 1]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, to start a warm process in no time")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 on; the child runs and leaves
def test_killed_ten_times(model, tmp_path):
    """SIGKILL at random moments, most of them in mid-write: parts are small and every file is flushed to the disk."""
    asked = {"measures": ["mixing", "attention"], "part_size": 4, "threads": 1}
    texts, chance = tiny.texts(80), random.Random(0)
    whence.run(model, texts, out=tmp_path / "undisturbed", **asked)
    wanted, kills, rounds = content(tmp_path / "undisturbed"), 0, 0
    while kills < 10:
        out, rounds = tmp_path / f"run{rounds}", rounds + 1
        while kills < 10 and not _killed(
            lambda out=out: whence.run(model, texts, out=out, **asked), chance.random() * 0.6
        ):
            kills += 1
        whence.run(model, texts, out=out, **asked)
        assert content(out) == wanted


def _killed(job, seconds: float) -> bool:
    """Whether the job was done before it was killed."""
    child = os.fork()
    if child == 0:
        job()
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(model, tmp_path):
    used = {}

    def watch(done, total):
        used[done] = psutil.Process().memory_info().rss / 2**20

    corpus = (text for start in range(4) for text in tiny.texts(1000, seed=start, longest=4))
    whence.run(model, corpus, ["mixing", "attn_w"], tmp_path / "run", part_size=200, progress=watch)
    assert max(used.values()) - used[200] < 40, "megabytes from 200 to 4000 sentences"


def test_numbers_of_heads_are_a_table_of_their_own(builtin, tmp_path):
    """Against each sentence measured alone."""
    texts = ["A cat sat on the mat and looked at the moon.", "It rained."]
    whence.run(builtin, texts, ["value_rank", "effective_correlation"], out=tmp_path / "run")
    table = whence.open_run(tmp_path / "run").heads
    assert len(table) == 2 * builtin.anatomy.layers * builtin.anatomy.heads
    for number, text in enumerate(texts):
        alone = whence.measure(builtin, text, ["value_rank", "effective_correlation"])
        rows = table[table["sentence"] == number].set_index(["layer", "head"])
        for name in ("value_rank", "nullity", "effective_correlation"):
            np.testing.assert_allclose(rows[name].to_xarray(), alone[name], atol=1e-5)
