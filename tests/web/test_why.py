"""The page of an explained prediction in a browser: choose a token, a layer, a measure; by mouse and by keys."""

import json

import pytest

import whence
from tests import tiny
from tests.families import build
from tests.web.conftest import painted, written
from whence.page import widget

WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
COLOURS = "() => [...document.querySelectorAll('.piece')].map((one) => one.style.backgroundColor)"


@pytest.fixture(scope="module")
def answered():
    decoder = whence.load(build("llama"), tiny.tokenizer())
    asked = {"answer": " dee ed fay", "spans": "word", "through": "generated", "components": True}
    return whence.why(decoder, "ada bo cy", **asked)


@pytest.fixture
def opened(answered, open_page, tmp_path):
    def open_it(fragment="", **options):
        page = open_page(f"{whence.report(answered, tmp_path / 'why.html').as_uri()}{fragment}", **options)
        page.wait_for_selector("h2")
        return page

    return open_it


def values(page):
    """What a reader is told of each token of the text."""
    return page.eval_on_selector_all(".piece", "all => all.map((one) => one.getAttribute('aria-label'))")


def told(ds, name, place, layer):
    """The same from the Dataset."""
    row = ds[name].values[place, layer] if "layer" in ds[name].dims else ds[name].values[place]
    return [float(value) for value in row]


def shown(page):
    numbers = [label.rsplit(": ", 1)[1].removesuffix(", sink") for label in values(page)]
    per_cent = [number.endswith("%") for number in numbers]
    plain = [float(number.removesuffix("%").strip().replace("−", "-")) for number in numbers]
    return [value / 100 if share else value for value, share in zip(plain, per_cent, strict=True)]


def test_a_token_of_the_answer_is_chosen_and_its_sources_are_shaded(opened, answered):
    page = opened()
    assert "“dee” is predicted after “cy”" in page.inner_text("h1")
    assert shown(page) == pytest.approx(told(answered, "share", 0, 0), abs=0.005)
    before = page.evaluate(COLOURS)
    page.locator(".piece.asked", has_text="fay").click()  # in the text
    painted(page)
    assert "“fay” is predicted after “ed”" in page.inner_text("h1")
    assert shown(page) == pytest.approx(told(answered, "share", 2, 0), abs=0.005)
    assert page.evaluate(COLOURS) != before
    page.locator(".answers .token", has_text="ed").click()  # in the row above
    painted(page)
    assert "“ed” is predicted after “dee”" in page.inner_text("h1")
    assert page.locator(".answers .token[aria-pressed=true]").inner_text().startswith("ed")


def test_the_layers_slide_and_the_measure_changes(opened, answered):
    page = opened()
    page.focus("input[type=range]")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    painted(page)
    assert shown(page) == pytest.approx(told(answered, "share", 0, 2), abs=0.005)
    assert page.inner_text("h2").endswith("at layer 2")
    page.get_by_role("button", name="Dependence").click()
    painted(page)
    assert shown(page) == pytest.approx(told(answered, "dependence", 0, 2), abs=0.005)
    page.get_by_role("button", name="Via the answer").click()
    painted(page)
    assert shown(page) == pytest.approx(told(answered, "carried", 0, 0), abs=0.006)
    assert page.locator("input[type=range]").is_disabled()


def test_a_link_brings_the_choice_back(opened, answered):
    page = opened("#token=4&layer=2&show=dependence")
    assert shown(page) == pytest.approx(told(answered, "dependence", 1, 2), abs=0.005)
    page.get_by_role("button", name="Share").click()
    written(page)
    assert "show=share" in page.url and "token=4" in page.url


def test_keys_alone(opened, answered):
    page = opened()
    page.focus(".answers .token[aria-pressed=true]")
    page.keyboard.press("ArrowRight")
    painted(page)
    assert "“ed” is predicted" in page.inner_text("h1")
    page.keyboard.press("Tab")  # into the text, token by token
    page.keyboard.press("End")
    assert page.evaluate("() => document.activeElement.textContent") == "fay"
    page.keyboard.press("Enter")
    painted(page)
    assert "“fay” is predicted" in page.inner_text("h1")
    name = "one.getAttribute('aria-label') || one.innerText || one.labels?.length"
    nameless = f"all => all.filter((one) => one.checkVisibility() && !({name})).length"
    assert page.eval_on_selector_all("button, input, [role=button], [tabindex]", nameless) == 0


def test_spans_alternatives_and_heads_are_drawn_and_leave(opened, answered):
    page = opened()
    bars = page.get_attribute(".main svg", "aria-label")
    largest = answered.span_text.values[int(abs(answered.span_share.values[0, 0]).argmax())]
    assert bars.startswith(f"Share: {largest} ")
    best = page.get_attribute(".side svg", "aria-label")
    assert all(token in best for token in answered.alternative_token.values[0])
    assert page.locator(".grid svg").count() >= 1
    with page.expect_download() as found:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = found.value.path().read_text().splitlines()
    assert lines[0] == "predicted,predicted_token,layer,source,source_token,share"
    assert len(lines) == 1 + answered.sizes["layer"] * answered.sizes["source"]
    with page.expect_download() as drawn:
        page.get_by_role("button", name="SVG").click()
    assert "<svg" in drawn.value.path().read_text()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_no_wider_than_the_window_and_above_the_fold(opened, size, scheme):
    page = opened(viewport=size, color_scheme=scheme)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
    for part in ("h1", ".prose"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= size["height"], part
    other = "light" if scheme == "dark" else "dark"
    page.locator("button.theme").click()
    painted(page)
    assert page.evaluate("() => document.documentElement.dataset.theme") == other


def test_masks_are_answered_in_the_text(models, open_page, tmp_path):
    ds = whence.why(models["whence/builtin"], "[MASK] is the capital of [MASK].")
    page = open_page(whence.report(ds, tmp_path / "why.html").as_uri())
    page.wait_for_selector("h2")
    first, second = (str(token) for token in ds.predicted_token.values)
    assert page.locator(".ghost:visible").inner_text() == f"→ {first}"
    page.locator(".answers .token").nth(1).click()
    painted(page)
    assert page.locator(".ghost:visible").inner_text() == f"→ {second}"


def test_the_widget_draws_and_leaves_the_page_alone(answered, open_page, tmp_path):
    made = whence.widget(answered)
    data = json.dumps(made.payload).replace("<", "\\u003c")
    made.close()
    (tmp_path / "notebook.html").write_text(
        f"""<!doctype html><meta charset=utf-8><style>{widget.style()}</style><h1>Mine</h1>
        <div id=cell></div><script type=application/json id=data>{data}</script><script type=module>
        {widget.module("why").replace("export default", "const view =")}
        const payload = JSON.parse(document.getElementById("data").textContent);
        view.render({{ model: {{ get: () => payload }}, el: document.getElementById("cell") }});</script>""",
        encoding="utf-8",
    )
    page = open_page((tmp_path / "notebook.html").as_uri())
    page.wait_for_selector("#cell h2")
    page.locator(".answers .token", has_text="fay").click()
    painted(page)
    assert "“fay” is predicted after “ed”" in page.inner_text("#cell h1")
    assert "#" not in page.url and page.evaluate("() => document.documentElement.dataset.theme") is None
