"""Maps of a text that is too long for those of all layers: one layer at a time, in bands, when somebody asks."""

from dataclasses import replace

import pytest

import whence
from tests.web.conftest import BUILTIN, link, painted, settled
from tests.web.test_browser import show, table_of
from whence.web.unasked import PLAN

TEXT = "The old man who fed the hungry pigeons every morning was gone, and nobody near the station knew where he went."
LONG = " ".join([TEXT] * 18)  # about four hundred tokens: more than one band
MOST = 40


@pytest.fixture
def short(monkeypatch):
    """What is measured unasked of up to 600 tokens is measured of forty."""
    for name in ("attention", "norms", "effective", "null", "map"):
        monkeypatch.setitem(PLAN, name, replace(PLAN[name], most=MOST))


def test_a_layer_is_measured_when_asked_for_and_drawn_in_bands(open_page, server, models, short):
    page = settled(open_page(link(server, text=LONG, model=BUILTIN, view="maps")))
    assert page.inner_text("#maps h2") == "One layer at a time" and not page.is_visible("#maps .grid")
    page.click("text=Measure layer 6")
    page.wait_for_selector("#maps h2:has-text('In layer 6')")
    page.wait_for_function("() => document.querySelectorAll('#maps .grid image[href]').length > 0")
    page.wait_for_function("() => !document.querySelector('#maps .grid image:not([href])')")
    assert page.locator("#maps .grid >> nth=0 >> image").count() > 1
    page.select_option("#maps select >> nth=1", "3")
    page.wait_for_selector("#maps .subtitle:has-text('Head 3')")
    _, rows = table_of(page, "maps")
    expected = whence.measure(models[BUILTIN], LONG, "attention", layers=[6]).attention.values[0, 3]
    target = int(rows[0][3])
    assert [float(row[-1]) for row in rows] == pytest.approx(expected[target].tolist(), abs=1e-4)
    again = settled(open_page(page.url))
    again.wait_for_selector("#maps .subtitle:has-text('Head 3')")


def test_a_short_text_has_its_maps_at_once(open_page, server, short):
    page = settled(open_page(link(server, text="A cat sat here.", model=BUILTIN, view="maps")))
    show(page, "maps")
    painted(page)
    assert not page.locator("#maps .go").count() and page.is_visible("#maps .grid")
