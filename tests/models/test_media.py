"""Pictures and sounds in every form in which people have them: the same picture gives the same pixels."""

import numpy as np
import pytest
import torch
from PIL import Image

from whence.errors import BadInput
from whence.models.media import is_picture, picture, sound

PIXELS = np.random.RandomState(0).randint(0, 256, (6, 5, 3)).astype("uint8")
RGB = Image.fromarray(PIXELS)
GREY = PIXELS[..., 0]
SAMPLES = (np.random.RandomState(1).randn(40) * 3000).astype("int16")


def _pixels(item) -> np.ndarray:
    image = picture(item, "ViTModel")
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.mark.parametrize(
    "form",
    [
        PIXELS.transpose(2, 0, 1),
        PIXELS[None],
        PIXELS / 255,
        torch.tensor(PIXELS) / 255,
        PIXELS.astype("float32"),
        np.dstack([PIXELS, GREY]),
        RGB.convert("RGBA"),
    ],
    ids=["colours first", "a batch", "0 to 1", "tensor", "0 to 255", "transparent", "RGBA"],
)
def test_one_picture_in_many_forms(form):
    np.testing.assert_array_equal(_pixels(form), PIXELS)


@pytest.mark.parametrize(
    "form",
    [
        GREY,
        GREY[..., None],
        Image.fromarray(GREY),
        Image.fromarray(GREY.astype("uint16") * 257),
        Image.fromarray(GREY.astype("int32")),
        Image.fromarray(GREY.astype("float32") / 255),
    ],
    ids=["plane", "one colour", "L", "16 bits", "32 bits", "F"],
)
def test_a_grey_picture_has_three_equal_colours(form):
    np.testing.assert_array_equal(_pixels(form), np.repeat(GREY[..., None], 3, axis=-1))


def test_a_photograph_is_upright(tmp_path):
    """Its file says how the camera was held; transformers turns it in the same way."""
    exif = Image.Exif()
    exif[274] = 6
    RGB.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(_pixels(tmp_path / "a.png"), np.rot90(PIXELS, -1))


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (np.zeros((0, 5, 3), "uint8"), r"has the shape .* and \(0, 5, 3\) was given"),
        (np.zeros((4, 4, 4, 4), "uint8"), "has the shape"),
        (np.full((4, 4, 3), np.nan), "from 0 to 1, and others were given"),
        (np.full((4, 4, 3), -1.5), "from 0 to 1, and others were given"),
        (PIXELS.astype("uint16") * 257, "from 0 to 1, and others were given"),
        (PIXELS.astype(complex), "from 0 to 1, and others were given"),
        ([RGB], "ViTModel reads pictures .* and list was given"),
    ],
)
def test_what_is_no_picture_is_refused(form, why):
    with pytest.raises(BadInput, match=why):
        picture(form, "ViTModel")


def test_whole_numbers_are_samples_of_their_width():
    expected = SAMPLES.astype("float32") / 2**15
    for form in (SAMPLES, SAMPLES.astype("int32") * 2**16, torch.tensor(SAMPLES), expected.tolist()):
        np.testing.assert_array_equal(sound(form, "HubertModel", 16_000), expected)


@pytest.mark.parametrize("form", [np.zeros(0), np.zeros((40, 2)), ["a", "b"], [[0.0], [0.0, 1.0]], b"abc", None])
def test_what_is_no_row_of_samples_is_refused(form):
    with pytest.raises(BadInput, match=r"no samples|reads sounds"):
        sound(form, "HubertModel", 16_000)


def test_a_name_of_a_picture_that_is_not_here_is_no_text(tmp_path):
    RGB.save(tmp_path / "a.png")
    assert is_picture(str(tmp_path / "a.png")) and not is_picture("a photo of a cat.png")
    with pytest.raises(BadInput, match=r"'b.png' is the name of a picture, and no such file is here"):
        is_picture("b.png")
