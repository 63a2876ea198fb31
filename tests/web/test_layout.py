"""Every view looks as it did: screenshots from afar against those kept; WHENCE_PICTURES=1 keeps them anew."""

import pytest
from benchmarks.explorer import VIEWS

from tests.web.conftest import BUILTIN
from tests.web.layout import ALIKE, from_baseline
from tests.web.test_browser import show

TEXT = "The keys to the cabinet [MASK] on the table."
EDITED = "The key to the cabinet [MASK] on the table."
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
SCENES = {
    "light": ("light", WIDE, VIEWS),
    "dark": ("dark", WIDE, ("flow", "compare")),
    "phone": ("light", PHONE, ("left", "maps")),
}
# what goes wrong with a page
FAULTS = {
    "a panel is missing": "#left .aside { visibility: hidden; }",
    "a panel has moved": "#left .main { transform: translateX(60px); }",
    "panels overlap": "#left .pictures { margin-top: -90px; }",
    "a row of buttons is gone": ".ask .choices { visibility: hidden; }",
}
# and what another version of the browser may do
CHANCE = {"letters a little wider, lines a little higher": "body { letter-spacing: .1px; } h2 { padding-bottom: 1px; }"}
WEAR = """(style) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];
}"""


@pytest.fixture
def scene(visit):
    """The shared page with one sentence, in a theme and at a size; afterwards it is as wide as it was."""
    pages = []

    def go(theme, size):
        pages.append(visit("left", text=TEXT, edited=EDITED, model=BUILTIN, theme=theme))
        pages[0].set_viewport_size(size)
        pages[0].emulate_media(reduced_motion="reduce")  # ribbons are there, and not on their way
        return pages[0]

    yield go
    pages[0].evaluate(WEAR, "")
    pages[0].set_viewport_size(WIDE)
    pages[0].emulate_media(reduced_motion="no-preference")


@pytest.mark.parametrize("name", SCENES)
def test_views_look_as_they_did(scene, name):
    theme, size, views = SCENES[name]
    page, found = scene(theme, size), {}
    for view in views:
        show(page, view)
        page.mouse.move(2, 2)
        found[view] = from_baseline(page, f"{view}-{name}")
    assert {view: far for view, far in found.items() if far > ALIKE} == {}


def test_what_goes_wrong_is_seen_and_chance_is_not(scene):
    page = scene(*SCENES["light"][:2])
    for fault, style in (FAULTS | CHANCE).items():
        page.evaluate(WEAR, style)
        assert (from_baseline(page, "left-light", keep=False) > ALIKE) == (fault in FAULTS), fault
