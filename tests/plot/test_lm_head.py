"""Charts of the head show every number they claim to, can leave, and the rows in words are those of the Dataset."""

import numpy as np
import pytest
import xarray

import whence
from whence import cli
from whence.errors import BadInput
from whence.page.payload import payload
from whence.plot import lm_head as charts
from whence.plot.predictions import chance, headline, long_headline, predictions
from whence.plot.terminal import picture
from whence.text.sentence import Sentence

TEXT = "The keys to the [MASK] were on the [MASK]."
CLOZES = [("The sky is [MASK].", "blue"), ("A dog is an [MASK].", "animal"), ("He drank [MASK].", "beer")]


@pytest.fixture(scope="module")
def one(builtin):
    return whence.lm_head(builtin, "The sky is [MASK].")


@pytest.fixture(scope="module")
def results(builtin, one):
    corpus = [Sentence(text, labels={"answer": answer}) for text, answer in CLOZES]
    return {
        "text": one,
        "layers": whence.lm_head(builtin, "The sky is [MASK].", layer="all"),
        "corpus": whence.cloze(builtin, corpus),
        "recipes": whence.perturb(builtin, corpus),
    }


def datasets(chart):
    return list(chart.to_dict()["datasets"].values())


@pytest.mark.parametrize(
    ("result", "kind", "marks"),
    [
        ("text", "grid", 64),
        ("text", "sorted", 80),
        ("text", "norm", 384),
        ("layers", "lens", 56),
        ("layers", "grid", 64),
        ("corpus", "hits", 56),
        ("corpus", "grid", 64),
        ("corpus", "histograms", charts.BARS),
        ("recipes", "hits", 28),
        ("recipes", "histograms", charts.BARS),
    ],
)
def test_every_mark_is_there(results, result, kind, marks, tmp_path):
    for theme in ("light", "dark"):
        chart = charts.drawn(results[result], kind, theme)
        assert marks in [len(rows) for rows in datasets(chart)]
    chart.save(tmp_path / "chart.svg")
    assert "<svg" in (tmp_path / "chart.svg").read_text()[:200]


def test_histograms_count_every_sentence(results):
    drawn = datasets(charts.histograms(results["corpus"]))
    assert drawn
    for rows in drawn:
        assert sum(row["sentences"] for row in rows) == 3


def test_sorted_by_itself_a_stage_rises(one):
    drawn = [row for rows in datasets(charts.sorted_scores(one)) for row in rows]
    for stage in one.stage.values[[0, -1]]:
        own = [row["score"] for row in drawn if row["stage"] == stage and row.get("sorted by") == f"sorted by {stage}"]
        assert len(own) == 40 and own == sorted(own)


@pytest.mark.parametrize(("kind", "says"), [("pie", "no chart 'pie'"), ("hits", "needs 'hits'"), ("lens", "'layer'")])
def test_what_cannot_be_drawn(one, kind, says):
    with pytest.raises(BadInput, match=says):
        charts.drawn(one.drop_vars("layer"), kind)


def test_rows_in_words(one):
    (found,) = predictions(one)
    assert [row.stage for row in found.rows] == one.stage.values.tolist()
    assert found.rows[-1].place == 1 and found.token == one.top.isel(stage=-1, best=0).item()
    assert found.rows[2].best == one.top.isel(layer=0, position=0, stage=2).values.tolist()


def test_the_finding_says_since_when():
    """From the step on since which it has stayed first, however often it was first before."""
    names = ["trf-out", "dense-w", "gelu", "lmhead-out"]
    ranks = {(1, 1, 1, 1): "leads at every step", (1, 9, 1, 1): "from gelu on, in place 1", (1200, 1, 2, 1): "1,200"}
    for places, says in ranks.items():
        found = xarray.Dataset(
            {
                "top": (("position", "stage", "best"), np.full((1, 4, 1), "blue", dtype=object)),
                "top_score": (("position", "stage", "best"), np.zeros((1, 4, 1))),
                "place": (("position", "stage", "candidate"), np.reshape(places, (1, 4, 1))),
            },
            {"stage": names, "position": [3], "position_token": ("position", ["[MASK]"])},
        )
        assert says in predictions(found)[0].finding


@pytest.fixture(scope="module")
def explained(builtin):
    from whence.sentence.lm_head import predictions as beside

    return whence.measure(builtin, TEXT, ["mixing"]).assign(beside(builtin, TEXT))


def test_the_headline_is_the_prediction_with_its_probability(builtin, explained):
    one = "Paris is the capital of [MASK]."
    scores = whence.lm_head(builtin, one).scores.isel(layer=0, position=0, stage=-1)
    chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    best = [int(token) for token in np.argsort(-chances.values)[:3]]
    words = [f"“{builtin.tokenizer.convert_ids_to_tokens(token)}”" for token in best]
    shares = [chance(float(chances[token])) for token in best]
    told = long_headline(whence.lm_head(builtin, one))
    assert headline(whence.lm_head(builtin, one)) == told.split(", before")[0]
    behind = [f"{word} ({share})" for word, share in zip(words[1:], shares[1:], strict=True)]
    assert told == f"{words[0]} is predicted at “[MASK]” with {shares[0]}, before {' and '.join(behind)}"
    assert headline(explained) == long_headline(explained)
    assert headline(explained).count("is predicted at “[MASK](") == 2
    assert headline(whence.measure(builtin, one, ["mixing"])) == ""


@pytest.mark.parametrize(
    ("share", "says"), [(0.001, "less than 1 %"), (0.999, "more than 99 %"), (0.5, "50 %"), (0.006, "1 %")]
)
def test_no_probability_is_none_or_all(share, says):
    assert chance(share) == says


def test_probabilities_of_all_layers_are_softmaxes(builtin):
    found = whence.lm_head(builtin, "Paris is the capital of [MASK].", layer=[0, 6], k=4)
    expected = np.exp(found.scores.isel(stage=-1).values.astype(float))
    expected /= expected.sum(axis=-1, keepdims=True)
    assert found.probability.dims == ("layer", "position", "candidate")
    for place, token in enumerate(found.candidate_token_id.values[0]):
        assert np.allclose(found.probability.values[:, 0, place], expected[:, 0, token], rtol=1e-4)


def test_the_page_and_the_terminal_begin_with_the_headline(explained):
    told = headline(explained)
    assert payload(explained)["finding"] == told.replace(" %", "\N{NO-BREAK SPACE}%")
    assert str(picture(explained, 200, color=False)).startswith(told)


def test_the_terminal_shows_every_step_of_every_mask(explained):
    drawn = str(picture(explained, 70, color=False))
    assert all(len(line) <= 70 for line in drawn.splitlines())
    assert drawn.count("lmhead-out") == 2 and "[MASK](5)" in drawn and "[MASK](9)" in drawn


def test_the_page_gets_a_panel_only_with_a_prediction(explained):
    data = payload(explained)
    assert "prediction" in data["panels"] and len(data["predictions"]) == 2
    rows = data["predictions"][0]["rows"]
    assert rows[0]["stage"] == "trf-out" and len(rows[0]["best"]) == len(rows[0]["scores"]) == 10
    bare = payload(explained.drop_vars(["top", "top_id", "top_score", "place"]))
    assert "prediction" not in bare["panels"] and bare["predictions"] == []


@pytest.fixture
def called(monkeypatch, capsys, loaded_once, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = cli.run(list(arguments))
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_the_command_on_a_text(called, tmp_path):
    code, out, err = called("lm-head", "The sky is [MASK].", "--out", "top.csv", "--chart", "grid.svg", "--top", "3")
    assert code == 0, err
    assert "lmhead-out" in out and "Spearman" in out and "1.00" in out
    assert (tmp_path / "top.csv").read_text().count("\n") == 25 and (tmp_path / "grid.svg").exists()


def test_the_command_on_layers(called):
    code, out, err = called("lm-head", "The sky is [MASK].", "--layer", "all", "--chart", "lens.svg")
    assert code == 0 and "Best token by layer" in out, err


def test_the_command_on_a_corpus(called, tmp_path):
    (tmp_path / "lama.jsonl").write_text('{"masked_sentences": ["The sky is [MASK]."], "obj_label": "blue"}\n')
    (tmp_path / "own.jsonl").write_text('{"sentence": "He plays the [MASK].", "answer": "hurdy-gurdy"}\n')
    code, out, err = called("lm-head", "lama.jsonl", "--out", "run", "--chart", "hits.svg")
    assert code == 0 and "1 of 1 answers" in out and "@100" in out, err
    assert (tmp_path / "run" / "manifest.json").exists()
    code, out, err = called("lm-head", "own.jsonl")
    assert code == 2 and "1 left out: the answer is not one token" in out and "a label that is one token" in err
    code, out, err = called("lm-head", "lama:lama.jsonl", "--recipe", "no-period", "no-end")
    assert code == 0 and "no-end" in out and "as it is" in out, err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("No gap.",), "no mask"),
        (("The sky is [MASK].", "--layer", "top"), "'top'"),
        (("The sky is [MASK].", "--chart", "x.gif"), ".svg"),
        (("The sky is [MASK].", "--out", "x.txt"), ".csv or .nc"),
        (("lama:missing.jsonl",), "missing.jsonl"),
        (("The sky is [MASK].", "--position", "70"), "positions 0 to"),
    ],
)
def test_bad_input_gets_one_sentence(called, arguments, says):
    code, _, err = called("lm-head", *arguments)
    assert code == 2 and says in err and err.count("\n") == 1
