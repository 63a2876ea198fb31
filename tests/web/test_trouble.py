"""What the explorer says, shows and keeps when something goes wrong: refusals, results and servers that are gone."""

import json

import pytest
import xarray

from tests.web.conftest import TINY, link, settled
from tests.web.test_browser import CAT, heading, save, show, state_of
from whence.web import app
from whence.web.results import Results

LONG = "word " * 600
SILENT = "The server does not answer; start it again (whence serve), then measure again."
FORTY_FOUR = " ".join([CAT] * 6)
PHONE = {"width": 390, "height": 844}
INSIDE = """(element) => {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}"""


@pytest.fixture
def page(open_page, server):
    """A sentence in a page whose browser logs what is refused."""
    return settled(open_page(link(server, model=TINY, text=CAT, token=2), expect_errors=True))


def measure(page, text):
    page.fill("#text", text)
    page.press("#text", "Enter")


def focused(page):
    return page.evaluate("() => document.activeElement.id || document.activeElement.textContent")


def in_sight(page, selector):
    return page.wait_for_selector(selector).evaluate(INSIDE)


def test_what_is_not_kept_any_more_is_measured_again(page, server, tmp_path):
    server.service.results = Results(server.service.limits.kept)
    page.click(".ways button:has-text('HTML')")
    page.wait_for_selector(".alarm:has-text('measure the sentence again')")
    page.click(".go")
    page.wait_for_selector(".alarm:empty", state="attached")
    assert save(settled(page), "HTML", tmp_path).stat().st_size > 100_000


def test_pictures_of_another_sentence_are_told_apart(page, tmp_path):
    measure(page, LONG)
    page.wait_for_selector(".alarm:has-text('by ticking “cut off what is longer than the model takes” under Options')")
    assert CAT in page.inner_text(".apart") and page.locator(".stale .token").count() == 9
    page.click(".token >> nth=3")
    assert (state_of(page)["text"], state_of(page)["token"]) == (CAT, "3")
    with xarray.open_dataset(save(page, "netCDF", tmp_path), engine="netcdf4") as found:
        assert found.attrs["text"] == CAT
    page.go_back()
    page.wait_for_selector("main:not(:has(.stale))")
    assert page.input_value("#text") == CAT
    assert page.inner_text(".alarm") == "" and page.locator(".apart").is_hidden()


def test_a_given_up_sentence_leaves_the_old_one(page):
    page.route("**/api/measure", lambda route: None)  # never answered
    measure(page, "Dogs run.")
    page.click(".ways button:has-text('netCDF')")
    page.wait_for_selector(".said:has-text('still being measured')")
    page.focus("text=Cancel")
    page.keyboard.press("Enter")
    page.wait_for_selector(".stale")
    assert focused(page) == "Measure" and state_of(page)["text"] == CAT
    assert page.input_value("#text") == "Dogs run."


def test_places_in_the_old_pictures_are_not_the_new_sentences(page):
    page.route("**/api/measure", lambda route: None)
    page.goto(page.url.split("#")[0] + "#text=Dogs%20run.&model=tiny&token=1")
    page.wait_for_selector(".work[data-busy=true]")
    page.click(".token >> nth=7")  # the new sentence has five
    show(page, "maps")
    assert page.locator(".token[aria-pressed=true]").inner_text() == "."
    found = state_of(page)
    assert (found["text"], found["token"], found["view"]) == ("Dogs run.", "1", "maps")
    show(page, "prediction")
    page.click(".token >> nth=3")
    page.click("text=Predict at “sat”")
    page.wait_for_selector(".said:has-text('still being measured')")
    assert "asked" not in state_of(page)
    page.click("text=Cancel")
    page.wait_for_selector(".stale")
    found = state_of(page)
    assert (found["text"], found["token"], found["view"]) == (CAT, "3", "prediction")
    assert page.locator(".token[aria-pressed=true]").inner_text() == "sat"


def test_a_click_just_before_the_new_pictures(page):
    held = []
    page.route("**/api/measure", lambda route: route.continue_() if held else held.append(route))
    measure(page, "Dogs run.")
    page.wait_for_selector(".work[data-busy=true]")
    page.click(".token >> nth=4")
    held[0].continue_()
    page.wait_for_selector(".token:text-is('dogs')")
    settled(page)
    assert page.locator(".token[aria-pressed=true]").inner_text() == "."  # the last token of the text, as if unclicked
    assert state_of(page)["text"] == "Dogs run." and state_of(page).get("token") in (None, "3")


def test_a_dead_server_is_said_once_and_plainly(page):
    page.route("**/api/**", lambda route: route.abort())
    for way in ("HTML", "netCDF"):
        page.click(f".ways button:has-text('{way}')")
        page.wait_for_selector(f".alarm:text-is('{SILENT}')")
    measure(page, "Dogs run.")
    page.wait_for_selector(".stale")
    assert page.inner_text(".alarm") == SILENT


@pytest.mark.parametrize(("kind", "how"), [("JSONResponse", "Enter"), ("Response", "Enter"), ("HTMLResponse", "HTML")])
def test_a_server_that_dies_in_the_middle_of_an_answer(page, monkeypatch, kind, how):
    def cut(*given, **options):
        answer = whole(*given, **options)
        answer.headers["content-length"] = str(len(answer.body) + 1)  # uvicorn hangs up on what is never sent
        return answer

    whole = getattr(app, kind)
    monkeypatch.setattr(app, kind, cut)
    measure(page, "Dogs run.") if how == "Enter" else page.click(f".ways button:has-text('{how}')")
    page.wait_for_selector(".alarm:not(:empty)")
    assert page.inner_text(".alarm") == SILENT


def test_a_server_that_dies_at_work_is_noticed(page):
    ticket = json.dumps({"state": "waiting", "key": "0" * 32, "ticket": "a" * 16})
    page.route("**/api/measure", lambda route: route.fulfill(status=202, body=ticket))
    page.route("**/api/jobs/**", lambda route: route.abort())
    measure(page, "Dogs run.")
    page.wait_for_selector(f".alarm:text-is('{SILENT}')")
    assert page.locator("progress").is_hidden()


def test_alarm_and_progress_come_into_view(page):
    show(page, "perturb")
    page.set_viewport_size(PHONE)
    page.route("**/api/measure", lambda route: None)
    page.evaluate("() => scrollTo(0, 600)")
    page.click("text=Remove the final period")
    page.wait_for_function("() => document.querySelector('.work').getBoundingClientRect().top >= 0")
    assert in_sight(page, ".work[data-busy=true]")
    page.unroute("**/api/measure")
    page.route("**/api/measure", lambda route: route.abort())
    page.fill("#perturb textarea", "A cat sat.")
    page.evaluate("() => scrollTo(0, 600)")
    page.click("text=Measure the change")
    assert in_sight(page, ".alarm:not(:empty)")


def test_a_text_that_was_cut_says_so(open_page, server):
    page = open_page(link(server, model=TINY, text=LONG, truncate=1), expect_errors=True)  # it is closed at work
    page.wait_for_selector(".header .about:has-text('the first 512 of 602 tokens')")


def test_an_address_without_a_sentence_to_show(open_page, server):
    page = open_page(f"{server.address}/#text=", expect_errors=True)
    page.wait_for_selector(".alarm:text-is('The text is empty; give at least one word.')")
    page.goto(link(server, model=TINY, text=LONG))
    page.wait_for_selector(".alarm:has-text('at most 512')")
    for way in ("Link", "HTML"):
        page.click(f".ways button:has-text('{way}')")
        page.wait_for_selector(".alarm:has-text('nothing to save or to link to')")


def test_an_offer_is_for_one_sentence(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=FORTY_FOUR)))
    page.focus(".offer button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".offer", state="hidden")
    assert focused(page) in ("Cancel", "Measure")
    assert state_of(settled(page))["once"] == "contribution" and focused(page) == "Measure"
    assert not page.is_checked("input[value=contribution]")
    measure(page, FORTY_FOUR.replace("cat", "dog"))
    page.wait_for_selector(".token:text-is('dog')")
    assert settled(page).locator(".offer:has-text('not measured unasked')").is_visible()


def test_focus_is_not_lost(visit):
    page = visit("heads", model=TINY, text=CAT, token=2)
    page.focus("#heads .grid")
    page.keyboard.press("Enter")
    page.wait_for_selector("#maps:not([hidden])")
    assert focused(page) == "tab-maps"
    show(page, "prediction")
    page.focus("#prediction .choices button")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'tab-prediction'")
    assert "predicted at “cat" in heading(settled(page))


def test_the_head_can_be_chosen_where_it_matters(visit):
    page = visit("left", model=TINY, text=CAT, flow="attn_w")
    able = {}
    for view in ("left", "whence", "flow", "maps", "heads", "compare"):
        show(page, view)
        able[view] = page.locator(".bar select >> nth=2").is_enabled()
    assert able == {"left": False, "whence": False, "flow": False, "maps": True, "heads": True, "compare": False}
