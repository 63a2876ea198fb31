"""How it feels: the first picture, all views, and two hundred tokens under a moving mouse."""

import time

import pytest

from tests.web.test_browser import link, settled

TWENTY = "The old man who fed the hungry pigeons every morning was [MASK], and nobody knew why."
SENTENCE = (
    "The old man who fed the hungry pigeons every morning was gone, and nobody near the station knew where he went."
)
TWO_HUNDRED = " ".join([SENTENCE] * 9)
LONG = 50  # milliseconds: a frame longer than this is seen
WATCH = """() => {
  window.slow = [];
  new PerformanceObserver((list) => list.getEntries().forEach((e) => window.slow.push(Math.round(e.duration))))
    .observe({ type: 'longtask' });
}"""


def best(tries, attempt):
    """The smallest of a few: other work on the machine only ever adds."""
    found = None
    for _ in range(tries):
        value = attempt()
        found = value if found is None or value < found else found
        if not found:
            break
    return found


def test_twenty_tokens_appear_within_a_second(open_page, server):
    page = settled(open_page())

    def attempt(count=[0]):  # noqa: B006  (a new sentence each time)
        count[0] += 1
        page.fill("#text", f"{TWENTY[:-1]} {count[0]}.")
        began = time.perf_counter()
        page.press("#text", "Enter")
        page.wait_for_selector(f".token:text-is('{count[0]}')")
        first = time.perf_counter() - began
        settled(page)
        return first, time.perf_counter() - began

    first, whole = best(2, attempt)
    assert first < 1
    assert whole < 5


@pytest.mark.parametrize("view", ["left", "whence", "flow", "maps", "heads"])
def test_two_hundred_tokens_stay_smooth(open_page, server, view):
    page = settled(open_page(link(server, text=TWO_HUNDRED, view=view)))
    assert page.locator(".token").count() > 180
    page.evaluate(WATCH)
    page.wait_for_timeout(100)

    def attempt():
        page.evaluate("() => { window.slow = []; }")
        page.mouse.wheel(0, -5000)
        box = page.locator(f"#{view} .grid >> visible=true").first.bounding_box()
        page.mouse.wheel(0, box["y"] - 120)
        page.wait_for_timeout(60)
        box = page.locator(f"#{view} .grid >> visible=true").first.bounding_box()
        for step in range(40):
            page.mouse.move(
                box["x"] + 50 + step / 40 * (box["width"] - 60), box["y"] + 20 + step / 40 * (box["height"] - 80)
            )
        for _ in range(6):
            page.mouse.wheel(0, 60)
            page.wait_for_timeout(20)
        page.wait_for_timeout(60)
        return [task for task in page.evaluate("() => window.slow") if task > LONG]

    assert best(3, attempt) == []
