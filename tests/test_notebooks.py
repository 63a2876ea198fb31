"""The notebooks run from top to bottom, and their other forms say what their sources say."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.test_docs import hub as hub  # the decoder that they name, from this machine

ROOT = Path(__file__).parents[1]


def _converter():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = _converter()
SLOW = {"decoder": pytest.mark.whole}


def source(name):
    return notebooks.cells((notebooks.SOURCES / f"{name}.py").read_text())


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ()), id=name) for name in notebooks.NAMES])
def test_a_notebook_runs(name, hub, monkeypatch):
    """What it says in words and in yes and no is what the page says; numbers may differ in their last digits."""
    found = source(name)
    notebooks.run(found)
    page = (notebooks.SOURCES / f"{name}.md").read_text()
    told = [cell.said["text/plain"] for cell in found if "text/plain" in cell.said and "text/html" not in cell.said]
    assert told
    for text in told:
        assert "False" not in text
        words = re.findall(r"[a-z]{4,}|True", text)
        assert set(words) <= set(re.findall(r"[a-z]{4,}|True", page)), text


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_its_other_forms_are_of_this_source(name):
    found = source(name)
    page = (notebooks.SOURCES / f"{name}.md").read_text()
    book = json.loads((notebooks.SOURCES / f"{name}.ipynb").read_text())
    cells = book["cells"][1:]  # the first installs
    assert [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells] == [
        (cell.source, cell.code) for cell in found
    ]
    assert all(cell.source in page for cell in found)
    assert (notebooks.SOURCES / "marimo" / f"{name}.py").read_text() == notebooks.as_marimo(found)


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_marimo_makes_every_name_once(name):
    """It refuses a notebook in which two cells define a name."""
    made = [names for cell in source(name) if cell.code for names in notebooks._made(ast.parse(cell.source))]
    assert len(made) == len(set(made))


def test_colab_opens_it_once_the_repository_has_an_address():
    assert notebooks.colab("encoder", None) == ""
    button = notebooks.colab("encoder", "https://github.com/someone/whence")
    assert "colab.research.google.com/github/someone/whence/blob/main/docs/notebooks/encoder.ipynb" in button
