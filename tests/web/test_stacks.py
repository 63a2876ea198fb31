"""Pages of an encoder-decoder in a browser: two texts, the border between them, and the alignment of their words."""

import csv

import pytest

import whence
from tests.stacks import loaded
from tests.web.conftest import painted

SOURCE, PREFIX = "ada bo cy dee ed", "fay gus hal"
PHONE = {"width": 390, "height": 844}
OPACITY = "() => [...document.querySelectorAll('.between path')].map((one) => one.getAttribute('fill-opacity'))"


@pytest.fixture(scope="module")
def model():
    return loaded("bart")


@pytest.fixture(scope="module")
def tree(model):
    return whence.measure(model, (SOURCE, PREFIX), ["attention", "mixing", "contribution"])


@pytest.fixture(scope="module")
def reasons(model):
    return whence.why(model, SOURCE, answer=PREFIX)


@pytest.fixture
def opened(tree, reasons, open_page, tmp_path):
    def open_it(fragment="", ds=tree, **options):
        page = open_page(f"{whence.report(ds, tmp_path / 'page.html').as_uri()}{fragment}", **options)
        page.wait_for_selector("h2")
        return page

    return open_it


def rows_of(page, inside, chip):
    """The tokens behind each label."""
    found, title = {}, ""
    select = f"{inside} {chip}, {inside} .stack"
    for kind, text in page.eval_on_selector_all(select, "all => all.map((one) => [one.className, one.textContent])"):
        title = text if kind == "stack" else title
        found.setdefault(title, []).extend([text] * (kind != "stack"))
    return found


def test_why_shows_source_and_answer_apart(opened, reasons):
    page = opened(ds=reasons)
    of = {stack: reasons.source_token.values[reasons.source_stack.values == stack] for stack in ("encoder", "decoder")}
    expected = {"Source": list(of["encoder"]), "Answer": list(of["decoder"])}
    page.wait_for_selector(".prose .piece")
    assert rows_of(page, ".prose", ".piece") == rows_of(page, ".hero", ".token") == expected
    above, below = (page.locator(".hero .stack", has_text=title).bounding_box() for title in expected)
    assert above["y"] + above["height"] <= below["y"]
    page.locator(".piece.asked", has_text="hal").click()
    painted(page)
    assert "“hal” is predicted after “gus”" in page.inner_text("h1")
    shown = page.eval_on_selector_all(".piece", "all => all.map((one) => one.getAttribute('aria-label'))")
    numbers = [float(label.rsplit(": ", 1)[1].replace("−", "-")) for label in shown]
    assert numbers == pytest.approx(reasons.share.values[2, 0].tolist(), abs=0.005)
    assert page.locator(".depths line.border").count() == 1


def test_the_slider_says_whose_layer_it_is(opened, reasons):
    page = opened("#layer=4", ds=reasons)
    assert page.locator("output").first.inner_text() == "decoder 1"
    assert page.get_attribute("input[type=range]", "aria-valuetext") == "layer 4 (decoder 1)"
    assert page.inner_text("h2").endswith("at layer 4 (decoder 1)")


def test_ribbons_are_the_cross_contributions_by_word(opened, tree, tmp_path):
    page = opened("#view=alignment&layer=1")
    shares = tree["cross"].contribution.sel(layer=1)
    with page.expect_download() as found:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = list(csv.DictReader(found.value.path().read_text().splitlines()))
    assert [float(line["share"]) for line in lines] == pytest.approx(shares.values.ravel().tolist(), abs=1e-5)
    assert [line["source_word"] for line in lines[: shares.sizes["source"]]] == list(shares.source_token.values)
    row = shares.isel(target=-1)
    best = str(row.source_token.values[int(row.values.argmax())])
    assert f"“{best}”" in page.inner_text("h2").replace("\u2068", "").replace("\u2069", "")
    with page.expect_download() as drawn:
        page.get_by_role("button", name="SVG").click()
    assert drawn.value.path().read_text().count("<path") == page.locator(".between path").count()


def test_a_word_is_lit_by_the_pointer_chosen_by_a_click_and_walked_by_keys(opened, tree):
    page = opened("#view=alignment")
    before = page.evaluate(OPACITY)
    page.locator(".grid text", has_text="fay").hover()
    lit = page.evaluate(OPACITY)
    assert lit != before and page.locator(".tip").inner_text().startswith("Answer: ")
    page.locator(".grid text", has_text="fay").click()
    painted(page)
    assert "fay" in page.inner_text("#alignment h2")
    page.locator(".grid text", has_text="cy").hover()
    assert page.locator(".tip").inner_text().startswith("Source: ")
    page.focus("#alignment .grid")
    page.keyboard.press("ArrowRight")
    painted(page)
    assert "gus" in page.inner_text("#alignment h2")
    page.keyboard.press("ArrowDown")
    painted(page)
    assert "layer 1" in page.inner_text("#alignment h2")
    assert "gus" in page.locator("[aria-live]").inner_text()


def test_the_share_shown_is_chosen(opened):
    page = opened("#view=alignment&keep=1")
    every = page.locator(".between path").count()
    few = opened("#view=alignment&keep=0.2").locator(".between path").count()
    assert 0 < few < every


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_wider_than_a_phone(opened, scheme):
    page = opened("#view=alignment", viewport=PHONE, color_scheme=scheme)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.locator("#alignment .grid svg").bounding_box()["height"] > 150


@pytest.mark.parametrize("view", ["whence", "maps"])
def test_a_border_stands_between_the_texts(opened, view):
    page = opened(f"#view={view}")
    assert page.locator(f"#{view} line.border").count() == (2 if view == "maps" else 1)


def test_the_page_begins_with_why(opened, tree, reasons, open_page, tmp_path):
    page = open_page(whence.report(tree, tmp_path / "both.html", reasons).as_uri())
    page.wait_for_selector("h1 strong")
    assert "is predicted" in page.inner_text("h1")
    assert page.locator(".tabs [role=tab]").all_inner_texts()[:2] == ["Why this token", "Alignment"]


def test_a_long_text_scrolls_and_says_what_is_drawn(model, opened):
    long = whence.measure(model, ("ada bo cy dee " * 12, "fay gus hal " * 15), ["attention"])
    page = opened("#view=alignment&keep=1", ds=long, viewport=PHONE)
    widths = page.evaluate(
        "() => { const {scrollWidth: inside, clientWidth: room} = document.querySelector("
        "'#alignment .scroll'); return [inside, room]; }"
    )
    assert widths[0] > widths[1] and page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    drawn = page.locator(".between path").count()
    told = page.inner_text("#alignment .subtitle").replace("\u00a0", " ")
    shares = long["cross"].attention.isel(layer=-1).mean("head").values
    carried = sorted(shares.ravel())[::-1][:drawn]
    assert drawn == 400 and f"with {100 * sum(carried) / shares.sum():.0f} % of all" in told
