"""What the study keeps of its experiments: read again as it was, computed again when it is not what was written."""

import json

import pytest
import xarray

from tests import tiny
from whence.sealed import sealed
from whence.studies.frame.context import Context
from whence.studies.token_experiments import identified
from whence.text.readers import read

KIND = ("naive", "cosine")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "corpus.txt").write_text("\n".join(tiny.texts(12, longest=12)))
    return Context(tiny.model(), (read(str(folder / "corpus.txt")),), folder / "out", quick=True)


@pytest.fixture(scope="module")
def first(context):
    return identified(context, KIND, layers=[1])


def again(context, monkeypatch):
    """The experiment once more, and whether it was computed."""
    from whence.studies import token_experiments

    computed, real = [], token_experiments.identify
    monkeypatch.setattr(token_experiments, "identify", lambda *args, **more: computed.append(1) or real(*args, **more))
    return identified(context, KIND, layers=[1]), bool(computed)


def test_an_experiment_is_read_again(context, first, monkeypatch):
    found, computed = again(context, monkeypatch)
    assert not computed
    xarray.testing.assert_equal(found, first)
    assert found.attrs == first.attrs


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"[]",
        lambda text: b"{",
        lambda text: b"{}",
        lambda text: text.replace(b'"rate"', b'"tare"'),
        lambda text: sealed({"made": "", "dataset": {}}),
        lambda text: sealed({**_content(text), "made": "another experiment"}),
        lambda text: sealed({"made": _content(text)["made"], "dataset": [1]}),
    ],
)
def test_a_damaged_experiment_is_made_again(context, first, monkeypatch, change):
    (path,) = (context.out / "runs").glob("identify-*.json")
    whole = path.read_bytes()
    path.write_bytes(change(whole))
    found, computed = again(context, monkeypatch)
    assert computed and path.read_bytes() == whole
    xarray.testing.assert_equal(found, first)


def _content(text):
    return {name: value for name, value in json.loads(text).items() if name != "seal"}
