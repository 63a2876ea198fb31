"""The views as they stand in a saved page: nothing for axe-core to find, and no long task at two hundred tokens."""

from pathlib import Path

import pytest

import whence
from tests import tiny

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ("left", "flow", "maps", "heads")
LONGEST, SLACK, TRIES = 50, 5, 3  # milliseconds; the tests share two cores with others, which only ever add
FOUND = """(view) => axe.run(document.getElementById(view)).then(({ violations }) =>
  violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`))"""
# Milliseconds of the longest task while something is done.
WATCH = """() => {
  window.longest = 0;
  const seen = (list) => { for (const { duration } of list) window.longest = Math.max(window.longest, duration); };
  window.watch = new PerformanceObserver((list) => seen(list.getEntries()));
  window.watch.observe({ type: 'longtask' });
}"""
TOLD = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
  window.watch.disconnect();
  done(window.longest);
}, 20)))"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Writes the page of a text of so many words."""
    folder, model = tmp_path_factory.mktemp("views"), tiny.model(max_position_embeddings=512)

    def save(words):
        text = " ".join(tiny.WORDS[place * 7 % len(tiny.WORDS)] for place in range(words))
        ds = whence.measure(model, text, ["attention", "mixing", "norms", "decomposition"])
        return whence.report(ds, folder / f"{words}.html").as_uri()

    return save


def show(page, view):
    page.click(f"#tab-{view}")
    page.wait_for_selector(f"#{view}:not([hidden]) h2")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, saved, theme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci")
    page = open_page(f"{saved(9)}#theme={theme}")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = {}
    for view in VIEWS:
        show(page, view)
        found[view] = page.evaluate(FOUND, view)
    assert not any(found.values()), found


def test_no_task_is_long_at_two_hundred_tokens(open_page, saved):
    page = open_page(saved(200))
    longest = {}
    for view in VIEWS:
        show(page, view)
        for _ in range(TRIES):
            page.evaluate(WATCH)
            page.focus(f"#{view} .grid >> visible=true")
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowDown")
            longest[view] = min(longest.get(view, 1e9), page.evaluate(TOLD))
            if longest[view] < SLACK * LONGEST:
                break
    assert {view: spent for view, spent in longest.items() if spent >= SLACK * LONGEST} == {}
