"""The flow view as a notebook widget: the module alone, in a bare page with a model as anywidget hands it over."""

import json

import pytest

import whence
from whence.errors import BadInput
from whence.page import widget

CAT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def dataset(models):
    return whence.measure(models["tiny"], CAT, ["attention", "mixing", "norms"])


def test_a_widget_holds_the_maps_alone(dataset):
    made = whence.widget(dataset)
    assert set(made.payload["variables"]) == {"attention", "attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n"}
    assert "export default { render: module_widget.render }" in str(made._esm)
    assert "import " not in widget.module().replace("important", "")
    made.close()


def test_without_a_map_there_is_nothing_to_draw(dataset):
    with pytest.raises(BadInput, match="no map"):
        whence.widget(dataset[["mixing"]])


def test_a_flow_through_some_targets_is_refused(models):
    with pytest.raises(BadInput, match="all targets in all layers"):
        whence.widget(whence.measure(models["tiny"], CAT, ["norms"], targets=[2]))


def test_a_widget_draws_by_the_decomposition_first(models):
    made = whence.widget(whence.measure(models["tiny"], CAT, ["norms", "decomposition"]))
    assert made.payload["flows"][:2] == ["decomposition_share", "attnresln_n"]
    made.close()


def test_the_widget_draws_and_leaves_the_page_alone(dataset, open_page, tmp_path):
    data = json.dumps(whence.widget(dataset).payload).replace("<", "\\u003c")
    (tmp_path / "notebook.html").write_text(
        f"""<!doctype html><meta charset=utf-8><style>{widget.style()}</style><h1>Mine</h1><button>mine</button>
        <div id=cell></div><script type=application/json id=data>{data}</script><script type=module>
        {widget.module().replace("export default", "const view =")}
        const payload = JSON.parse(document.getElementById("data").textContent);
        view.render({{ model: {{ get: () => payload }}, el: document.getElementById("cell") }});</script>""",
        encoding="utf-8",
    )
    page = open_page((tmp_path / "notebook.html").as_uri())
    page.wait_for_selector("#cell canvas")
    assert "layer 3 goes back to" in page.inner_text("#cell h2")
    before = page.inner_text("#cell h2")
    page.focus("#cell .flow")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("before => document.querySelector('#cell h2').innerText !== before", arg=before)
    box = page.locator("#cell canvas").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 30)
    assert page.locator("#cell .tip").count() == 1
    assert "#" not in page.url
    assert page.evaluate("() => getComputedStyle(document.querySelector('button')).borderRadius") in ("", "0px")
    assert page.evaluate("() => document.documentElement.dataset.theme") is None
