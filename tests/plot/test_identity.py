"""Charts of token identifiability show the numbers of the Dataset, and their titles say them."""

import numpy as np
import pytest
import xarray

from whence.plot.charts import write
from whence.plot.identity import grid, neighbours, rates


def experiment(offset=0, probe="linear", loss="cosine", start=0.9):
    """Two folds, three layers, a tenth less at every layer."""
    means = start - 0.1 * np.arange(3)
    data = {
        "rate": (("layer", "fold"), np.stack([means - 0.02, means + 0.02], axis=1)),
        "chance": ("fold", [0.02, 0.02]),
        "transfer": (("trained_on", "tested_on", "fold"), np.linspace(0, 1, 18).reshape(3, 3, 2)),
    }
    coordinates = {"layer": [1, 2, 3], "fold": [1, 2], "trained_on": [1, 2, 3], "tested_on": [1, 2, 3]}
    about = {"probe": probe, "loss": loss, "offset": offset, "tokens": 1000, "sentences": 40, "model": "tiny"}
    return xarray.Dataset(data, coordinates, about)


def values(chart, column):
    """What a column of the chart's data holds, all layers together."""
    return [row[column] for rows in chart.to_dict()["datasets"].values() for row in rows if column in row]


def test_rates_with_their_spread_and_chance(tmp_path):
    chart = rates([experiment(), experiment(probe="naive", loss="l2", start=0.5)])
    assert " ".join(chart.title.text) == "After layer 3, 70 % of tokens are recognised (linear, cosine)"
    assert "1,000 tokens, 40 sentences, 2 folds" in " ".join(chart.title.subtitle)
    assert set(values(chart, "experiment")) == {"linear, cosine", "naive, L2"}
    assert values(chart, "low")[0] == pytest.approx(0.88) and values(chart, "high")[0] == pytest.approx(0.92)
    assert "guessing 2.0%" in values(chart, "said")
    chart.save(tmp_path / "rates.svg")
    assert "guessing" in (tmp_path / "rates.svg").read_text()


def test_one_dataset_is_enough():
    assert set(values(rates(experiment()), "experiment")) == {"linear, cosine"}


def test_grid_has_a_cell_per_pair_and_says_both_directions(tmp_path):
    chart = grid(experiment())
    assert len(values(chart, "shown")) == 9
    late, early = (np.linspace(0, 1, 18).reshape(3, 3, 2).mean(-1)[place] for place in ((2, 0), (0, 2)))
    expected = (
        f"Trained on layer 3, a probe finds {100 * late:.0f} % in layer 1; the other way round {100 * early:.0f} %"
    )
    assert " ".join(chart.title.text) == expected
    chart.save(tmp_path / "grid.svg")


def test_neighbours_left_and_right(tmp_path):
    chart = neighbours([experiment(offset) for offset in (1, -1, 0, 2)])
    names = {"1 to the left", "the token itself", "1 to the right", "2 to the right"}
    assert set(values(chart, "experiment")) == names
    assert "70 % of tokens" in " ".join(chart.title.text) and "left neighbours" in " ".join(chart.title.text)
    chart.save(tmp_path / "neighbours.svg")


def test_names_at_the_ends_do_not_overlap():
    chart = rates([experiment(probe=probe, loss=loss) for probe in ("linear", "mlp") for loss in ("cosine", "l2")])
    ends = sorted(row["rate"] for rows in chart.to_dict()["datasets"].values() for row in rows if row.get("layer") == 3)
    assert len(ends) == 8 and np.diff(sorted(set(np.round(ends, 6)))).min() > 0.05


def test_a_page_opens_offline(tmp_path):
    write(rates(experiment()), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(page) > 100_000 and "<script src" not in page
