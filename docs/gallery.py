"""Draws the pictures of docs/gallery.md with the built-in model and Chromium: make gallery.

A row of the table is one picture: a text, what is measured, and where the page stands, as after # in its address.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import whence

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
# what is for hands, not for eyes
QUIET = (
    ".panel .choices, .leave, .panel .closer:has(button), .bar { display: none !important; } .panel { padding: 24px; }"
)

WEAR = """(style) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];
}"""


class Picture(NamedTuple):
    """One picture of one view."""

    name: str
    text: str
    measures: tuple[str, ...]
    view: str
    state: str = ""


PICTURES = (
    Picture("flow", KEYS, ("decomposition",), "flow"),
    Picture("flow_long", LONG, ("decomposition",), "flow"),
    Picture("flow_layers", KEYS, ("norms",), "flow", "&flow=attnresln_n"),
    Picture("heads", KEYS, ("attention",), "heads"),
    Picture("mixing", PIGEONS, ("mixing",), "left"),
)


def main(names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    HERE.mkdir(parents=True, exist_ok=True)
    model = whence.load()
    with sync_playwright() as driver, TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1160, "height": 900}, device_scale_factor=1.5)
        for picture in PICTURES:
            if names and picture.name not in names:
                continue
            ds = whence.measure(model, picture.text, list(picture.measures))
            file = whence.report(ds, Path(folder, f"{picture.name}.html"))
            page.goto(f"{file.as_uri()}#view={picture.view}&theme=light{picture.state}")
            page.wait_for_selector(f"#{picture.view}:not([hidden]) h2")
            page.evaluate(WEAR, QUIET)
            page.locator(f"#{picture.view}").screenshot(path=HERE / f"{picture.name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
