"""Long texts, whose attention is never held whole: every measure gives what it gives of the whole."""

import random

import numpy as np
import pytest

import whence
from tests import tiny
from whence.measures.registry import given_by
from whence.measures.table import MEASURES
from whence.models import queries

FAMILIES = ("bert", "modernbert", "opt-350m", "gpt_neox", "mistral", "gemma2", "gpt_oss")
TEXT = " ".join(random.Random(1).choices(tiny.WORDS, k=21))
TARGETS = [0, 3, 4, 11, 22]
OVER_BLOCKS = [name for name, row in MEASURES.items() if row.over == "block"]


@pytest.fixture
def long(monkeypatch):
    """Texts of 23 tokens are long ones, computed seven queries at a time and measured five rows at a time."""
    monkeypatch.setattr(queries, "WHOLE", 7 * 4 * 23)
    monkeypatch.setattr(queries, "ROWS", 5 * 4 * 23)


@pytest.fixture(params=FAMILIES, scope="module")
def model(request):
    model = tiny.model(request.param)
    return whence.load(model.model.double(), model.tokenizer)


@pytest.fixture(scope="module")
def expected(model):
    return {
        "all": whence.measure(model, TEXT, _names(model)),
        "some": whence.measure(model, TEXT, _names(model), targets=TARGETS),
    }


def _names(model):
    rolled = ["rollout"] if "attention throughout" in model.gives else []
    slow = set() if model.anatomy.family == "bert" else {"minimum_simplex"}
    return given_by(model.gives, [name for name in [*OVER_BLOCKS, *rolled] if name not in slow])


@pytest.mark.parametrize("targets", [None, TARGETS])
def test_every_measure_is_that_of_the_whole(model, expected, long, targets):
    assert model.anatomy.queries(1, 23) == 7
    found = whence.measure(model, TEXT, _names(model), targets=targets)
    _assert_same(found, expected["all" if targets is None else "some"])


def test_some_rows_are_those_of_all(expected):
    _assert_same(expected["some"], expected["all"].sel(target=TARGETS))


def _assert_same(found, expected):
    assert found.sizes == expected.sizes
    for name in expected.data_vars:
        if name != "effective_correlation":  # of the rows that there are
            scale = float(np.nanmax(abs(expected[name])))
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6 * scale, err_msg=name)
    for name in ("sink", "head_sink"):
        assert (name in found.coords) == (name in expected.coords)
        if name in found.coords:
            assert bool((found[name] == expected[name]).all())
