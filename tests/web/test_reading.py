"""How pictures are read and taken away: by keys, by touch, on white; and those of variables nobody here knows."""

import re

import numpy as np
import pytest

import whence
from tests.web.conftest import TINY, link, settled
from tests.web.test_browser import CAT, heading, picture_of, show, state_of
from whence.measures.registry import ATTENTION, Measure, Variable
from whence.measures.table import MEASURES
from whence.plot.palette import FURNITURE

SIZES = {"layer": 3, "head": 4, "target": 9, "source": 9}
FOREIGN = {
    "closeness": ("layer", "target", "source"),
    "closeness_heads": ("layer", "head", "target", "source"),
    "sharpness": ("layer", "head"),
    "depth": ("layer", "target"),
}


def test_pictures_leave_on_white_whatever_the_theme(visit):
    page = visit("left", model=TINY, text=f"{CAT[:-4]}[MASK].", theme="dark")
    dark = {FURNITURE["dark"][name] for name in ("paper", "ink", "muted", "line")}
    for view in ("left", "whence", "flow", "maps", "heads", "prediction", "compare"):
        show(page, view)
        text = picture_of(page, view, "SVG").decode()
        assert f'fill="{FURNITURE["light"]["paper"]}"' in text, view
        assert not [color for color in dark if color in text], view


def test_home_end_and_escape(visit):
    page = visit("whence", model=TINY, text=CAT, token=2)
    page.focus("#whence .grid")
    page.keyboard.press("End")
    assert state_of(page)["source"] == "8"
    page.keyboard.press("Home")
    assert state_of(page)["source"] == "0"
    page.keyboard.press("Control+ArrowRight")  # the browser's own
    assert state_of(page)["source"] == "0"
    page.hover("#whence .grid")
    assert page.locator(".tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()
    page.focus(".token[aria-pressed=true]")
    page.keyboard.press("End")
    assert state_of(page)["token"] == "8"
    assert page.evaluate("() => document.activeElement.textContent") == "[SEP]"
    page.focus("#tab-whence")
    page.keyboard.press("Home")
    page.wait_for_selector("#left:not([hidden])")


def test_a_touch_tells_and_selects(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=CAT), has_touch=True))
    for view in ("left", "flow"):
        show(page, view)
        box = page.locator(f"#{view} .grid").first.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] * 0.6, box["y"] + 40)
        place = int(re.search(r"\((\d+)\)", page.wait_for_selector(".tip:visible").inner_text())[1])
        page.wait_for_selector(f".token:nth-child({place + 1})[aria-pressed=true]")
        page.touchscreen.tap(5, 5)
        page.wait_for_selector(".tip", state="hidden")


@pytest.fixture
def foreign(monkeypatch, models):
    """A Dataset with four variables of a measure that somebody else registered."""
    units = {name: "share" if "source" in dims else "bits" for name, dims in FOREIGN.items()}
    about = {name: f"{name} of somebody else's" for name in FOREIGN}
    rows = {name: Variable(dims, units[name], about[name], ATTENTION) for name, dims in FOREIGN.items()}
    monkeypatch.setitem(MEASURES, "foreign", Measure("Somebody else's.", rows, ("vaswani2017",), "nowhere:none"))
    ds = whence.measure(models[TINY], CAT, ["attention"])
    numbers = np.random.default_rng(0)
    arrays = {name: numbers.random([SIZES[dim] for dim in dims], np.float32) for name, dims in FOREIGN.items()}
    return ds.assign({name: (FOREIGN[name], values) for name, values in arrays.items()})


def test_somebody_elses_variables_are_drawn(open_page, foreign, tmp_path):
    path = whence.report(foreign, tmp_path / "page.html")
    page = open_page(f"{path.as_uri()}#view=whence&map=closeness&layer=2&token=3")
    page.wait_for_selector("#whence:not([hidden]) h2")
    row = foreign["closeness"].sel(layer=2).values[3]
    assert f"{100 * row.max() / row.sum():.0f}\N{NO-BREAK SPACE}%" in heading(page)
    chosen = {"flow": "closeness", "maps": "closeness_heads", "heads": "closeness_heads", "left": "depth"}
    for view, name in chosen.items():
        show(page, view)
        page.select_option(f"#{view} select >> nth=0", name)
        said = f"Links by {name}" if view == "flow" else f"{name[1:]} of somebody else"
        page.wait_for_selector(f"#{view} .subtitle:has-text('{said}')")
        assert heading(page), view
    show(page, "left")
    depth = foreign["depth"].sel(layer=2).values
    assert f"has {depth[3]:.3g}; the average token {depth.mean():.3g}" in heading(page)
    page.hover("#tab-heads")
    show(page, "heads")
    page.hover("#heads canvas")
    assert "sharpness 0." in page.inner_text(".tip")
