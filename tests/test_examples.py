"""Every example runs, and says what it promises."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.studies.undrawn import undrawn

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LONG = ("study_correlates", "study_token_identifiability")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.whole if path.stem in LONG else (), id=path.stem) for path in EXAMPLES],
)
def test_example(path, tmp_path, monkeypatch, capsys, loaded_once):
    """Without the charts of studies, which take most of the time; those are drawn with the studies' own tests."""
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "page.html")])
    with undrawn():
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir())
