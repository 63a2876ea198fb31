"""How it feels: the first picture, all views, and two hundred tokens under a moving mouse."""

import time

import pytest

from tests.web.conftest import BUILTIN, link, settled
from tests.web.test_browser import show

TWENTY = "The old man who fed the hungry pigeons every morning was [MASK], and nobody knew why."
SENTENCE = (
    "The old man who fed the hungry pigeons every morning was gone, and nobody near the station knew where he went."
)
TWO_HUNDRED = " ".join([SENTENCE] * 9)
SLACK = 5  # the tests share two cores with others; `make bench` prints the figures
LONG = SLACK * 50  # milliseconds: a frame longer than 50 is seen
WATCH = """() => {
  window.slow = [];
  new PerformanceObserver((list) => list.getEntries().forEach((e) => window.slow.push(Math.round(e.duration))))
    .observe({ type: 'longtask' });
}"""


@pytest.mark.slow
def test_twenty_tokens_appear_soon(open_page, server):
    page = settled(open_page(link(server, text="Warm.", model="tiny")))
    page.select_option("#model", BUILTIN)
    for number in range(3):  # other work on the machine only ever adds
        page.fill("#text", f"{TWENTY[:-1]} {number}.")
        began = time.perf_counter()
        page.press("#text", "Enter")
        page.wait_for_selector(f".token:text-is('{number}')")
        first = time.perf_counter() - began
        settled(page)
        whole = time.perf_counter() - began
        if first < SLACK * 1 and whole < SLACK * 5:
            return
    pytest.fail(f"the first picture took {first:.1f} s, all views {whole:.1f} s")


def test_two_hundred_tokens_stay_smooth(open_page, server):
    page = settled(open_page(link(server, text=TWO_HUNDRED)))
    assert page.locator(".token").count() > 180
    page.evaluate(WATCH)
    for view in ("left", "flow", "maps", "heads", "compare"):
        show(page, view)
        page.wait_for_timeout(150)
        assert any(not slow_tasks(page, view) for _ in range(3)), view  # other work on the machine only ever adds


def slow_tasks(page, view):
    """Milliseconds of whatever held the page up while the mouse moved over the picture and the page was scrolled."""
    page.evaluate("() => { window.slow = []; }")
    picture = page.locator(f"#{view} .grid >> visible=true").first
    page.mouse.wheel(0, picture.bounding_box()["y"] - 120)
    page.wait_for_timeout(60)
    box = picture.bounding_box()
    for step in range(30):
        across, down = step / 30 * (box["width"] - 60), step / 30 * (box["height"] - 80)
        page.mouse.move(box["x"] + 50 + across, box["y"] + 20 + down)
    for turn in range(6):
        page.mouse.wheel(0, 60 if turn % 2 else -60)
        page.wait_for_timeout(20)
    page.wait_for_timeout(60)
    return [task for task in page.evaluate("() => window.slow") if task > LONG]
