"""Draws the picture of docs/encoder_decoder.md with Chromium: make gallery. The model writes letters backwards."""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gallery import QUIET, WEAR, framed
from playwright.sync_api import sync_playwright

import whence

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "alignment.png"
PAIR = ("s t r a w e h m", "m h e w a r t")


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.reversing import tokenizer, trained

    tree = whence.measure(whence.load(trained(), tokenizer()), PAIR, ["contribution"])
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1160, "height": 900}, device_scale_factor=1.5)
        address = whence.report(tree, Path(folder, "page.html")).as_uri()
        page.goto(f"{address}#view=alignment&theme=light&token=11")
        page.wait_for_selector("#alignment svg")
        page.evaluate(WEAR, QUIET)
        page.screenshot(path=PICTURE, full_page=True, clip=framed(page, "#alignment"))
        browser.close()


if __name__ == "__main__":
    main()
