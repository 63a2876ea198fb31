"""Charts draw every cell of what they show, and can leave as SVG."""

import re

import pytest
from tests.tiny import model as tiny

import whence
from whence.errors import BadInput
from whence.plot.charts import maps, mixing_grid, mixing_lines, overview, write
from whence.plot.style import SINK

TEXT = "The keys to the cabinet [MASK] on the table, the table."


@pytest.fixture(scope="module")
def dataset(builtin):
    return whence.measure(builtin, TEXT, ["attention", "effective", "norms", "mixing"])


def heading(chart):
    """The title and the subtitle, however many lines they take."""
    title = chart.to_dict()["title"]
    return " ".join(title["text"]), " ".join(title["subtitle"])


def rows(chart):
    found = chart.to_dict()
    return {len(data) for data in found["datasets"].values()}


def test_the_grid_has_a_cell_per_layer_and_token(dataset):
    """Equal tokens keep columns of their own."""
    tokens = dataset.sizes["target"]
    chart = mixing_grid(dataset)
    assert rows(chart) == {6 * tokens}
    cells = next(iter(chart.to_dict()["datasets"].values()))
    assert len({cell["target"] for cell in cells}) == tokens


def test_the_title_is_about_the_analysis_that_is_drawn(dataset):
    by_layer = dataset.mixing.sel({"analysis": "attn_w"}).mean("target")
    title, subtitle = heading(mixing_grid(dataset, "attn_w"))
    assert f"{100 * float(by_layer.max()):.0f} % of a token's new vector" in title
    assert "weights: attention" in subtitle


def test_special_tokens_look_special(dataset, tmp_path):
    write(maps(dataset, ["attention"], layer=3), tmp_path / "map.svg")
    labels = re.findall(r'<text[^>]*font-style="italic"[^>]*>([^<]+)', (tmp_path / "map.svg").read_text())
    assert sorted(labels) == ["[CLS]", "[CLS]", "[SEP]", "[SEP]"]


def test_heads_are_named_where_there_are_any(dataset):
    assert heading(maps(dataset, ["attn_n"], layer=3))[0] == "Layer 3"
    assert heading(maps(dataset, ["attention"], layer=3))[0] == "Layer 3, mean of the heads"


def test_a_heading_is_not_cut_above_a_short_sentence(builtin):
    """Vega draws nothing outside of a chart and its padding: every line has so much room."""
    short = whence.measure(builtin, "Yes.", ["attention", "mixing"])
    for chart in (mixing_grid(short), overview(short), maps(short, ["attention"], 1)):
        said = chart.to_dict()
        room = short.sizes["target"] * 22 + said["padding"]["right"]
        assert max(map(len, said["title"]["text"])) * 7.6 <= room and len(said["title"]["text"]) < 4
        assert max(map(len, said["title"]["subtitle"])) * 6.2 <= room


def test_a_page_carries_all_it_needs(dataset, tmp_path):
    write(mixing_lines(dataset), tmp_path / "lines.html")
    assert "cdn." not in (tmp_path / "lines.html").read_text()


def test_lines_have_a_point_per_analysis_and_layer(dataset):
    assert rows(mixing_lines(dataset)) == {30, 5}


@pytest.mark.parametrize("names", [["attention"], ["attention", "effective"], ["attn_n", "attnresln_n"]])
def test_maps_have_a_cell_per_pair(dataset, names, tmp_path):
    chart = maps(dataset, names, layer=3)
    assert rows(chart) == {dataset.sizes["target"] ** 2}
    chart.save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text().count("<path") > dataset.sizes["target"] ** 2


def test_lengths_are_not_shown_as_per_cent(dataset):
    spec = maps(dataset, ["attn_n"], layer=1).to_dict()
    assert spec["hconcat"][0]["encoding"]["color"]["legend"]["format"] == ".2"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"layer": 7}, "There is no layer 7 in the Dataset; there are: 2, 3."),
        ({"layer": 1}, "There is no layer 1 in the Dataset; there are: 2, 3."),
        ({"head": 12}, r"There is no head 12 in the Dataset; there are: 0, 1, .*, 11\."),
        ({"names": ["attention", "null"]}, r"There is no map 'null' in the Dataset; there are: attention, effective"),
        ({"names": ["mixing"]}, "There is no map 'mixing' in the Dataset"),
    ],
)
def test_what_is_not_there_is_named(dataset, asked, says):
    with pytest.raises(BadInput, match=says):
        maps(dataset.sel(layer=[2, 3]), **({"names": ["attention"], "layer": 2} | asked))


def test_an_analysis_that_is_not_there(dataset):
    with pytest.raises(BadInput, match="There is no analysis 'magic' in the Dataset; there are: attn_w"):
        mixing_grid(dataset, "magic")


@pytest.fixture(scope="module")
def decoder():
    return tiny("gpt2")


def test_rows_that_rest_on_the_first_token_are_marked(decoder):
    """A dot for each in the grid, a word for each in a map."""
    found = whence.measure(decoder, "ada bo cy dee ed fay .", ["attention", "mixing"])
    dots = int(found.sink.sum())
    assert dots > 0 and rows(mixing_grid(found)) == {dots, found.sink.size}
    assert SINK["dots"] in heading(mixing_grid(found))[1]
    layer, head = (int(axis[0]) for axis in found.head_sink.any("target").values.nonzero())
    layer += 1
    chart = maps(found, ["attention"], layer, head)
    cells = next(iter(chart.to_dict()["datasets"].values()))
    marked = {int(cell["target"].split("\u2063")[1]) for cell in cells if "(sink)" in cell["target"]}
    assert marked == set(found.head_sink.sel(layer=layer, head=head).values.nonzero()[0].tolist())
    assert not any("(sink)" in cell["source"] for cell in cells)
    assert SINK["rows"] in heading(chart)[1]


def test_a_few_targets_keep_their_names(dataset):
    few = dataset.sel(target=[2, 5])
    cells = next(iter(maps(few, ["attention"], 6).to_dict()["datasets"].values()))
    shown = {cell["target"].split("\u2063")[0] for cell in cells}
    assert len(cells) == 2 * dataset.sizes["source"] and shown == set(few.target_token.values)


def test_a_text_at_a_glance(dataset):
    assert rows(overview(dataset)) == rows(mixing_grid(dataset))
    assert heading(overview(dataset[["attention"]]))[0] == "Layer 6, mean of the heads"
    with pytest.raises(BadInput, match="A chart needs mixing or a map"):
        overview(dataset[[]])
