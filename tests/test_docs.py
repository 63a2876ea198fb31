"""What the documentation tells one to run, runs: every block of Python and every whence command, page by page.

A block is left out only where `<!-- not run: the reason -->` stands before it.
"""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest

import whence
from whence import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs/tutorial.md", *sorted((ROOT / "docs/howto").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<kind>python|pycon|sh)\n(?P<code>.*?)^```", re.M | re.S
)
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"  # read from the Hub in the documentation, from a package here


def blocks(page):
    return [match for match in BLOCK.finditer(page.read_text()) if not match["reason"]]


def run_python(code, page, line, names):
    exec(compile("\n" * line + code, str(page), "exec"), names)


def run_pycon(code, page, line, names):
    said = []
    test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)


def run_sh(code, page, line, names):
    for command in code.replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["whence"]:
            assert cli.run(words[1:]) == 0, f"{page.name}: {command}"


@pytest.fixture
def hub(request, monkeypatch):
    """Loads the decoder that pages name from this machine."""
    real = whence.load

    def load(model=None, *args, **options):
        return real(request.getfixturevalue("smollm2_folder") if model == SMOLLM2 else model, *args, **options)

    monkeypatch.setattr(importlib.import_module("whence.models.load"), "load", load)


LONG = ("context", "checkpoints")  # a real decoder is read from GGUF, and runs are made: `make whole`


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.whole if page.stem in LONG else (), id=page.stem) for page in PAGES],
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys, hub):
    monkeypatch.chdir(tmp_path)
    runs = {"python": run_python, "pycon": run_pycon, "sh": run_sh}
    names = {}
    for block in blocks(page):
        line = page.read_text()[: block.start("code")].count("\n")
        runs[block["kind"]](block["code"], page, line, names)
    assert blocks(page), f"{page} has nothing to run"
