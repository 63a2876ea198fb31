"""The picture of the README, and that the page still looks like it: WHENCE_PICTURES=1 draws it anew."""

import base64
import os
from pathlib import Path

from tests.web.conftest import BUILTIN, link, settled

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "explorer.png"
TEXT = "The keys to the cabinet [MASK] on the table."
ALIKE = 0.06  # of full contrast, mean over the picture: other fonts stay below, a panel out of place does not
# both pictures at 96 x 72, where letters are grey and only the layout is left
DIFFERENCE = """async ([one, other]) => {
  const pixels = async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width: 96, height: 72 });
    const brush = canvas.getContext('2d');
    brush.imageSmoothingQuality = 'high';
    brush.drawImage(image, 0, 0, 96, 72);
    return brush.getImageData(0, 0, 96, 72).data;
  };
  const [left, right] = [await pixels(one), await pixels(other)];
  return left.reduce((sum, value, place) => sum + Math.abs(value - right[place]), 0) / left.length / 255;
}"""


def drawn(open_page, server, **state):
    page = settled(open_page(link(server, text=TEXT, **state), viewport={"width": 1120, "height": 960}))
    page.mouse.move(2, 2)
    page.wait_for_timeout(200)
    return page


def test_the_page_looks_like_its_picture(open_page, server):
    page = drawn(open_page, server, model=BUILTIN, view="flow", theme="light")
    shot = page.screenshot()
    if os.environ.get("WHENCE_PICTURES"):
        PICTURE.write_bytes(shot)
    known = base64.b64encode(PICTURE.read_bytes()).decode()
    found = base64.b64encode(shot).decode()
    assert page.evaluate(DIFFERENCE, [found, known]) < ALIKE
    page.click("#tab-maps")
    other = base64.b64encode(page.screenshot()).decode()
    assert page.evaluate(DIFFERENCE, [other, known]) > page.evaluate(DIFFERENCE, [found, known])
