"""Every public verb has an example that runs as it stands, in a folder of its own."""

import doctest

import pytest

import whence
from whence.measures import options

VERBS = [name for name in whence._VERBS if name != "progress"]  # whose example is a bar


def examples(name, docstring):
    found = doctest.DocTestParser().get_doctest(docstring, {"whence": whence}, name, None, None)
    assert found.examples, f"{name} has no example"
    return found


@pytest.mark.parametrize("name", VERBS)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    doctest.DocTestRunner().run(examples(name, getattr(whence, name).__doc__), out=said.append)
    assert not said, "".join(said)


def test_the_example_of_options_runs():
    said = []
    doctest.DocTestRunner().run(examples("options", options.__doc__), out=said.append)
    assert not said, "".join(said)
