"""The first screen, as docs/five_minutes.md has it read: what is predicted, whence, how sure, and how to share it."""

import os
import re
from pathlib import Path

import pytest

from tests.web.conftest import BUILTIN, TINY, link, painted, settled

KEYS = "The keys to the cabinet [MASK] on the table."
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
KEPT = {("light", 1280): "first", ("dark", 390): "first_phone"}
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
LARGEST = 200_000  # bytes of the page's script
WHEN_READ = """() => {
  const seen = (name) => {
    const { top, bottom, width } = document.querySelector(name).getBoundingClientRect();
    return width > 0 && top >= 0 && bottom <= innerHeight;
  };
  return ['.hero .title', '.because', '.ribbons', '.hero .sentence', '.key', '.ways'].filter((name) => !seen(name));
}"""

BROUGHT = "() => document.querySelector('#whence .grid').getBoundingClientRect().top < innerHeight"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_minutes(open_page, server, size, scheme):
    page = open_page(server.address, viewport=size, color_scheme=scheme)
    page.wait_for_selector(".hero .title:has-text('is predicted')")
    settled(page)
    assert page.inner_text(".hero .title") == "“are” is predicted at “[MASK]” with 48\u00a0%"
    because = "Its lead over “is” comes mostly from “keys” (2.01), “the” (0.47) and “table” (0.32)."
    assert page.inner_text(".because") == because
    assert "Exact" in page.inner_text(".sure") and "2.99" in page.inner_text(".sure")
    assert page.locator("h1").count() == 1 and page.evaluate(WHEN_READ) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
    if os.environ.get("WHENCE_PICTURES") and (scheme, size["width"]) in KEPT:
        page.mouse.move(2, 2)
        page.screenshot(path=PICTURES / f"{KEPT[scheme, size['width']]}.png")
    before = page.inner_text(".hero")
    page.click("#tab-whence")
    page.wait_for_selector("#whence:not([hidden]) h2")
    assert page.inner_text(".hero") == before  # one meaning, whatever is looked at below
    page.wait_for_function(BROUGHT)


def test_an_example_is_clicked_or_reached_by_keys(open_page, server):
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN)))
    page.click("text=A planted fact")
    page.wait_for_selector(".hero .title:has-text('green')")
    assert "yellow" in page.inner_text(".because")
    page.focus("text=Negation")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hero .title:has-text('not')")
    assert page.is_disabled("text=A decoder’s prompt")


def test_a_token_of_the_picture_is_chosen_by_keys_and_stays_the_prediction_s_picture(open_page, server):
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN)))
    title = page.inner_text(".hero .title")
    page.focus(".hero .token[aria-pressed=true]")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".token:text-is('keys')[aria-pressed=true]")
    assert page.inner_text(".hero .title") == title
    page.click("#tab-whence")
    page.wait_for_selector("#whence h2:has-text('keys')")


def test_rather_than_another(open_page, server):
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN)))
    page.select_option("#why select >> nth=0", label="were")
    page.wait_for_selector(".because:has-text('Its lead over “were”')")
    page.select_option("#why select >> nth=0", "none")
    page.wait_for_selector(".because:has-text('It comes mostly from')")
    settled(page)
    again = settled(open_page(page.url))
    assert again.inner_text(".because") == page.inner_text(".because")


def test_the_parts_are_drawn_as_long_as_they_are(open_page, server):
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN)))
    bars = page.eval_on_selector_all(
        ".ribbons rect:has(title)", "all => all.map((one) => [one.textContent, Number(one.getAttribute('width')) + 1])"
    )
    found = [(float(re.search(r"[−\d.]+$", text)[0].replace("−", "-")), width) for text, width in bars]
    large = [(abs(value), width) for value, width in found if abs(value) > 0.2]
    unit = large[0][1] / large[0][0]
    for value, width in large:
        assert width == pytest.approx(value * unit, rel=0.05)
    assert sum(value for value, _ in found) == pytest.approx(2.99, abs=0.03)


def test_a_changed_sentence_leads_with_its_prediction(open_page, server):
    page = settled(
        open_page(link(server, text=KEYS, edited=KEYS.replace("keys", "key"), model=BUILTIN, view="perturb"))
    )
    page.wait_for_selector("#perturb h2:has-text('predicted with 48')")
    assert "becomes" in page.inner_text("#perturb h2") and page.locator(".after .title").count() == 1


def test_what_is_ready_later_is_offered(open_page, server):
    page = open_page(link(server, text="A cat sat here.", model=TINY, view="whence"))
    page.wait_for_selector("#whence select:visible")
    first = page.input_value("#whence select")
    settled(page)
    painted(page)
    assert page.input_value("#whence select") == first
    page.click("#whence .better")
    painted(page)
    assert page.input_value("#whence select") != first and not page.is_visible("#whence .better")


def test_terms_are_told_by_pointer_and_by_key(open_page, server):
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN)))
    page.hover(".sure .term")
    page.wait_for_selector(".tip:has-text('belongs to no token')")
    page.keyboard.press("Escape")
    page.focus("#why .subtitle .term >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tip:has-text('score')")


def test_nothing_moves_where_less_motion_is_wanted(open_page, server):
    still = open_page(link(server, text=KEYS, model=BUILTIN), reduced_motion="reduce")
    still.wait_for_selector(".rising")
    assert still.evaluate("() => getComputedStyle(document.querySelector('.rising')).animationName") == "none"


@pytest.mark.parametrize("view", ["why", "left", "whence", "prediction", "perturb"])
def test_axe_finds_nothing(open_page, server, view):
    if not AXE.exists():
        pytest.skip("axe-core is not installed (npm ci brings it)")
    page = settled(open_page(link(server, text=KEYS, model=BUILTIN, view=view)))
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations.map((one) => [one.id, one.nodes[0].html])")
    assert found == []


def test_the_script_is_small():
    from whence.page.bundle import script

    assert len(script().encode()) < LARGEST
