"""`top=`: of each row the largest sources, where they are, and the sum of the others, of every map there is."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import whence
from tests import tiny
from whence.errors import BadInput
from whence.measures.largest import largest
from whence.measures.registry import given_by
from whence.measures.table import MEASURES
from whence.models import queries

TEXT = "the old man saw the dog by the river and the dog saw him too"
TOP = 3
NUMBERS = st.one_of(st.floats(-100, 100, width=32), st.just(0.0), st.just(float("nan")))


@pytest.fixture(scope="module", params=["bert", "mistral", "gpt_oss"])
def model(request):
    return tiny.model(request.param)


def names_of(model):
    return given_by(model.gives, [name for name in MEASURES if name != "minimum_simplex"])


def _same_rows(whole, short, name):
    """By hand: sort, take, add up."""
    values, kept = whole[name].transpose(..., "source").values, short[name].transpose(..., "largest").values
    places, rest = short[f"{name}_source"].transpose(..., "largest").values, short[f"{name}_rest"].values
    assert kept.shape == (*values.shape[:-1], TOP)
    close = {"rtol": 1e-4, "atol": 1e-5 * np.nanmax(abs(values))}
    np.testing.assert_allclose(abs(kept), -np.sort(-abs(values), axis=-1)[..., :TOP], **close)
    measured = ~np.isnan(rest)
    assert (measured == ~np.isnan(values).all(axis=-1)).all()
    np.testing.assert_allclose(kept[measured], np.take_along_axis(values[measured], places[measured], -1), **close)
    assert (np.diff(np.sort(places[measured], axis=-1), axis=-1) > 0).all()
    np.testing.assert_allclose((kept.sum(axis=-1) + rest)[measured], values.sum(axis=-1)[measured], **close)


@pytest.mark.parametrize("targets", [None, [-1, 2]])
def test_every_map_is_cut_as_by_hand(model, targets):
    names = names_of(model)
    whole, short = (whence.measure(model, TEXT, names, targets=targets, top=top) for top in (None, TOP))
    maps = [name for name in whole.data_vars if {"target", "source"} <= set(whole[name].dims)]
    assert {"attention", "norms", "contribution"} - set(maps) <= {"norms"}
    for name in maps:
        if not name.endswith("_se"):
            _same_rows(whole, short, name)
    for name in set(whole.data_vars) - set(maps):
        np.testing.assert_array_equal(whole[name], short[name])
    assert "source" not in {dim for name in short.data_vars for dim in short[name].dims}
    assert short.source_token.values.tolist() == whole.source_token.values.tolist()


def test_a_long_text_is_cut_row_by_row(model, monkeypatch):
    names = given_by(model.gives, ["attention", "norms", "effective", "mixing"])
    whole = whence.measure(model, TEXT, names)
    tokens, heads = whole.sizes["target"], model.anatomy.heads
    monkeypatch.setattr(queries, "WHOLE", 5 * heads * tokens)
    monkeypatch.setattr(queries, "ROWS", 4 * heads * tokens)
    short = whence.measure(model, TEXT, names, top=TOP)
    for name in whole.data_vars:
        if "source" in whole[name].dims:
            _same_rows(whole, short, name)


def test_standard_errors_are_those_of_what_is_kept(builtin):
    asked = [whence.Contribution(mode="sketch", error=0.1), whence.Jacobian(mode="sketch", error=0.1)]
    whole, short = (whence.measure(builtin, TEXT, asked, layers=[2], top=top) for top in (None, TOP))
    for name in ("contribution", "jacobian"):
        assert f"{name}_se_source" not in short and f"{name}_se_rest" not in short
        expected = np.take_along_axis(whole[f"{name}_se"].values, short[f"{name}_source"].values, axis=-1)
        np.testing.assert_array_equal(short[f"{name}_se"], expected)


def test_sources_that_were_not_asked_for_are_not_the_largest(builtin):
    whole, short = (
        whence.measure(builtin, TEXT, whence.Jacobian(mode="exact", sources=[1, 4]), layers=[1], top=top)
        for top in (None, TOP)
    )
    assert np.isin(short.jacobian_source.values[..., :2], [1, 4]).all()
    assert np.isnan(short.jacobian.values[..., 2]).all() and (short.jacobian_rest == 0).all()
    np.testing.assert_allclose(short.jacobian.sum("largest"), whole.jacobian.sum("source"), rtol=1e-6)


@given(arrays.arrays(np.float32, (3, 7), elements=NUMBERS), st.integers(1, 9))
def test_rows_by_brute_force(rows, count):
    kept, places, rest = (part.numpy() for part in largest(torch.from_numpy(rows), count))
    for row in range(len(rows)):
        known = rows[row][~np.isnan(rows[row])]
        expected = sorted(abs(known), reverse=True)[:count]
        np.testing.assert_array_equal(abs(kept[row][: len(expected)]), expected)
        assert np.isnan(kept[row][len(expected) :]).all() and kept.shape[1] == min(count, 7)
        np.testing.assert_array_equal(kept[row], rows[row][places[row]])
        if len(known):
            np.testing.assert_allclose(np.nansum(kept[row], dtype=float) + rest[row], known.sum(dtype=float), atol=1e-3)
        else:
            assert np.isnan(rest[row])


def test_the_sum_of_the_others_is_not_rounded_to_half_precision():
    rows = torch.rand(4, 300).softmax(dim=-1).to(torch.bfloat16)
    kept, _, rest = largest(rows, 3)
    torch.testing.assert_close(rest.double(), rows.double().sum(-1) - kept.double().sum(-1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("top", [0, -1])
def test_nonsense_is_refused(builtin, top):
    with pytest.raises(BadInput, match="The top is a whole number of at least 1"):
        whence.measure(builtin, TEXT, "attention", top=top)


def test_more_than_there_are_is_all_of_them(builtin):
    short = whence.measure(builtin, "Paris.", "attention", top=100)
    assert short.sizes["largest"] == short.sizes["source"] and (short.attention_rest == 0).all()


def test_what_does_not_fit_names_it(builtin):
    """And the offer holds: what is named is taken."""
    text = " ".join(["the old man saw the dog"] * 60)
    with pytest.raises(BadInput, match=r"the 8 largest sources of each \(top=8\) need (\d+) MB") as refusal:
        whence.measure(builtin, text, "attention", memory_limit=40_000_000)
    assert "targets=[-1]" in str(refusal.value)
    whence.measure(builtin, text, "attention", memory_limit=40_000_000, top=8)


def test_a_page_wants_whole_rows(builtin, tmp_path):
    with pytest.raises(BadInput, match="the 2 largest sources alone were kept"):
        whence.report(whence.measure(builtin, TEXT, "attention", top=2), tmp_path / "page.html")
