"""The page of an explained prediction: whole, closed to the outside, true to the data, safe with any token."""

import re

import numpy as np
import pytest
from tests import tiny
from tests.families import build
from tests.page.test_page import HOSTILE, embedded, unpacked
from tests.plot.test_why import explained_dataset

import whence
from whence.errors import BadInput
from whence.page.report import explained, report
from whence.page.why import payload

CAT = "ada bo cy"


@pytest.fixture(scope="module")
def decoder():
    return whence.load(build("llama"), tiny.tokenizer())


@pytest.fixture(scope="module")
def answered(decoder):
    asked = {"answer": " dee ed", "spans": "word", "through": "generated", "components": True}
    return whence.why(decoder, CAT, **asked)


def test_every_number_comes_back_in_full(answered):
    found = payload(answered)
    for name in ("share", "dependence"):
        assert (unpacked(found["variables"][name]) == answered[name].values).all()
    assert (unpacked(found["variables"]["carried"])[:, 0] == answered.carried.values).all()
    shares = unpacked(found["variables"]["share"]).sum(axis=-1)
    bias = np.array([one["bias"] for one in found["predicted"]])
    assert np.allclose(shares + bias, answered.logit.values[:, None], atol=1e-4)
    assert [shade["name"] for shade in found["shades"]] == ["share", "dependence", "carried"]


def test_heads_and_feed_forwards_are_summed_over_sources(answered):
    heat = payload(answered)["heat"]
    assert heat["components"] == answered.component.values.tolist()[1:]  # without the residual
    expected = answered.component_share.sum("source").values[:, :, 1:]
    assert np.allclose(heat["values"], expected, rtol=1e-5, atol=1e-6)


def test_a_prediction_knows_where_its_token_stands(decoder, builtin, answered):
    assert [one["place"] for one in payload(answered)["predicted"]] == [4, 5]
    assert [one["place"] for one in payload(whence.why(decoder, CAT))["predicted"]] == [-1]
    masks = payload(whence.why(builtin, "[MASK] is the capital of [MASK]."))
    assert [(one["position"], one["place"]) for one in masks["predicted"]] == [(1, -1), (6, -1)]
    assert masks["state"] == "token=1&layer=0" and masks["heat"] is None


def test_the_whole_of_an_answer_has_no_alternatives(decoder):
    one = payload(whence.why(decoder, CAT, answer=" dee ed", together=True))["predicted"][0]
    assert one["alternatives"] == [] and one["rank"] is None and one["depth"] is None and "as one" in one["finding"]


def test_per_cent_only_where_parts_have_one_sign():
    assert payload(explained_dataset([3, 1]))["predicted"][0]["sizes"] == [4.0, 4.0]
    assert payload(explained_dataset([3, -1]))["predicted"][0]["sizes"] == [None, 2.0]


def test_hostile_tokens_stay_text():
    ds = explained_dataset(np.ones(len(HOSTILE)), tokens=HOSTILE)
    ds = ds.assign_coords(predicted_token=("predicted", ["</script><script>alert(1)</script>"]))
    text = explained(ds)
    assert text.count("<script") == text.count("</script>") == 2 and "<img" not in text
    text.encode("utf-8")
    assert all(token["read"].strip() for token in embedded(text)["tokens"])


def test_nothing_is_loaded_and_no_other_script_runs(answered, tmp_path):
    text = report(answered, tmp_path / "why.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:link|iframe|object|embed|base)\b|\ssrc=|@import|url\((?!#)|\bfetch\(", text)
    script = text.split('<script type="module">')[1].split("</script>")[0]
    assert script.rstrip().endswith("module_why.boot();") and "innerHTML" not in script
    assert not re.search(r"^\s*(?:import|export)\b", script, re.M)
    assert f"<title>{payload(answered)['finding']} · whence</title>" in text


def test_one_prediction_alone_is_no_page(answered, tmp_path):
    with pytest.raises(BadInput, match=r"what whence\.measure, whence\.why or a lens gives"):
        report(answered.isel(predicted=0), tmp_path / "why.html")


def test_a_notebook_gets_the_same_view(answered):
    made = whence.widget(answered)
    assert made.payload["finding"] == payload(answered)["finding"]
    assert "export default { render: module_why.render }" in str(made._esm)
    made.close()
