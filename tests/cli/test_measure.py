"""whence measure: a corpus from the command line."""

import pytest

import whence
from whence.cli import run

TEXTS = "Paris is the capital of France.\nThe keys to the cabinet are on the table.\n\nShe said that he left.\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "some.txt").write_text(TEXTS)
    return str(tmp_path / "some.txt")


def test_a_file_becomes_a_run(corpus, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["measure", corpus, "--out", out, "--measures", "mixing,attn_w", "--part-size", "2"]) == 0
    printed = capsys.readouterr().out
    found = whence.open(out)
    assert "3 sentences" in printed and out in printed
    assert found.sentences.text.tolist() == TEXTS.replace("\n\n", "\n").splitlines()
    assert found.manifest["plan"]["measures"] == ["mixing", "norms"] and found.manifest["corpus"]["name"] == "some"
    assert run(["measure", corpus, "--out", out, "--measures", "mixing,attn_w", "--part-size", "2"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--measures", "nonsense"], "no measure 'nonsense'"),
        (["--by", "colour"], "grouped by class, upos"),
        (["--engine", "steam"], "steam"),
        (["--part-size", "0"], "part_size is at least 1"),
        (["--limit", "0"], "Nothing was measured: some has no sentences"),
    ],
)
def test_refused_in_one_sentence(corpus, tmp_path, capsys, arguments, says):
    assert run(["measure", corpus, "--out", str(tmp_path / "run"), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_another_run_is_refused(corpus, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["measure", corpus, "--out", out]) == 0
    assert run(["measure", corpus, "--out", out, "--neighbours", "4"]) == 2
    assert "its plan neighbours is 1, and 4 was asked for" in capsys.readouterr().err


def test_control_c_says_how_to_go_on(corpus, tmp_path, capsys, monkeypatch):
    from whence.run.work import Worker

    def interrupted(self, prepared):
        raise KeyboardInterrupt

    out = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "measure", interrupted)
        assert run(["measure", corpus, "--out", out]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert run(["measure", corpus, "--out", out]) == 0
