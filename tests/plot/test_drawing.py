"""Charts as data: every kind draws what it is given, and the names of lines can be read."""

import itertools

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import BadInput
from whence.plot.drawing import Drawing, _apart, draw
from whence.plot.encodings import steps


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


def test_layers_have_a_colour_by_their_depth_whatever_their_order():
    names = ["layer 6", "layer 1", "layer 3"]
    colors = dict(zip(names, steps(names, "light"), strict=True))
    assert steps(sorted(names), "light") == [colors[name] for name in sorted(names)]
    assert len(set(colors.values())) == 3 and steps(["1", "2", "4-5", "11+"], "dark")
    assert not steps(["layer 1", "guessing"], "light") and not steps(["1"], "light")


def test_lines_of_reference_stand_where_the_table_says():
    table = pandas.DataFrame({"x": [1, 2, 3], "y": [0.1, 0.5, 0.3], "width": 2.5})
    drawing = Drawing("points", table, "x", "y", "A title", upright=("width", "a head"), rule=(0.2, "chance"))
    drawn = draw(drawing).to_dict()
    rows = [row for rows in drawn["datasets"].values() for row in rows if "at" in row]
    assert {(row["at"], row["name"]) for row in rows} == {(2.5, "a head"), (0.2, "chance")}
    rules = [layer["encoding"] for layer in drawn["layer"] if layer["mark"]["type"] == "rule"]
    assert [set(rule) for rule in rules] == [{"y"}, {"x"}]


def test_single_values_are_thin_behind_their_mean():
    table = pandas.DataFrame({"x": [1, 2], "y": [0.1, 0.5], "one": [0.3, 0.2]})
    thin, line = draw(Drawing("lines", table, "x", "y", "A title", raw="one")).to_dict()["layer"]
    assert thin["encoding"]["y"]["field"] == "one" and thin["mark"]["strokeWidth"] < line["mark"]["strokeWidth"]


def test_a_logarithmic_axis_names_its_places():
    import vl_convert

    table = pandas.DataFrame({"x": [1, 10, 1000], "y": [0.1, 0.5, 0.3]})
    drawing = Drawing("points", table, "x", "y", "A title", ticks={1: "1\nthe", 1000: "1,000\nharbour"})
    svg = vl_convert.vegalite_to_svg(draw(drawing).to_json())
    assert "harbour" in svg and "1,000" in svg and ">the<" in svg


def test_a_line_does_not_cross_a_place_without_a_value():
    import re

    import vl_convert

    table = pandas.DataFrame({"x": range(-20, 21), "y": 0.5})
    paths = []
    for values in (table["y"], table["y"].where(table["x"] != 0)):
        svg = vl_convert.vegalite_to_svg(draw(Drawing("lines", table.assign(y=values), "x", "y", "A title")).to_json())
        paths.append(max(re.findall(r'<path [^>]*d="([^"]*)"', svg), key=len))
    assert paths[0].count("M") == 1 and paths[1].count("M") == 2


@pytest.mark.parametrize(("places", "written"), [(5, True), (13, False)])
def test_numbers_stand_in_small_grids_where_there_is_room(places, written):
    cells = [(x, y, panel) for panel in "ab" for x in range(places) for y in "pqr"]
    table = pandas.DataFrame(cells, columns=["x", "y", "of"]).assign(x=lambda rows: rows["x"].map(str), value=0.5)
    drawn = draw(Drawing("grid", table, "x", "y", "A title", value="value", by="of")).to_dict()
    marks = [layer["mark"]["type"] for layer in drawn["concat"][0]["layer"]]
    assert ("text" in marks) is written


def test_headings_are_not_cut_above_one_small_chart_and_names_not_at_its_side():
    """Vega draws nothing outside of a chart and its padding; a browser's letters are up to 6.8 pixels wide."""
    table = pandas.DataFrame({"x": [1, 2], "y": [0.1, 0.2], "of": "one"})
    said = draw(
        Drawing("lines", table, "x", "y", "A title of " + "words " * 12, "said of " + "it " * 40, by="of")
    ).to_dict()
    room = said["concat"][0]["width"] + 50 + said["padding"]["right"]
    assert max(map(len, said["title"]["subtitle"])) * 6.8 <= room and len(said["title"]["subtitle"]) > 1
    assert max(map(len, said["title"]["text"])) * 8 <= room
    named = table.assign(low=0.0, high=0.3, y=["gradient_local, mean of layers", "share"])
    assert draw(Drawing("intervals", named, "x", "y", "A")).to_dict()["padding"]["left"] >= 30
