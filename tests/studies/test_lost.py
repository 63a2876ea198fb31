"""The study that joins probes, contributions and mixing: token by token against each of the three alone."""

import numpy as np
import pandas
import pytest
from scipy import stats

import whence
from tests import tiny
from tests.studies.undrawn import undrawn
from whence.models.capture import trace
from whence.models.encode import encode
from whence.studies import lost
from whence.studies.frame.context import Context
from whence.studies.frame.study import Absent


@pytest.fixture(scope="module")
def context(sample, tmp_path_factory):
    corpus = whence.read(f"conllu:{sample}/treebank.conllu")
    return Context(tiny.model(), (corpus,), tmp_path_factory.mktemp("lost"), quick=True)


@pytest.fixture(scope="module")
def tokens(context):
    return lost._all(context)


def test_every_row_is_the_token_that_each_measure_gives(context, tokens):
    model, sentence = context.model, list(lost._sentences(context))[3]
    rows = tokens[(tokens["sentence"] == 3) & (tokens["layer"] == 2)].set_index("position")
    measured = whence.measure(model, sentence, [whence.Contribution(error=0.05), "mixing", "mixing_block_n"])
    positions = rows.index.to_numpy()
    own = np.diagonal(measured.contribution.sel(layer=2).values)[positions]
    assert rows[lost.KEPT].to_numpy() == pytest.approx(own, rel=1e-4)
    for name, analysis in ((lost.MIXED, "attnresln_n"), (lost.BLOCK, "block_n")):
        expected = measured.mixing.sel(analysis=analysis, layer=2).values[positions]
        assert rows[name].to_numpy() == pytest.approx(expected, rel=1e-4)
    states = whence.measure(model, sentence, "attention")
    assert rows["token"].tolist() == states.target_token.values[positions].tolist()
    assert len(rows) == states.sizes["target"] - 2  # special tokens are left out


def test_lost_is_what_the_look_up_does_not_find(context, tokens):
    """Without a probe, by hand: the nearest input embedding of the sentence, by cosine."""
    model, sentences = context.model, list(lost._sentences(context))
    for number in (0, 5):
        batch = encode(model.anatomy, model.tokenizer, sentences[number]).batch
        passed = trace(model.anatomy, batch)
        embeddings, states = passed.embedding[0], passed.blocks[2].output[0]
        unit = [values / values.norm(dim=-1, keepdim=True) for values in (states, embeddings)]
        nearest = (unit[0] @ unit[1].T).argmax(dim=-1).tolist()
        rows = tokens[(tokens["sentence"] == number) & (tokens["layer"] == 3)]
        for position, missed in zip(rows["position"], rows[lost.UNPROBED], strict=True):
            assert missed == pytest.approx(float(nearest[position] != position))


def made(count: int = 400) -> pandas.DataFrame:
    """Tokens that are lost because they keep little, mixing and frequency being noise."""
    draw = np.random.default_rng(0)
    kept, mixed, rank = draw.random(count), draw.random(count), draw.random(count)
    missed = (kept + 0.3 * draw.random(count) < 0.5).astype(float)
    table = pandas.DataFrame({lost.KEPT: kept, lost.MIXED: mixed, lost.RANK: rank, lost.LOST: missed})
    documents = [f"d{number % 20}" for number in range(count)]
    upos = np.where(draw.random(count) < 0.5, "NOUN", "DET")
    extra = {
        "layer": 1,
        "document": documents,
        "upos": upos,
        "sentence": 0,
        lost.UNPROBED: 0.0,
        lost.LENGTH: draw.random(count),
    }
    return table.assign(**extra)


@pytest.fixture
def known(context, monkeypatch):
    table = made()
    monkeypatch.setattr(lost, "_all", lambda context: table)
    return table


def test_correlations_are_scipys(context, known):
    expected = stats.spearmanr(known[lost.KEPT], known[lost.LOST]).statistic
    assert lost.with_lost(context, lost.KEPT, -1).value == pytest.approx(-expected)
    row = lost.associations(context).set_index("of").loc[lost.KEPT]
    assert row["r"] == pytest.approx(expected) and row["low"] < expected < row["high"] < 0
    ranked = known[[lost.KEPT, lost.LOST, lost.MIXED]].rank()
    left = [
        ranked[name] - np.polyval(np.polyfit(ranked[lost.MIXED], ranked[name], 1), ranked[lost.MIXED])
        for name in (lost.KEPT, lost.LOST)
    ]
    partial = stats.pearsonr(*left).statistic
    assert lost.held(context, lost.KEPT, lost.MIXED, 1).value == pytest.approx(partial)


def test_everything_at_once_finds_the_cause(context, known):
    terms = lost.terms(context).set_index("term")
    assert terms.loc[lost.KEPT, "high"] < -0.2
    assert terms.loc[lost.MIXED, "low"] < 0 < terms.loc[lost.MIXED, "high"]


def test_fifths_and_kinds_are_means_of_their_tokens(context, known):
    fifths = lost.by_fifth(context)
    lowest = known.sort_values(lost.KEPT).head(80)
    row = fifths[(fifths["of"] == lost.KEPT) & (fifths["fifth"] == 1)].iloc[0]
    assert row["n"] == 80 and row["lost"] == pytest.approx(lowest[lost.LOST].mean())
    means = known.groupby("upos")[lost.LOST].mean()
    assert lost.closed_less_open(context).value == pytest.approx(means["DET"] - means["NOUN"])
    kinds = lost.by_upos(context)
    assert kinds[kinds["of"] == lost.LOST].set_index("upos")["share"].to_dict() == pytest.approx(means.to_dict())


def test_where_nothing_is_lost_nothing_is_said(context, known, monkeypatch):
    monkeypatch.setattr(lost, "_all", lambda context: known.assign(**{lost.LOST: 0.0}))
    for ask in (lost.associations, lost.terms, lost.by_fifth, lost.closed_less_open):
        with pytest.raises(Absent):
            ask(context)


@pytest.mark.slow
def test_the_study_runs_on_a_small_model(context, tmp_path):
    with undrawn():
        page = whence.study("lost", context.model, context.corpora, tmp_path, quick=True)
    assert "Which tokens are lost" in page.read_text()
    table = pandas.read_csv(tmp_path / "tables" / "lost_layers.csv")
    assert set(table["layer"]) == {1, 2, 3} and {lost.LOST, lost.KEPT, lost.MIXED, lost.BLOCK} <= set(table["of"])
