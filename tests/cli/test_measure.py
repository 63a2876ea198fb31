"""whence measure: a corpus from the command line."""

import pytest

import whence
from whence.cli import run
from whence.cli.shared import reading

TEXTS = "Paris is the capital of France.\nThe keys to the cabinet are on the table.\n\nShe said that he left.\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "some.txt").write_text(TEXTS)
    return str(tmp_path / "some.txt")


def test_a_file_becomes_a_run(corpus, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["measure", corpus, "--out", out, "--measures", "mixing,attn_w", "--part-size", "2"]) == 0
    printed = capsys.readouterr().out
    found = whence.open_run(out)
    assert "3 sentences" in printed and out in printed
    assert found.sentences.text.tolist() == TEXTS.replace("\n\n", "\n").splitlines()
    assert found.manifest["plan"]["measures"] == ["mixing", "norms"] and found.manifest["corpus"]["name"] == "some"
    assert run(["measure", corpus, "--out", out, "--measures", "mixing,attn_w", "--part-size", "2"]) == 0


def test_layers_and_options_of_the_measures(corpus, tmp_path):
    out = str(tmp_path / "run")
    measures = ["--measures", "jacobian_local,gradient_local,effective", "--limit", "1"]
    chosen = ["--options", "norm=ones, tolerance=0.5", "--layers", "2", "6"]
    assert run(["measure", corpus, "--out", out, *measures, *chosen]) == 0
    found = whence.open_run(out)
    plan = found.manifest["plan"]
    assert plan["layers"] == [2, 6] and set(found.tokens.layer) == {2, 6}
    assert plan["options"] == {"jacobian_local": {"norm": "ones", "sources": None}, "effective": {"tolerance": 0.5}}
    same = found.tokens[["jacobian_local_own", "gradient_local_own"]].to_numpy()
    assert same[:, 0] == pytest.approx(same[:, 1], rel=1e-4)  # the norm of the ones is the gradient's


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--options", "maps=3"], "and 'maps=3' was given; there are: error"),
        (["--options", "norm"], "and 'norm' was given"),
        (["--options", "norm=ones"], "No measure asked for has an option 'norm'"),
        (["--layers", "9"], "layers 1 to 6, and 9"),
        (["--measures", "nonsense"], "no measure 'nonsense'"),
        (["--by", "colour"], "grouped by class, upos"),
        (["--engine", "steam"], "steam"),
        (["--part-size", "0"], "part_size is a whole number of at least 1"),
        (["--limit", "0"], "Nothing was measured: some has no sentences"),
    ],
)
def test_refused_in_one_sentence(corpus, tmp_path, capsys, arguments, says):
    assert run(["measure", corpus, "--out", str(tmp_path / "run"), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


TABLE = "field\tgood, or not\tsentence_good\nagreement\tyes\tThe cats sit.\nbinding\tno\tShe saw herself.\n"


@pytest.fixture
def blimp(tmp_path):
    (tmp_path / "blimp.tsv").write_text(TABLE)
    return str(tmp_path / "blimp.tsv")


def test_columns_of_other_names(blimp, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["measure", blimp, "--out", out]) == 2
    assert "no column 'text' or 'sentence'; the columns are 'field'" in (said := capsys.readouterr().err)
    assert "--read text=COLUMN" in said
    assert run(["measure", blimp, "--out", out, "--read", "text=sentence_good,document=field"]) == 0
    assert whence.open_run(out).sentences.text.tolist() == ["The cats sit.", "She saw herself."]
    assert whence.open_run(out).sentences.document.tolist() == ["agreement", "binding"]


def test_a_table_without_a_header(blimp, tmp_path):
    out = str(tmp_path / "run")
    assert run(["measure", blimp, "--out", out, "--read", "text=3,pair=1,header=no", "--limit", "1"]) == 0
    assert whence.open_run(out).sentences[["text", "pair"]].values.tolist() == [["sentence_good", "field"]]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, {}),
        ("text=sentence_good", {"text": "sentence_good"}),
        ("text=good, or not,label=field", {"text": "good, or not", "label": "field"}),
        ("text=a=b, header=yes", {"text": "a=b", "header": True}),
    ],
)
def test_how_to_read(given, found):
    assert reading(given) == found


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("text", "takes options as in text=review,label=stars, and 'text' was given"),
        ("text=", "and 'text=' was given"),
        ("limit=3", "and 'limit=3' was given"),
        ("header=perhaps", "'header' is yes or no, and 'perhaps' was given"),
        ("colour=red", "The format tsv has no option 'colour'; its options are text, pair"),
        ("text=nothing", "There is no column 'nothing'; the columns are 'field', 'good, or not', 'sentence_good'"),
    ],
)
@pytest.mark.parametrize(
    "command", [["measure", "--out", "run"], ["identify"], ["lm-head"], ["study", "mixing", "--out", "study", "--data"]]
)
def test_every_command_is_told_how_to_read(blimp, tmp_path, monkeypatch, capsys, command, given, says):
    monkeypatch.chdir(tmp_path)
    assert run([*command, blimp, "--read", given]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_text_is_not_read_like_a_corpus(capsys):
    assert run(["lm-head", "Paris is [MASK].", "--read", "text=a"]) == 2
    assert "--read is for a corpus, and a text was given" in capsys.readouterr().err


def test_another_run_is_refused(corpus, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["measure", corpus, "--out", out]) == 0
    assert run(["measure", corpus, "--out", out, "--neighbours", "4"]) == 2
    assert "it was begun with neighbours 1, and 4 was asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (["--limit", "2"], ["--limit", "3"], "was begun with the limit 2, and the limit 3 was given"),
        (["--limit", "3"], ["--limit", "2"], "was begun with the limit 3, and the limit 2 was given"),
        (["--limit", "1"], [], "was begun with the limit 1, and no limit was given"),
    ],
)
def test_another_limit_is_called_that(corpus, tmp_path, capsys, before, now, says):
    asked = ["measure", corpus, "--out", str(tmp_path / "run"), "--part-size", "2"]
    assert run([*asked, *before]) == 0
    capsys.readouterr()
    assert run([*asked, *now]) == 2
    assert says in capsys.readouterr().err
    assert run([*asked, *before]) == 0


def test_a_stopped_run_goes_on_to_a_later_limit(corpus, tmp_path, monkeypatch):
    from whence.corpus.worker import Worker

    asked = ["measure", corpus, "--part-size", "1", "--out"]
    whole, done = Worker.measure, []

    def interrupted(self, prepared):
        if done:
            raise KeyboardInterrupt
        done.append(prepared)
        return whole(self, prepared)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "measure", interrupted)
        assert run([*asked, str(tmp_path / "run"), "--limit", "2"]) == 130
    for out in ("run", "undisturbed"):
        assert run([*asked, str(tmp_path / out), "--limit", "3"]) == 0
    manifests = [(tmp_path / out / "manifest.json").read_bytes() for out in ("run", "undisturbed")]
    assert manifests[0] == manifests[1] and whence.open_run(tmp_path / "run").manifest["corpus"]["limit"] == 3


def test_control_c_says_how_to_go_on(corpus, tmp_path, capsys, monkeypatch):
    from whence.corpus.worker import Worker

    def interrupted(self, prepared):
        raise KeyboardInterrupt

    out = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "measure", interrupted)
        assert run(["measure", corpus, "--out", out]) == 130
    assert "the same command resumes" in capsys.readouterr().err
    assert run(["measure", corpus, "--out", out]) == 0


def test_what_answers_rest_on(tmp_path, capsys):
    """A run about predictions, which takes no options of measures."""
    (tmp_path / "some.txt").write_text("Paris is the capital of [MASK].\nShe said that [MASK] left.\n")
    asked = ["measure", str(tmp_path / "some.txt"), "--out", str(tmp_path / "run"), "--measures", "share"]
    assert run(asked) == 0
    assert "2 sentences, 2 tokens" in capsys.readouterr().out
    found = whence.open_run(tmp_path / "run")
    sums = found.pairs.groupby("sentence").share.sum() + found.tokens.bias_0
    assert sums.to_numpy() == pytest.approx(found.tokens.logit.to_numpy(), abs=1e-3)
    assert run([*asked, "--options", "norm=ones"]) != 0
    assert "takes no --options" in capsys.readouterr().err
