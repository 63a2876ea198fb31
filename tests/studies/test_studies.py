"""Every study end to end on the built-in model, and what a model gets that cannot give everything."""

import importlib
import json
import re
import sys
from pathlib import Path

import pandas
import pytest

import whence
from tests import tiny
from whence.errors import BadInput, Unsupported
from whence.plot.drawing import Drawing
from whence.studies import STUDIES, _answered, find
from whence.studies.context import Context, falls, spearman
from whence.studies.frame import Answered, Claim, Left, Section, Shown
from whence.studies.prepare import Chosen, at_most, masked, of_length
from whence.studies.write import write
from whence.text import MASK, Mention, Sentence, Word

# study -> its corpora, below the shared data
DATA = {
    "mixing": ("text:enwiki/excerpt_5MB.txt", "sst2:sst2/dev.tsv"),
    "attention-identifiability": ("text:enwiki/excerpt_5MB.txt",),
    "attribution": ("mrpc:mrpc/dev.tsv", "conllu:ud_gum/en_gum-ud-dev.conllu"),
    "correlates": ("conllu:ud_gum/en_gum-ud-dev.conllu",),
}
LONG = ("attribution", "correlates")
# findings of the papers that the built-in model is known to share, by words in them
SHARED = {
    "mixing": ("Every component", "most of a token stays its own"),
    "attention-identifiability": ("effective attention is attention itself", "the longer the text", "at least as many"),
    "attribution": ("falls with depth", "Context stays mostly local"),
    "correlates": ("correlated",),
}


def corpora(data, name):
    return [each.replace(":", f":{data}/", 1) for each in DATA[name]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.whole if name in LONG else ()) for name in DATA])
def test_a_study_draws_every_section_and_keeps_its_numbers(builtin, data, tmp_path, name):
    told = []
    page = whence.study(
        name, builtin, corpora(data, name), tmp_path, quick=True, progress=lambda *each: told.append(each)
    )
    found = json.loads((tmp_path / "findings.json").read_text())
    assert len(found["pictures"]) >= len(find(name).sections) and told
    assert not found["left_out"]
    for picture in found["pictures"]:
        table = pandas.read_parquet(tmp_path / "tables" / f"{picture['name']}.parquet")
        assert len(table) == len(pandas.read_csv(tmp_path / "tables" / f"{picture['name']}.csv")) > 0
        assert (tmp_path / "charts" / f"{picture['name']}.svg").read_text().count("<path") > 3  # not an empty frame
        assert (tmp_path / "charts" / f"{picture['name']}.html").stat().st_size > 100_000  # Vega is inside
    for claim in found["claims"]:
        assert claim["confirmed"] in (True, False, None) and re.search(r"\d", claim["statistic"])
    for words in SHARED[name]:
        (claim,) = [each for each in found["claims"] if words in each["says"]][:1]
        assert claim["confirmed"], claim
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(https?:)?//", text) and "Content-Security-Policy" in text
    assert "&#x27;" not in re.sub(r"<img[^>]*>", "", text) or "<script" not in text


def test_a_study_goes_on_where_it_was(builtin, data, tmp_path, monkeypatch):
    """The second time nothing is measured."""
    corpus = whence.read(f"sst2:{data}/sst2/dev.tsv", limit=6)
    whence.study("mixing", builtin, corpus, tmp_path, quick=True)
    before = (tmp_path / "tables" / "mixing_means.csv").read_text()
    monkeypatch.setattr(sys.modules["whence.run.work"], "measured", lambda *_: pytest.fail("measured again"))
    whence.study("mixing", builtin, corpus, tmp_path, quick=True)
    assert (tmp_path / "tables" / "mixing_means.csv").read_text() == before


def test_means_are_those_of_the_sentences_measured_alone(builtin, tmp_path):
    texts = ["The cat sat on the mat today.", "It rained all day in the old town."]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    whence.study("mixing", builtin, str(tmp_path / "texts.txt"), tmp_path / "out", quick=True)
    table = pandas.read_csv(tmp_path / "out" / "tables" / "mixing_means.csv").set_index("method")
    given = [masked(0.12, 90)(Sentence(text)).text for text in texts]
    alone = [whence.measure(builtin, text, ["mixing"])["mixing"] for text in given]
    for method in table.index:
        values = pandas.concat([pandas.Series(each.sel({"method": method}).values.ravel()) for each in alone])
        assert table.loc[method, "mean"] == pytest.approx(values.mean(), rel=1e-4)
        assert table.loc[method, "high"] == pytest.approx(values.max(), rel=1e-4)


@pytest.mark.parametrize("kind", ["ids", "words"])
def test_ranks_from_a_list(builtin, tmp_path, kind):
    """Only items of the list are drawn, each at its rank."""
    words = ["the", "town", "cat", "day", "on"]
    ids = builtin.tokenizer.convert_tokens_to_ids(words)
    lines = [
        f"{r} {100 - r} {i}" if kind == "ids" else f"{w}\t{100 - r}"
        for r, (w, i) in enumerate(zip(words, ids, strict=True), 1)
    ]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    (tmp_path / "texts.txt").write_text("The cat sat on the mat today.\nIt rained all day in the old town.")
    asked = {"quick": True, "frequency": str(tmp_path / "list.txt")}
    whence.study("mixing", builtin, str(tmp_path / "texts.txt"), tmp_path / "out", **asked)
    table = pandas.read_csv(tmp_path / "out" / "tables" / "mixing_frequency.csv")
    assert 3 <= len(table) <= 5 and set((10 ** table["rank"]).round().astype(int)) <= {1, 2, 3, 4, 5}


def test_bad_input(builtin, tmp_path):
    with pytest.raises(BadInput, match="no study 'bogus'"):
        whence.study("bogus", builtin, "a.txt", tmp_path)
    with pytest.raises(BadInput, match="needs data"):
        whence.study("mixing", builtin, [], tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(BadInput, match="no sentence"):
        whence.study("mixing", builtin, str(tmp_path / "empty.txt"), tmp_path / "out")


def test_every_study_says_what_it_asks():
    for name in STUDIES:
        study = find(name)
        assert study.name == name and study.asks.endswith("?") and "--data" in study.data and "20" in study.paper
        assert all(section.asks.endswith("?") for section in study.sections)


@pytest.mark.parametrize(
    ("rates", "fall"),
    [
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], True),
        ([0.43, 0.81, 0.73, 0.68, 0.64, 0.56], False),
        ([0.4, 0.5, 0.6, 0.7, 0.8, 0.9], False),
        ([0.5] * 6, False),
    ],
)
def test_a_trend_is_more_than_a_sign(rates, fall):
    """The second rises once and falls thereafter: its rank correlation with the layer is -0.14."""
    assert falls(spearman(pandas.Series(range(6)), pandas.Series(rates))) == fall


def test_masks_are_always_the_same_and_annotations_end_with_the_text():
    text = "One two three four five six seven eight nine ten " * 5
    given = masked(0.3, 30)(Sentence(text))
    assert given.text == masked(0.3, 30)(Sentence(text)).text and 2 < given.text.count(MASK) < 20
    assert len(at_most(7)(Sentence(text)).text.split()) == 7
    assert at_most(7, least=100)(Sentence(text)) is None
    words = (Word(0, 3, head=2), Word(4, 7, head=0), Word(8, 13))
    cut = at_most(2)(Sentence("One two three", words=words, mentions=(Mention("a", (0,)), Mention("b", (1, 2)))))
    assert [word.head for word in cut.words] == [None, 0] and [each.entity for each in cut.mentions] == ["a"]
    assert of_length(3, 3)(Sentence("a b c")) is not None and of_length(3, 3)(Sentence("a b c d")) is None


def test_as_many_sentences_as_were_asked_for(tmp_path):
    (tmp_path / "t.txt").write_text("a b c\n\nd\ne f g\nh i j\n")
    chosen = Chosen(whence.read(tmp_path / "t.txt"), 2, at_most(10, least=2))
    assert [each.text for each in chosen] == ["a b c", "e f g"] and len(chosen) == 2


def test_what_was_found_before_something_unsupported_stays(builtin):
    def make(context):
        yield Claim("Something.", True, "of it")
        raise Unsupported("No more of it.")

    answered = _answered(Section("One", "What?", make), Context(builtin, (), Path()))
    assert answered.items == [Claim("Something.", True, "of it"), Left("One", "No more of it")]


def test_a_picture_of_many_marks_is_pixels_on_the_page(builtin, tmp_path):
    few, many = (
        Shown(f"points_{count}", "", Drawing("points", pandas.DataFrame({"x": range(count), "y": 0.5}), "x", "y", "A"))
        for count in (3, 3000)
    )
    answers = [Answered(Section("One", "What?", lambda context: ()), [few, many])]
    page = write(find("mixing"), Context(builtin, (), tmp_path).provenance("mixing"), tmp_path, answers).read_text()
    small, large = (page[page.index(f'id="{item.name}"') :].split("</figure>")[0] for item in (few, many))
    assert small.count("data:image/svg+xml") == 2 and small.count(" 1x") == 2
    assert large.count("data:image/png") == 2 and large.count(" 2x") == 2 and len(large) < 200_000
    assert (tmp_path / "charts" / "points_3000.svg").stat().st_size > len(large)


def test_what_is_not_installed_is_named(monkeypatch):
    needed = sys.modules["whence.studies.needed"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "statsmodels" else object())
    with pytest.raises(Unsupported, match="need statsmodels: pip install"):
        importlib.reload(needed)


def test_correlates_of_a_hybrid_are_those_of_the_layers_that_attend(data, tmp_path):
    model = tiny.model("jamba", num_hidden_layers=4)
    corpus = whence.read(f"conllu:{data}/ud_gum/en_gum-ud-dev.conllu", limit=4)
    whence.study("correlates", model, corpus, tmp_path, quick=True)
    pairs = [whence.open(folder).pairs for folder in (tmp_path / "runs").iterdir()]
    assert all(
        set(table.layer) == {2, 4} and table[["attention", "gradient"]].notnull().all(axis=None) for table in pairs
    )
