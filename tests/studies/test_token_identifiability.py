"""The study of token identifiability end to end: the built-in model, another model beside it, a decoder."""

import json
import re

import pandas
import pytest

import whence
from tests.families import build
from tests.studies.asked import asked
from whence.plot.drawing import draw
from whence.studies.frame.context import Context
from whence.studies.frame.sentences import Chosen
from whence.studies.frame.study import Left, Shown
from whence.studies.token_experiments import Size, long_enough

NAMES = ("rates", "across_linear_cosine", "across_linear_l2", "train_test", "training_share", "previous")
NAMES += ("alone", "neighbours_linear_cosine", "elsewhere")
SMALL = Size(sentences=60, folds=5, layers=3, network_layers=2)  # the quick sample with fewer layers
BESIDE = ("last_layer", "across", "data")
pytestmark = [pytest.mark.slow, pytest.mark.whole]  # all of them wait for one study


@pytest.fixture(scope="module", autouse=True)
def _small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.studies.token_experiments.QUICK", SMALL)
        yield


@pytest.fixture(scope="module")
def corpora(sample):
    pairs = whence.read(f"mrpc:{sample / 'pairs.tsv'}", limit=20)
    return pairs, whence.read(sample / "articles.txt")


@pytest.fixture(scope="module")
def out(builtin, corpora, tmp_path_factory, _small):
    folder = tmp_path_factory.mktemp("study")
    whence.study("token-identifiability", builtin, corpora, folder, quick=True)
    return folder


@pytest.fixture(scope="module")
def found(out):
    return json.loads((out / "findings.json").read_text())


def table(out, name):
    return pandas.read_csv(out / "tables" / f"identity_{name}.csv")


def test_every_section_draws_and_writes(out, found):
    assert [picture["name"] for picture in found["pictures"]] == [f"identity_{name}" for name in NAMES]
    for name in NAMES:
        written = table(out, name)
        assert len(written) == len(pandas.read_parquet(out / "tables" / f"identity_{name}.parquet")) > 3
        assert (out / "charts" / f"identity_{name}.svg").read_text().count("<path") > 6
    for name in BESIDE:
        assert len(table(out, name)) > 2
    left = {each["what"]: each["why"] for each in found["left_out"]}
    assert set(left.values()) == {
        "it is left out of the quick sample",
        "one model was given; name another with --models",
        "two layers make no trend",
    }


def test_the_rates_are_those_of_identify(out, builtin, corpora):
    sentences = list(Chosen(corpora[0], SMALL.sentences, long_enough(builtin)))
    drawn = table(out, "rates").query("probe == 'linear, L2'").set_index("layer")
    assert list(drawn.index) == [1, 4, 6]
    asked = {"layers": drawn.index.tolist(), "folds": SMALL.folds}
    alone = whence.identify(builtin, sentences, loss="l2", truncate=True, cache=out, **asked)
    assert drawn["rate"].to_numpy() == pytest.approx(alone.rate.mean("fold").values)
    assert drawn["low"].to_numpy() == pytest.approx(alone.rate.min("fold").values)
    train = table(out, "train_test").query("probe == 'linear, train'")["rate"]
    assert train.to_numpy() == pytest.approx(alone.train_rate.mean("fold").values)


def test_what_is_drawn_is_consistent(out):
    """The diagonal of trained-on against tested-on, and the neighbour no places away, are one experiment."""
    grid = table(out, "across_linear_cosine")
    same = grid[grid["trained_on"] == grid["tested_on"]].set_index("tested_on")["rate"]
    itself = table(out, "neighbours_linear_cosine").query("probe == 'the token itself'").set_index("layer")["rate"]
    assert same[itself.index].to_numpy() == pytest.approx(itself.to_numpy())
    for name in ("rates", "previous", "neighbours_linear_cosine", "elsewhere"):
        assert table(out, name)["rate"].between(0, 1).all()


def test_findings_carry_their_statistics(found):
    assert len(found["claims"]) > 10
    for claim in found["claims"]:
        assert re.search(r"\d", claim["statistic"]), claim["says"]
    known = {claim["says"]: claim["verdict"] for claim in found["claims"]}
    for words in ("A linear map is enough", "late layers"):
        assert next(verdict for says, verdict in known.items() if words in says) == "confirmed", words


def test_published_figures_stand_beside_ours_only_where_the_model_is_theirs(out):
    assert table(out, "rates")["published"].isna().all()
    assert table(out, "training_share")["bert-base-uncased, layer 11"].tolist() == [0.74, 0.8, 0.81, 0.82]
    assert table(out, "last_layer").set_index("last layer")["bert-base-uncased"]["linear, cosine"] == "93%"


def test_the_page_needs_nothing_else(out):
    page = (out / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "Not here: Brunner et al. 2020, Fig. 9" in page


def test_it_goes_on_where_it_was(out, builtin, corpora, monkeypatch):
    monkeypatch.setattr("whence.studies.token_experiments.identify", lambda *_, **__: pytest.fail("asked again"))
    context = Context(builtin, corpora, out, quick=True)
    again = asked("token-identifiability", context)
    drawn = {item.name.removeprefix("identity_"): item.written for item in again if isinstance(item, Shown)}
    assert tuple(drawn) == NAMES
    pandas.testing.assert_frame_equal(drawn["rates"], table(out, "rates"), check_dtype=False)


def test_a_decoder_alone(builtin, corpora, tmp_path):
    """No second model, no second corpus, no absolute positions: what is missing is said, what is odd is explained."""
    llama = whence.load(build("llama", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)
    context = Context(llama, corpora[1:], tmp_path, quick=True)
    items = asked("token-identifiability", context)
    shown = {item.name.removeprefix("identity_"): item for item in items if isinstance(item, Shown)}
    assert list(shown) == [name for name in NAMES if name != "elsewhere"]
    assert all(draw(item.drawing) for item in shown.values())
    left = " ".join(item.why for item in items if isinstance(item, Left))
    assert "name another with --models" in left and "name more with --data" in left
    assert "has not read" in shown["neighbours_linear_cosine"].note and "is a tie" in shown["rates"].note
