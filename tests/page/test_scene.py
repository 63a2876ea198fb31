"""What pages and terminals draw of pictures and sounds: every token at its place, or as a word beside it."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len
from tests.towers import SIDE, build
from transformers import AutoModelForAudioClassification, AutoModelForImageClassification, Wav2Vec2FeatureExtractor
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from whence.page import payload, why
from whence.page.scene import scene
from whence.plot import terminal, terminal_why
from whence.plot.terminal_scene import grids, in_scene

PICTURE = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")


@pytest.fixture(scope="module")
def vit():
    return whence.load(build("vit", AutoModelForImageClassification), ViTImageProcessorPil(size=SIDE))


@pytest.fixture(scope="module")
def explained(vit):
    return whence.why(vit, PICTURE)


@pytest.fixture(scope="module")
def spoken():
    model = whence.load(build("wav2vec2", AutoModelForAudioClassification, num_labels=3), Wav2Vec2FeatureExtractor())
    return whence.why(model, np.random.RandomState(0).randn(320).astype("float32"))


def test_every_patch_has_its_cell_and_special_tokens_none(explained):
    found = scene(explained, "source")
    assert found["cells"] == [None, *([0, row, column] for row in range(4) for column in range(4))]
    assert [(one["rows"], one["columns"]) for one in found["pictures"]] == [(4, 4)]
    with Image.open(io.BytesIO(base64.b64decode(found["pictures"][0]["image"].partition(",")[2]))) as kept:
        assert kept.size == (24, 24)


def test_every_frame_has_its_time(spoken):
    found = scene(spoken, "source")
    assert found["spans"] == [
        list(pair) for pair in zip(spoken.source_start.values, spoken.source_end.values, strict=True)
    ]


def test_a_text_has_no_scene(builtin):
    ds = whence.why(builtin, "Paris is [MASK].")
    assert scene(ds, "source") is None and why.payload(ds)["scene"] is None and not in_scene(ds, "source").any()


def test_the_picture_is_in_the_page_once(explained, vit, tmp_path):
    for ds in (explained, whence.measure(vit, PICTURE, ["mixing", "norms"])):
        page = whence.report(ds, tmp_path / "page.html").read_text()
        assert page.count("data:image/png;base64,") == 1
    data = payload.payload(whence.measure(vit, PICTURE, ["mixing", "norms"]))
    assert data["scene"]["kind"] == "picture" and "picture" not in data["attrs"]
    json.dumps(data["scene"], allow_nan=False)


def test_rows_of_some_targets_have_the_whole_picture(vit):
    every, some = (whence.measure(vit, PICTURE, ["norms"], targets=targets) for targets in (None, [0]))
    assert payload.payload(some)["scene"] == payload.payload(every)["scene"]


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("color", [True, False])
def test_a_terminal_shows_patches_and_frames_within_its_width(explained, spoken, vit, width, color):
    shown = [terminal_why.picture(ds, [0, 3], width, color) for ds in (explained, spoken)]
    shown.append(terminal.picture(whence.measure(vit, PICTURE, ["mixing", "norms"]), width, color))
    for text in shown:
        assert max(cell_len(line) for line in text.plain.split("\n")) <= width
    assert ("▀" in shown[0].plain) == color == ("▀" in shown[2].plain)


def test_numbers_of_patches_are_those_of_the_dataset(explained):
    values = explained.share.sel(layer=0).values[0]
    end = float(abs(values).max())
    lines = [line.plain.replace("−", "-") for line in grids(explained, "source", values, end, 80, None)]
    read = [[int(number) for number in re.findall(r"-?\d+", line)] for line in lines]
    assert read == np.round(100 * values[1:].reshape(4, 4) / end).astype(int).tolist()


def test_colours_of_patches_are_those_of_the_scale(explained):
    from whence.plot.palette import signed

    values = np.zeros(17)
    values[1], values[5] = 1.0, -1.0  # the first of the first row, and of the second below it
    first = next(iter(grids(explained, "source", values, 1.0, 4, "light")))
    style = first.spans[0].style
    assert style.color.name == signed(1.0, "light") and style.bgcolor.name == signed(-1.0, "light")


def test_a_grid_that_does_not_fit_says_so(explained):
    lines = [line.plain for line in grids(explained, "source", np.ones(17), 1.0, 3, "dark")]
    assert lines == ["4 patches in a row do not fit; the page shows them."]
