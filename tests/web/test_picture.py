"""The picture of the README, and that the page still looks like it: WHENCE_PICTURES=1 draws it anew."""

import os
from pathlib import Path

from tests.web.conftest import BUILTIN, link, settled
from tests.web.layout import ALIKE, apart, small
from tests.web.test_browser import show
from tests.web.test_layout import TEXT

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "explorer.png"
WIDTH, MARGIN = 1080, 28


def framed(page, view):
    """The page from its top to the end of a view."""
    page.mouse.move(2, 2)
    end = page.locator(f"#{view} .leave").bounding_box()
    return page.screenshot(
        full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": end["y"] + end["height"] + MARGIN}
    )


def test_the_page_looks_like_its_picture(open_page, server):
    address = link(server, text=TEXT, model=BUILTIN, view="flow", theme="light")
    page = settled(open_page(address, viewport={"width": WIDTH, "height": 960}))
    shot = framed(page, "flow")
    if os.environ.get("WHENCE_PICTURES"):
        PICTURE.write_bytes(shot)
    _, known = small(page, PICTURE.read_bytes())
    assert apart(small(page, shot)[1], known) < ALIKE
    show(page, "maps")
    assert apart(small(page, framed(page, "maps"))[1], known) > ALIKE
