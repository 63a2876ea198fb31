"""A picture in a page: patches that can be pointed at, walked by keys, and chosen; nothing for axe-core to find."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from tests.towers import SIDE, build
from whence.errors import Unsupported
from whence.web.serve import serve

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
PICTURE = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One of `why`, and one of maps."""
    folder = tmp_path_factory.mktemp("scene")
    model = whence.load(build("vit", AutoModelForImageClassification), ViTImageProcessorPil(size=SIDE))
    explained = whence.why(model, PICTURE)
    whence.report(explained, folder / "why.html")
    whence.report(whence.measure(model, PICTURE, ["mixing", "norms"]), folder / "maps.html")
    return {name: (folder / f"{name}.html").as_uri() for name in ("why", "maps")}, explained


@pytest.mark.parametrize("name", ["why", "maps"])
def test_patches_are_walked_and_pointed_at(open_page, pages, name):
    page = open_page()
    page.goto(pages[0][name])
    cells = page.locator(".scene .cells")
    cells.wait_for()
    assert cells.locator("rect[fill-opacity='0.74']").count() == 16
    cells.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        cells.press(key)
    page.wait_for_function("() => /r1c1/.test(document.querySelector('.scene .cells').getAttribute('aria-label'))")
    box = cells.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    assert "r0c3" in page.locator(".tip").text_content()


def test_the_number_of_a_patch_is_that_of_the_dataset(open_page, pages):
    page = open_page()
    page.goto(pages[0]["why"])
    cells = page.locator(".scene .cells")
    cells.wait_for()
    box = cells.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.6)
    shown = page.locator(".tip").text_content().rpartition(": ")[2].replace("−", "-")
    assert float(shown) == pytest.approx(float(pages[1].share[0, 0, 1 + 2 * 4 + 1]), rel=0.06, abs=0.005)


@pytest.mark.parametrize("name", ["why", "maps"])
def test_axe_finds_nothing(open_page, pages, name):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci")
    page = open_page()
    page.goto(pages[0][name])
    page.locator(".scene .cells").wait_for()
    page.evaluate(AXE.read_text())
    found = page.evaluate("async () => (await axe.run()).violations.map((one) => [one.id, one.nodes[0].html])")
    assert found == []


def test_the_explorer_takes_texts():
    with pytest.raises(Unsupported, match="takes texts, and vit reads pictures; `whence explain FILE"):
        serve({"vit": whence.load(build("vit"))})
