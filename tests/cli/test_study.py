"""The study and report commands: what they print, what they write, what they refuse."""

import pytest

import whence
from tests.studies.undrawn import undrawn
from whence import cli

TEXTS = "The harbour was built where the river meets the sea.\nNobody knows who drew the first map of the coast.\n"


@pytest.fixture
def called(capsys):
    def call(*arguments):
        code = cli.run([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return call


def test_a_study_prints_its_verdicts_and_writes_its_page(called, tmp_path):
    (tmp_path / "t.txt").write_text(TEXTS)
    with undrawn():
        code, out, _ = called("study", "mixing", "--data", tmp_path / "t.txt", "--out", tmp_path / "out", "--quick")
    assert code == 0 and "Every component" in out and "The sample: a quick sample." in out and "report.html" in out
    assert "<h1>How much a block mixes" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("study", "bogus", "--data", "a.txt", "--out", "out"), "no study 'bogus'"),
        (("study", "mixing", "--out", "out"), "needs data"),
        (("study", "mixing", "--data", "missing.txt", "--out", "out"), "missing.txt"),
        (("report", "missing"), "missing"),
    ],
)
def test_bad_input_gets_one_sentence(called, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, _, err = called(*arguments)
    assert code == 2 and says in err and err.count("\n") == 1


def test_the_report_of_a_run(called, builtin, tmp_path):
    whence.run(builtin, TEXTS.splitlines(), ["mixing", "norms"], out=tmp_path / "run")
    code, out, _ = called("report", tmp_path / "run")
    page = tmp_path / "run" / "report" / "report.html"
    assert code == 0 and str(page) in out
    text = page.read_text()
    assert "By layer" in text and "By kind of token" in text and "Pairs of words" in text
    assert (tmp_path / "run" / "report" / "tables" / "by_layer_others.csv").stat().st_size > 100
    assert whence.open_run(tmp_path / "run").finished  # the report beside it does no harm
