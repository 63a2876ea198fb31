"""What a page looks like from afar: small, grey and blurred, so that letters are gone and the layout is left."""

import base64
import os
from pathlib import Path

import numpy as np

BASELINES = Path(__file__).parent / "layouts"
SHRUNK = 8  # pixels of the page for one of the small picture
STRENGTH = 3  # how much more it stands out from the paper there: thin lines are to be seen
BLOCK = 8  # and of those for one block that is compared
ALIKE = 0.12  # of full contrast, mean over a block: other letter shapes stay below, a panel out of place does not
SMALL = """async ([shot, shrunk, strength]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${shot}`;
  await image.decode();
  const [width, height] = [Math.ceil(image.width / shrunk), Math.ceil(image.height / shrunk)];
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const brush = canvas.getContext('2d');
  brush.imageSmoothingQuality = 'high';
  brush.filter = shrunk > 1 ? 'grayscale(1) blur(1px)' : 'none';
  brush.drawImage(image, 0, 0, 1, 1, 0, 0, width, height); // paper, behind the last row where it is not a whole one
  brush.drawImage(image, 0, 0, image.width / shrunk, image.height / shrunk);
  const pixels = brush.getImageData(0, 0, width, height);
  const paper = pixels.data[0], solid = (place) => place % 4 === 3; // the blur leaves the edges half transparent
  const shade = (value) => Math.round((paper + strength * (value - paper)) / 17) * 17; // few shades, few bytes
  pixels.data.forEach((value, place, all) => { all[place] = solid(place) ? 255 : shade(value); });
  brush.putImageData(pixels, 0, 0);
  const shades = Array.from({ length: width * height }, (_, place) => (pixels.data[4 * place] / 17).toString(16));
  return { width, shades: shades.join(''), png: canvas.toDataURL().split(',')[1] };
}"""


def small(page, shot, shrunk=SHRUNK, strength=STRENGTH):
    """A screenshot from afar, as PNG and as shades of grey from 0 to 1 by row and column."""
    found = page.evaluate(SMALL, [base64.b64encode(shot).decode(), shrunk, strength])
    grey = np.array([int(shade, 16) for shade in found["shades"]]).reshape(-1, found["width"]) / 15
    return base64.b64decode(found["png"]), grey


def apart(one, other):
    """The mean difference in the block that differs most; 1 when one is a block higher or wider than the other."""
    if max(abs(np.subtract(one.shape, other.shape))) > BLOCK:
        return 1.0
    high, wide = (min(sizes) for sizes in zip(one.shape, other.shape, strict=True))
    difference = abs(one[:high, :wide] - other[:high, :wide])
    rows, columns = np.arange(0, high, BLOCK // 2), np.arange(0, wide, BLOCK // 2)
    return max(difference[row : row + BLOCK, column : column + BLOCK].mean() for row in rows for column in columns)


def from_baseline(page, name, keep=True):
    """How far the page, as it is now, is from the picture kept under this name; WHENCE_PICTURES=1 keeps it anew."""
    png, now = small(page, page.screenshot(full_page=True))
    kept = BASELINES / f"{name}.png"
    if keep and os.environ.get("WHENCE_PICTURES"):
        kept.write_bytes(png)
    _, known = small(page, kept.read_bytes(), shrunk=1, strength=1)
    return apart(now, known)
