"""Charts as data: every kind draws what it is given, and the names of lines can be read."""

import itertools

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import BadInput
from whence.plot.drawing import Drawing, _apart, draw


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["lines", "points", "bars", "boxes", "grid", "steps", "intervals"])
def test_every_kind_of_chart_draws_its_rows(kind, theme):
    import vl_convert

    table = pandas.DataFrame(
        {"x": [1, 2, 3], "y": [0.1, 0.5, 0.3], "low": 0.0, "high": 0.6, "published": [0.2, None, 0.4]}
    )
    table = table.assign(lower=0.1, middle=table["y"], upper=0.5, value=table["y"], x_end=table["x"] + 1)
    drawing = Drawing(kind, table, "x", "y", "A title", "on what", value="value", published="published")
    svg = vl_convert.vegalite_to_svg(draw(drawing, theme).to_json())
    assert "A title" in svg and svg.count("<path") > 3


def test_a_chart_without_data_is_refused():
    with pytest.raises(BadInput, match="nothing to draw"):
        draw(Drawing("lines", pandas.DataFrame({"x": [], "y": []}), "x", "y", "Nothing"))


def test_published_values_are_hollow_marks():
    table = pandas.DataFrame({"x": [1, 2, 3], "y": [0.1, 0.5, 0.3], "published": [0.2, None, 0.4]})
    drawn = draw(Drawing("points", table, "x", "y", "A title", published="published")).to_dict()
    hollow = [layer for layer in drawn["layer"] if layer["mark"].get("filled") is False]
    assert len(hollow) == 1 and hollow[0]["encoding"]["y"]["field"] == "published"
    assert "hollow: as published" in " ".join(drawn["title"]["subtitle"])


def test_nothing_published_is_not_announced():
    table = pandas.DataFrame({"x": [1, 2, 3], "y": [0.1, 0.5, 0.3], "published": [None, None, None]})
    drawn = draw(Drawing("points", table, "x", "y", "A title", "Some texts", published="published")).to_dict()
    assert "hollow" not in " ".join(drawn["title"]["subtitle"])


@pytest.mark.parametrize(("kind", "colored"), [("lines", True), ("bars", False)])
def test_published_marks_are_seen_on_bars_of_their_colour(kind, colored):
    table = pandas.DataFrame({"x": ["a", "b"], "y": [0.4, 0.5], "published": [0.2, 0.4], "of": ["a", "b"]})
    drawn = draw(Drawing(kind, table, "x", "y", "A title", color="of", published="published")).to_dict()
    (hollow,) = (layer for layer in drawn["layer"] if layer["mark"].get("filled") is False)
    assert ("field" in hollow["encoding"]["color"]) is colored


@pytest.mark.parametrize(("places", "marked"), [(10, True), (40, False)])
def test_long_lines_have_no_mark_at_every_place(places, marked):
    table = pandas.DataFrame({"x": range(places), "y": 0.5})
    drawn = draw(Drawing("lines", table, "x", "y", "A title")).to_dict()
    assert bool(drawn["layer"][0]["mark"]["point"]) is marked


def test_many_boxes_do_not_overlap():
    """Small charts of boxes: each box has its own place, or the charts go one below the other."""
    for count in (8, 40):
        names = [f"{place:02}" for place in range(count)] * 2
        columns = {"low": 0.0, "lower": 0.1, "middle": 0.2, "upper": 0.3, "high": 0.4, "by": [1] * count + [2] * count}
        table = pandas.DataFrame({"x": names, **columns})
        width = draw(Drawing("boxes", table, "x", "middle", "A title", by="by")).to_dict()["concat"][0]["width"]
        place = width["step"] if isinstance(width, dict) else width / count
        assert place >= 16


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.12))
def test_names_are_moved_apart_and_stay_on_the_chart(values, least):
    values = sorted(values)
    places = _apart(values, least, 1.0)
    assert all(after - before >= least - 1e-9 for before, after in itertools.pairwise(places))
    assert max(places) <= 1 + 1e-9
    far = all(after - before >= least for before, after in itertools.pairwise(values))
    assert not far or places == values


@pytest.mark.parametrize(("names", "margin"), [([1, 2], 5), (["ab", "sst2 sentiment"], 19), (["a" * 80, "b"], 35)])
def test_long_labels_of_rows_have_room_in_a_wider_font(names, margin):
    table = pandas.DataFrame({"x": [0, 0], "y": names, "share": [0.5, 0.6]})
    chart = draw(Drawing("grid", table, "x", "y", "A title", value="share")).to_dict()
    assert chart["padding"]["left"] == margin
