"""Every example runs, and says what it promises."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "page.html")])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir())
