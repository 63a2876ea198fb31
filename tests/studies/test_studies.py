"""Every study end to end on the built-in model, and what a model gets that cannot give everything."""

import dataclasses
import importlib
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pandas
import pytest

import whence
from tests import tiny
from tests.families import build
from tests.studies.undrawn import undrawn
from whence.errors import BadInput, Unsupported
from whence.models.load import Model
from whence.models.several import several
from whence.plot.drawing import Drawing
from whence.stats.estimate import constant
from whence.studies import STUDIES, attribution_rows, correlates, find
from whence.studies.attribution_tokens import _kept_by
from whence.studies.frame.answers import answered
from whence.studies.frame.context import Context, ends_and_middle, middle, trend
from whence.studies.frame.report import reported
from whence.studies.frame.sentences import Chosen, at_most, masked, of_length
from whence.studies.frame.study import Absent, Answered, Claim, Finding, Left, Section, Shown
from whence.studies.frame.verdict import MORE, intervals, verdict
from whence.studies.frame.write import write
from whence.studies.token_experiments import identified
from whence.text.sentence import MASK, Mention, Sentence, Word

# study -> its corpora: the sample, or the shared data where it takes long texts or hundreds of annotated sentences
DATA = {
    "mixing": ("text:articles.txt", "sst2:sentiment.tsv"),
    "attention-identifiability": ("text:enwiki/excerpt_5MB.txt",),
    "attribution": ("mrpc:mrpc/dev.tsv", "conllu:ud_gum/en_gum-ud-dev.conllu"),
    "correlates": ("conllu:ud_gum/en_gum-ud-dev.conllu",),
}
LONG = ("attention-identifiability", "attribution", "correlates")
# findings of the papers that the built-in model is known to share, by words in them
SHARED = {
    "mixing": ("Every component", "most of a token stays its own"),
    "attention-identifiability": (),  # the quick sample is of two articles, too few to decide
    "attribution": ("falls with depth", "Context stays mostly local"),
    "correlates": (),
}


@pytest.fixture
def without_charts():
    with undrawn():
        yield


@pytest.fixture
def corpora(request, name):
    folder = request.getfixturevalue("sample" if name == "mixing" else "data")
    return [source.replace(":", f":{folder}/", 1) for source in DATA[name]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.whole if name in LONG else ()) for name in DATA])
def test_a_study_draws_every_section_and_keeps_its_numbers(builtin, corpora, tmp_path, name):
    told = []
    page = whence.study(name, builtin, corpora, tmp_path, quick=True, progress=lambda *each: told.append(each))
    found = json.loads((tmp_path / "findings.json").read_text())
    assert len(found["pictures"]) >= len(find(name).sections) and told
    assert not found["left_out"]
    for picture in found["pictures"]:
        table = pandas.read_parquet(tmp_path / "tables" / f"{picture['name']}.parquet")
        assert len(table) == len(pandas.read_csv(tmp_path / "tables" / f"{picture['name']}.csv")) > 0
        assert (tmp_path / "charts" / f"{picture['name']}.svg").read_text().count("<path") > 3  # not an empty frame
        assert (tmp_path / "charts" / f"{picture['name']}.html").stat().st_size > 100_000  # Vega is inside
    for claim in found["claims"]:
        assert re.search(r"\d", claim["statistic"]), claim["says"]
    for words in SHARED[name]:
        (claim,) = [each for each in found["claims"] if words in each["says"]][:1]
        assert claim["verdict"] == "confirmed", claim
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(https?:)?//", text) and "Content-Security-Policy" in text


def test_a_study_goes_on_where_it_was(builtin, mixed, monkeypatch, without_charts):
    """The second time nothing is measured, whether its answers were kept or not."""
    before = (mixed / "tables" / "mixing_means.csv").read_text()
    monkeypatch.setattr("whence.corpus.worker.measured", lambda *_: pytest.fail("measured again"))
    for kept in (True, False):
        if not kept:
            (mixed / "answers.json").unlink()
        whence.study("mixing", builtin, str(mixed / "texts.txt"), mixed, quick=True)
        assert (mixed / "tables" / "mixing_means.csv").read_text() == before


def test_means_are_those_of_the_sentences_measured_alone(builtin, tmp_path, without_charts):
    texts = ["The cat sat on the mat today.", "It rained all day in the old town."]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    whence.study("mixing", builtin, str(tmp_path / "texts.txt"), tmp_path / "out", quick=True)
    table = pandas.read_csv(tmp_path / "out" / "tables" / "mixing_means.csv").set_index("analysis")
    given = [masked(0.12, 90)(Sentence(text)).text for text in texts]
    alone = [whence.measure(builtin, text, ["mixing", "mixing_block_n"])["mixing"] for text in given]
    for analysis in table.index:
        values = pandas.concat([pandas.Series(each.sel({"analysis": analysis}).values.ravel()) for each in alone])
        assert table.loc[analysis, "mean"] == pytest.approx(values.mean(), rel=1e-4)
        assert table.loc[analysis, "high"] == pytest.approx(values.max(), rel=1e-4)


@pytest.mark.parametrize("kind", ["ids", "words"])
def test_ranks_from_a_list(builtin, tmp_path, kind, without_charts):
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
    table = pandas.read_csv(tmp_path / "out" / "tables" / "mixing_frequency.csv").query("analysis == 'attn_w'")
    assert 3 <= len(table) <= 5 and set(table["rank"]) <= {1, 2, 3, 4, 5}


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
        assert len(study.sections) > 3 and all(section.asks.endswith("?") for section in study.sections)


@pytest.mark.parametrize("name", STUDIES)
def test_the_command_and_the_documentation_know_every_study(name):
    from whence.cli.study import study

    assert re.search(rf"(?<![\w-]){name}(?![\w-])", study.__doc__)
    assert runpy.run_path(str(Path(__file__).parents[2] / "docs" / "studies" / "results.py"))["SHOWN"][name]


def test_a_trend_is_more_than_a_sign():
    """The second rises once and falls thereafter."""
    assert [trend(pandas.Series(rates, range(1, 7))) for rates in ([9, 8, 7, 6, 5, 4], [4, 9, 8, 7, 6, 5])] == [
        -1,
        pytest.approx(-0.14, abs=0.01),
    ]


def test_masks_are_always_the_same_and_annotations_end_with_the_text():
    text = "One two three four five six seven eight nine ten " * 5
    given = masked(0.3, 30)(Sentence(text))
    assert given.text == masked(0.3, 30)(Sentence(text)).text and 2 < given.text.count(MASK) < 20
    assert len(at_most(7)(Sentence(text)).text.split()) == 7
    assert at_most(7, least=100)(Sentence(text)) is None
    words = (Word(0, 3, governor=2), Word(4, 7, governor=0), Word(8, 13))
    cut = at_most(2)(Sentence("One two three", words=words, mentions=(Mention("a", (0,)), Mention("b", (1, 2)))))
    assert [word.governor for word in cut.words] == [None, 0] and [each.entity for each in cut.mentions] == ["a"]
    assert of_length(3, 3)(Sentence("a b c")) is not None and of_length(3, 3)(Sentence("a b c d")) is None


def test_pairs_are_as_long_as_both_texts():
    pair = Sentence("Yes.", "I will come tomorrow, if it does not rain.")
    assert at_most(90, least=4)(pair) is pair and masked(0.5, 90, least=4)(pair) is pair
    assert (
        at_most(90, least=4)(Sentence("Yes.", "No.")) is not None and at_most(90, least=5)(Sentence("Y", "N")) is None
    )


@pytest.mark.parametrize(("corpus", "sentences", "tokens"), [("cola:cola/*.tsv", 1043, 12165), ("mnli", 500, 19892)])
def test_tokens_are_sought_in_the_papers_sample(builtin, data, tmp_path, monkeypatch, corpus, sentences, tokens):
    """All of CoLA, the first 500 of MNLI, which the paper cut to 128 tokens each: 19,839 of them."""

    def identify(model, chosen, *_, **__):
        lengths = [len(model.tokenizer(*each.texts)["input_ids"]) for each in chosen]
        assert corpus != "mnli" or sum(min(length, 128) for length in lengths) == 19839
        raise Unsupported(f"{len(lengths)} and {sum(lengths)}")

    monkeypatch.setattr("whence.studies.token_experiments.identify", identify)
    path = corpus if ":" in corpus else "mnli:mnli/dev_first1500.jsonl"
    given = whence.read(path.replace(":", f":{data}/", 1))
    with pytest.raises(Unsupported, match=f"^{sentences} and {tokens}$"):
        identified(Context(builtin, (given,), tmp_path), ("naive", "cosine"))


def test_as_many_sentences_as_were_asked_for(tmp_path):
    (tmp_path / "t.txt").write_text("a b c\n\nd\ne f g\nh i j\n")
    chosen = Chosen(whence.read(tmp_path / "t.txt"), 2, at_most(10, least=2))
    assert [each.text for each in chosen] == ["a b c", "e f g"] and len(chosen) == 2


def test_a_sample_is_of_as_many_documents_as_there_are(tmp_path):
    (tmp_path / "t.txt").write_text("a one\na two\na three\n\nb one\nb two\n\nc one\n")
    samples = {most: Chosen(whence.read(tmp_path / "t.txt"), most, spread=True) for most in (2, 4, 9)}
    texts = {most: [sentence.text for sentence in chosen] for most, chosen in samples.items()}
    assert [text[0] for text in texts[2]] == ["a", "b"] and {text[0] for text in texts[4]} == {"a", "b", "c"}
    assert texts[9] == ["a one", "a two", "a three", "b one", "b two", "c one"]
    assert len(texts[4]) == 4 and texts[4] == [text for text in texts[9] if text in texts[4]]
    assert texts[2] == [sentence.text for sentence in Chosen(samples[2].corpus, 2, spread=True)]


@pytest.mark.parametrize(
    ("quick", "sample", "most"), [(True, None, 5), (False, None, 40), (True, 9, 9), (False, 99, 40)]
)
def test_a_sample_has_so_many_texts_at_most(builtin, tmp_path, quick, sample, most):
    (tmp_path / "t.txt").write_text("a\n" * 50)
    context = Context(builtin, (whence.read(tmp_path / "t.txt"),), tmp_path, quick, sample=sample)
    assert len(context.texts(5, 40)) == most


@pytest.mark.parametrize("error", [Absent("there is none"), BadInput("The file is gone; give another.")])
def test_a_refusal_of_one_query_leaves_the_others(builtin, tmp_path, error):
    def nothing(context):
        raise error

    number = Claim("Something.", lambda context: constant(1.0), MORE)
    study = dataclasses.replace(
        find("mixing"), sections=(Section("One", "What?", (number, Claim("More.", nothing, MORE))),)
    )
    context = Context(builtin, (whence.read(f"text:{__file__}"),), tmp_path)
    (model,) = several(builtin)
    (section,) = reported(study, [(model, answered(study, context))])
    answers = section.items
    assert [type(item) for item in answers] == [Finding, Left] and answers[1] == Left("More", str(error).rstrip("."))
    assert answers[0].verdict == "confirmed" and "from the weights alone" in answers[0].statistic


def test_a_picture_of_many_marks_is_pixels_on_the_page(builtin, tmp_path):
    few, many = (
        Shown(f"points_{count}", "", Drawing("points", pandas.DataFrame({"x": range(count), "y": 0.5}), "x", "y", "A"))
        for count in (3, 3000)
    )
    answers = [Answered(Section("One", "What?"), [few, many])]
    page = write(find("mixing"), Context(builtin, (), tmp_path).provenance("mixing"), tmp_path, answers).read_text()
    small, large = (page[page.index(f'id="{item.name}"') :].split("</figure>")[0] for item in (few, many))
    assert small.count("data:image/svg+xml") == 2 and small.count(" 1x") == 2
    assert large.count("data:image/png") == 2 and large.count(" 2x") == 2 and len(large) < 200_000
    assert (tmp_path / "charts" / "points_3000.svg").stat().st_size > len(large)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("whence._extras.find_spec", lambda name: None if name == "statsmodels" else object())
    with pytest.raises(Unsupported, match="need statsmodels: pip install"):
        importlib.reload(whence.studies)


def test_correlates_of_a_hybrid_are_those_of_the_layers_that_attend(sample, tmp_path):
    model = tiny.model("jamba", num_hidden_layers=4)
    corpus = whence.read(f"conllu:{sample}/treebank.conllu", limit=2)
    pairs = correlates._run(Context(model, (corpus,), tmp_path, quick=True)).pairs
    assert set(pairs.layer) == {2, 4} and pairs[["attention", "gradient"]].notnull().all(axis=None)


@pytest.fixture(scope="module")
def mixed(builtin, tmp_path_factory):
    """The study of mixing on a few texts."""
    folder = tmp_path_factory.mktemp("mixing")
    texts = ["The cat sat on the mat all day and slept.", "It rained in the old town, and nobody went out at all."] * 6
    (folder / "texts.txt").write_text("\n".join(f"{text} {place}" for place, text in enumerate(texts)))
    with undrawn():
        whence.study("mixing", builtin, str(folder / "texts.txt"), folder, quick=True)
    return folder


def test_published_mixing_stands_beside_ours(mixed, builtin):
    grid = pandas.read_csv(mixed / "tables" / "mixing_by_type_published.csv").set_index("layer")
    assert list(grid.index) == list(range(1, 13)) and grid.loc[9, "bert-base-uncased, sep"] == 3
    assert grid.filter(like="ours").notna().any(axis=1).tolist() == [True] * 6 + [False] * 6
    models = pandas.read_csv(mixed / "tables" / "mixing_models.csv").set_index(["of", "figure"])
    assert models.loc[("bert-tiny", "max"), "attnresln_n"] == 70.4
    assert models.loc[("25 MultiBERTs", "mean"), "attn_w"] == 96.1
    assert models.loc[(builtin.id, "min"), "attn_n"] < models.loc[(builtin.id, "mean"), "attn_n"]
    data = pandas.read_csv(mixed / "tables" / "mixing_data_published.csv").set_index("of")
    assert data.loc["conll2003 (bert-base-uncased, published)", "attnres_n"] == 22.4


def test_the_whole_block_is_a_sixth_analysis_that_no_paper_printed(mixed, builtin):
    run = whence.open_run(next((mixed / "runs").glob("mixing-0-*")))
    means = pandas.read_csv(mixed / "tables" / "mixing_means.csv").set_index("analysis")
    assert means.index.tolist() == ["attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n", "block_n"]
    assert means.loc["block_n", "mean"] == pytest.approx(run.tokens["mixing_block_n"].mean(), rel=1e-5)
    models = pandas.read_csv(mixed / "tables" / "mixing_models.csv").set_index(["of", "figure"])
    assert models["block_n"].notna().tolist() == [name == builtin.id for name, _ in models.index]
    frequency = pandas.read_csv(mixed / "tables" / "mixing_frequency_spearman.csv").set_index("analysis")
    assert frequency.loc["block_n"].notna().tolist() == [True, True, False, False]


def test_without_its_feed_forward_a_model_keeps_the_other_five(tmp_path, monkeypatch, without_charts):
    """As where it is known by its output alone; the study says so, and why."""
    given = Model.gives.fget
    monkeypatch.setattr(Model, "gives", property(lambda model: given(model) - {"neurons"}))
    model = tiny.model()
    texts = tiny.texts(8)
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    whence.study("mixing", model, str(tmp_path / "texts.txt"), tmp_path, quick=True)
    assert len(pandas.read_csv(tmp_path / "tables" / "mixing_means.csv")) == 5
    left = json.loads((tmp_path / "findings.json").read_text())["left_out"]
    assert [item["why"] for item in left if item["what"].startswith("the whole block")] == [
        "its feed-forward is not taken apart"
    ]


def test_masks_are_a_kind_of_their_own(mixed, builtin):
    """With the others they are mixed more in later layers; among words of a frequency they have no place."""
    findings = json.loads((mixed / "findings.json").read_text())
    (claim,) = [each for each in findings["claims"] if "masked tokens are mixed more" in each["says"]]
    kinds = pandas.read_csv(mixed / "tables" / "mixing_by_type.csv").query("analysis == 'attnresln_n' and layer > 2")
    means = kinds.groupby("kind")["mixing"].mean()
    assert claim["parts"][""]["value"] == pytest.approx(means["mask"] - means["normal"], rel=1e-4)
    assert f"{means['mask'] - means['normal']:.1%}" in claim["statistic"] and claim["parts"][""]["documents"] == 12
    run = whence.open_run(next((mixed / "runs").glob("mixing-0-*")))
    assert builtin.tokenizer.mask_token_id in set(run.tokens.token_id)
    normal = run.tokens[~run.tokens["class"].isin(builtin.tokenizer.all_special_tokens)]
    table = pandas.read_csv(mixed / "tables" / "mixing_frequency.csv")
    assert len(table.query("analysis == 'attnresln_n' and not special")) == normal.token_id.nunique()


def test_what_is_kept_by_kind_is_in_the_order_of_the_last_layer():
    """Special tokens are kinds of their own, as in the paper."""
    own = {"[CLS]": (0.9, 0.1), "NOUN": (0.4, 0.3), "DET": (0.5, 0.2)}
    rows = [
        {"layer": layer, "token": "[CLS]" if tag == "[CLS]" else "x", "contribution_own": values[layer - 1]}
        | {"is_special": tag == "[CLS]", "upos": None if tag == "[CLS]" else tag}
        for tag, values in own.items()
        for layer in (1, 2)
        for _ in range(5)
    ]
    rows.append({"layer": 2, "token": "x", "contribution_own": 1.0, "is_special": False, "upos": "INTJ"})  # too few
    found = _kept_by(pandas.DataFrame(rows), "upos")
    for layer in (1, 2):
        table = found[found["layer"] == layer]
        assert table["upos"].tolist() == ["NOUN", "DET", "[CLS]"]
        assert table["middle"].tolist() == [own[tag][layer - 1] for tag in table["upos"]]


@pytest.mark.parametrize(("count", "half"), [(1, 1), (2, 1), (3, 2), (6, 3), (12, 6), (24, 12)])
def test_the_middle_layer(count, half):
    assert middle(range(1, count + 1)) == half
    assert ends_and_middle(range(1, count + 1)) == {1, half, count}


@pytest.mark.parametrize(("name", "count"), [("mrpc", 408), ("cola", 1043), ("mnli", 4000), ("text", 408)])
def test_the_full_sample_is_the_papers(builtin, tmp_path, monkeypatch, name, count):
    def run(context, name, measures, sentences, **options):
        raise Unsupported(f"{sentences.most} sentences of {sentences.corpus.format}")

    monkeypatch.setattr(Context, "run", run)
    (tmp_path / "a").touch()
    context = Context(builtin, (whence.read(f"{name}:{tmp_path / 'a'}"),), tmp_path)
    with pytest.raises(Unsupported, match=f"^{count} sentences of {name}"):
        attribution_rows.run_of(context)


def test_published_t_over_all_layers():
    measures = {"attention": "A", "gradient_local": "G", "gradient": "G*"}
    table = pandas.DataFrame(
        [{"layer": layer, "measure": name, "t": float(layer)} for name in measures.values() for layer in (1, 2, 10)]
    )
    overall = pandas.DataFrame({"value": list(measures), "t": [7.0, 8.0, 9.0]})
    found = correlates._t_beside(table, overall, "coreference").set_index("layer")
    assert list(found.index) == [*map(str, range(1, 13)), "all"]
    assert found.loc["all"].to_dict() == {
        "ours, A": 7.0,
        "ours, G": 8.0,
        "ours, G*": 9.0,
        "published, A": 23.38,
        "published, G": 19.01,
        "published, G*": 13.46,
    }
    assert found.loc["10", "ours, A"] == 10 and found.loc["2", "published, G*"] == 2.07


def test_flow_between_parts_of_speech_is_relative_to_its_mean():
    words = pandas.DataFrame({"target_upos": ["NOUN"] * 16, "source_upos": ["VERB"] * 8 + ["DET"] * 8})
    words = words.assign(attention=[3.0] * 8 + [1.0] * 8)
    found = correlates._flows(words, ["attention"]).set_index("source_upos")
    assert found["flow"].to_dict() == {"VERB": 1.5, "DET": 0.5} and set(found["measure"]) == {"A"}
    assert correlates._flows(words.iloc[:15], ["attention"])["source_upos"].tolist() == ["VERB"]  # seven are too few


@pytest.mark.parametrize(
    ("through", "local", "decided"),
    [([3, 2], [3, 0], "confirmed"), ([3, -2], [3, 0], "contradicted"), ([3, 2], [0, 3], "contradicted")],
)
def test_the_effect_on_gradients_from_the_embeddings_is_that_of_the_first_block(through, local, decided):
    """Twelve documents whose open classes give so much more in layers 1 and 2, but for a little chance."""
    chance = np.random.default_rng(0)
    rows = pandas.DataFrame(
        [
            {"document": f"d{document}", "layer": layer + 1, "open": is_open}
            | {"gradient": is_open * through[layer] + chance.normal() / 9}
            | {"gradient_local": is_open * local[layer] + chance.normal() / 9}
            for document in range(12)
            for layer in (0, 1)
            for is_open in (True, False)
            for _ in range(3)
        ]
    )
    context = Context(tiny.model(), (), Path(), quick=True)
    context._kept[correlates.words, ()] = rows
    assert verdict(intervals({name: [each] for name, each in correlates.persistence(context).items()}), MORE) == decided


@pytest.mark.parametrize("name", ["token-identifiability", "correlates"])
def test_claims_of_one_kind_ask_for_the_same(name):
    """Every trend and every difference of a study has one criterion."""
    claims = [item for section in find(name).sections for item in section.items if isinstance(item, Claim)]
    assert len({claim.criterion for claim in claims if "deeper" in claim.says or "Later layers" in claim.says}) <= 1
    assert {claim.criterion for claim in claims if "more" in claim.says and "(" in claim.says} <= {MORE}


@pytest.mark.parametrize("name", ["attribution", "correlates"])
def test_derivatives_are_enough(name):
    """A model that does not attend has them too."""
    assert all(section.needs == {"derivatives"} for section in find(name).sections)


@pytest.mark.slow
@pytest.mark.whole
def test_a_model_that_does_not_attend(builtin, data, tmp_path):
    """What is about single tokens and gradients is there; attention is left out of the comparison."""
    mamba = whence.load(build("mamba", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)
    corpus = whence.read(f"{data}/ud_gum/en_gum-ud-dev.conllu", limit=40)
    for name in ("attribution", "correlates"):
        context = Context(mamba, (corpus,), tmp_path / name, quick=True)
        (tmp_path / name).mkdir()
        titles = {"What is left", "Parts of speech", "Open and closed classes", "Between measures"}
        sections = [section for section in find(name).sections if section.title in titles]
        chosen = dataclasses.replace(find(name), sections=tuple(sections))
        (model,) = several(mamba)
        answers = reported(chosen, [(model, answered(chosen, context))])
        items = [item for section in answers for item in section.items]
        assert len(sections) == 2 and not [
            item for item in items if isinstance(item, Left) and not re.search("atten[dt]", item.why)
        ]
        assert sum(isinstance(item, Shown) for item in items) >= 2
