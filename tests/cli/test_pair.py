"""Two stacks on the command line: a source and the beginning of its answer, in the terminal."""

import pytest

from tests import tiny
from tests.stacks import build
from whence.cli import run


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translator")
    build("bart").save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)


def test_explain_shows_both_stacks_and_what_each_token_rests_on(translator, capsys):
    given = ["ada bo cy", "--prefix", "fay gus", "--measures", "mixing,contribution", "--model", translator]
    assert run(["explain", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"Encoder", "Decoder"} <= set(lines)
    assert "“tokens” are the answer's own" in " ".join(lines)
    rows = [line for line in lines if line.startswith(("fay <- ", "gus <- "))]
    assert len(rows) == 2 and all(line.count(",") == 2 for line in rows)
    assert all(sum(int(word) for word in row.replace(",", "").split() if word.isdigit()) <= 101 for row in rows)


def test_why_explains_what_comes_next_and_what_is_generated(translator, capsys):
    assert run(["why", "ada bo cy", "--prefix", "fay", "--model", translator, "--layers", "0", "5"]) == 0
    shown = capsys.readouterr().out
    assert "after “fay”" in shown and "ada" in shown and "(sink)" not in shown
    assert run(["why", "ada bo cy", "--generate", "2", "--model", translator]) == 0
    assert "strongest sources" in capsys.readouterr().out


def test_a_prefix_is_for_two_stacks(capsys):
    for verb in ("why", "explain"):
        assert run([verb, "Paris is the capital of [MASK].", "--prefix", "x"]) == 2
        assert "--prefix is the beginning of an encoder-decoder's answer" in capsys.readouterr().err
