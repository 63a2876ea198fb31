"""What stays when no script runs: in an exported notebook, and in a terminal."""

from xml.etree import ElementTree

import numpy as np
import pytest
from tests import tiny

import whence
from whence.citations import credit
from whence.page import still

TEXT = "ada bo cy dee ."


@pytest.fixture(scope="module")
def dataset():
    return whence.measure(tiny.model(), TEXT, ["decomposition", "norms"])


def texts(svg):
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_a_widget_leaves_a_picture_and_words_behind(dataset):
    made = whence.widget(dataset)
    data, _ = made._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data  # a notebook that runs shows the widget
    shown = texts(data["image/svg+xml"])
    assert [token for token in dataset["target_token"].values if token not in shown] == []
    assert "goes back to" in shown[0] and "goes back to" in data["text/plain"]
    assert "<script" not in data["image/svg+xml"] and "nan" not in data["image/svg+xml"]
    made.close()


def test_it_says_the_shares_of_the_last_layer(dataset):
    found = still.of(dataset, "decomposition_share")
    chosen = found.tokens.index(".")
    expected = dataset["decomposition_share"].isel(layer=-1, target=chosen).values
    assert found.values == pytest.approx(expected / expected.sum(), abs=1e-6)
    assert f"“{found.tokens[int(expected.argmax())]}”" in found.finding.split("goes back to")[1].split(",")[0]


def test_an_explained_prediction_too():
    ds = whence.why(tiny.model("gpt2"), "ada bo cy", measures="share")
    found = still.of(ds)
    assert found.values == pytest.approx(ds["share"].isel(predicted=0, layer=0).values, rel=1e-5)
    assert found.finding in texts(still.as_svg(found))


def test_hostile_tokens_stay_text():
    made = still.Still("<b>", "&", ["</svg><script>", "שלום", "漢字"], np.array([0.1, -0.2, 0.7]))
    assert texts(still.as_svg(made))[:3] == ["<b>", "&", "</svg><script>"]


def test_the_line_below_a_picture_names_whence_the_model_and_the_papers(dataset):
    line = credit(dataset)
    assert line.startswith(f"Made with whence {whence.__version__} · ") and "Kobayashi et al. 2021" in line
    assert "{" not in line and "\\" not in line and "\n" not in line
