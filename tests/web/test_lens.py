"""The view of both sides: a lens that was given to the explorer, one hidden token, and what else may be asked of it."""

import numpy as np
import pytest

import whence
from tests.web.conftest import BUILTIN, TINY, Watched, painted
from whence.errors import BadInput
from whence.web.lens import lenses

TEXT = "Paris is the capital of [MASK]."
TEXTS = [TEXT, "The old town by the river was quiet for years.", "She said that nobody knew why it was closed."]


@pytest.fixture(scope="module")
def fitted(models, tmp_path_factory):
    lens = whence.lens(models[TINY], TEXTS)
    return lens.save(tmp_path_factory.mktemp("lens") / "lens.safetensors")


@pytest.fixture
def explorer(started, fitted):
    return started(lenses=[fitted])


def asked(client, **more):
    body = {"model": TINY, "text": TEXT, "measures": ["lens"], **more}
    answer = client.post("/api/measure", json=body)
    while answer.status_code == 202:
        answer = client.post("/api/measure", json=body)
    return answer


def test_the_answer_is_the_trace_of_the_token(explorer, models, fitted):
    with explorer.client() as client:
        key = asked(client, positions=[2]).json()["key"]
        lensed = client.get(f"/api/lens/{key}").json()
        assert client.get(f"/api/why/{key}").status_code == 422
    ds = whence.load_lens(fitted).trace(models[TINY], TEXT, 2)
    trace = lensed["trace"]
    assert trace["token"] == 2 and trace["sources"] == ds.source_token.values.tolist()
    np.testing.assert_allclose(trace["came"]["contribution"][1:], ds.contribution.values[1:], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(trace["given"]["share"], ds.share.transpose("layer", "predicted").values, rtol=1e-4)
    assert len(lensed["tokens"]) == 1 and lensed["layers"] == ds.layer.values.tolist()


def test_only_the_model_of_the_lens_has_it(explorer):
    with explorer.client() as client:
        about = client.get("/api/about").json()
        refused = asked(client, model=BUILTIN)
    has = {model["name"]: "lens" in model["measures"] for model in about["models"]}
    assert has == {BUILTIN: False, TINY: True} and about["measures"]["lens"]["view"] == "sides"
    assert refused.status_code == 422 and "whence lens fit" in refused.json()["error"]


def test_a_lens_of_no_model_here_is_refused(models, fitted):
    with pytest.raises(BadInput, match="and the explorer has whence/builtin"):
        lenses([fitted], {BUILTIN: models[BUILTIN]})


def test_both_sides_are_seen_of_the_layer_that_is_chosen(explorer, browser):
    open_page = Watched(browser, explorer)
    page = open_page(f"{explorer.address}/#model={TINY}&text={TEXT}&view=bridge")
    page.wait_for_selector("#bridge:not([hidden]) .disposed")
    assert "“[MASK]” at layer 3, from both sides" in page.inner_text("#bridge h2 >> nth=0")
    assert page.locator("#bridge .toggle button").all_inner_texts() == ["Jacobian lens", "Logit lens", "Tuned lens"]
    page.locator("#bridge .said[title*='layer 1:']").click()
    painted(page)
    assert "at layer 1, from both sides" in page.inner_text("#bridge h2 >> nth=0")
    page.locator("#bridge .said[title*='layer 0:']").click()
    painted(page)
    assert page.get_by_text("Layer 0 is the embedding").is_visible()
    open_page.close()
    open_page.check()
