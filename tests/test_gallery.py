"""The gallery: ten pictures, each of them drawn by a row of docs/gallery.py and shown once."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TEN = 10


def rows():
    spec = spec_from_file_location("gallery", DOCS / "gallery.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PICTURES


def test_each_picture_is_drawn_by_a_row_and_shown_once():
    shown = re.findall(r"\(pictures/gallery/(\w+)\.png\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    kept = {file.stem for file in (DOCS / "pictures" / "gallery").glob("*.png")}
    assert len(shown) == TEN and set(shown) == kept
    assert sorted(shown) == sorted(row.name for row in rows())
