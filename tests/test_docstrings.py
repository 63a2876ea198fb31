"""Every public verb has an example that runs as it stands, explains its parameters, and is in the reference."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import whence
from whence.measures import options
from whence.plot import charts

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
VERBS = [name for name in whence._VERBS if name != "progress"]  # whose example is a bar


def examples(name, docstring):
    found = doctest.DocTestParser().get_doctest(docstring, {"whence": whence}, name, None, None)
    assert found.examples, f"{name} has no example"
    return found


CHARTS = ("overview", "mixing_grid", "mixing_lines", "maps", "write")
PUBLIC = {
    **{name: getattr(whence, name) for name in VERBS},
    **{f"stats.{name}": getattr(whence.stats, name) for name in whence.stats.__all__},
    **{f"charts.{name}": getattr(charts, name) for name in CHARTS},
}


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name, tmp_path, monkeypatch, loaded_once):
    monkeypatch.chdir(tmp_path)
    said = []
    doctest.DocTestRunner().run(examples(name, PUBLIC[name].__doc__), out=said.append)
    assert not said, "".join(said)


def test_the_example_of_options_runs(loaded_once):
    said = []
    doctest.DocTestRunner().run(examples("options", options.__doc__), out=said.append)
    assert not said, "".join(said)


def parameters(function):
    """Names of a function's parameters, and those that its docstring explains under `Args:`."""
    section = re.search(r"^ *Args:\n(.*?)(?:\n\n|\Z)", function.__doc__, re.DOTALL | re.MULTILINE)
    return set(inspect.signature(function).parameters), set(
        re.findall(r"^\s+(\w+): ", section[1] if section else "", re.M)
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_explained(name):
    has, explained = parameters(PUBLIC[name])
    assert has <= explained, f"{name} does not explain {has - explained}"
    assert explained <= has, f"{name} explains {explained - has}, which it does not take"


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text() for page in REFERENCE.glob("*.md"))
    missing = [name for name in whence._VERBS if f"::: whence.{name}\n" not in pages]
    assert not missing
    assert "::: whence.measures.options" in pages and "::: whence.errors" in pages
    assert "::: whence.stats" in pages and "::: whence.plot.charts" in pages
