"""The study that judges measures: its statistics on made-up judgements with a known truth, and a small run."""

import json

import numpy as np
import pandas
import pytest
import xarray

import whence
from tests import tiny
from whence.corpus.rankings import POSITION, RANDOM
from whence.corpus.referee import ALONE
from whence.faithfulness.edits import EDITS
from whence.faithfulness.scores import SHARES
from whence.studies import referee as study
from whence.studies.referee import BEYOND, COMPREHENSIVE, SUFFICIENT, UNREAD, _best, _estimates, _verdicts, criteria

NAMES = ("good", "equal", "bad", POSITION, RANDOM)


def made(worth: dict[str, float], predictions: int = 30, noise: float = 0.2) -> xarray.Dataset:
    """Judgements of rankings whose worth is known; the mask token cannot be given."""
    draw = np.random.default_rng(0)
    shape = (predictions, len(worth), len(EDITS), len(SHARES))
    base = np.array(list(worth.values()))[None, :, None, None]
    common = draw.normal(size=(predictions, 1, 1, 1))  # some predictions lose more than others, with every ranking
    removed = base + common + noise * draw.normal(size=shape)
    kept = -base + common + noise * draw.normal(size=shape)
    removed[:, :, 1], kept[:, :, 1] = np.nan, np.nan
    alone = np.array(list(worth.values()))[None, :, None] / 10 + 0.02 * draw.normal(size=(*shape[:2], len(ALONE)))
    alone[:, :, 1] = np.nan
    axes = ("prediction", "ranking")
    return xarray.Dataset(
        {
            "removed": ((*axes, "edit", "share"), removed),
            "kept": ((*axes, "edit", "share"), kept),
            "agreement": ((*axes, "alone"), alone),
            "beyond": ((*axes, "alone"), alone),
        },
        {
            "ranking": list(worth),
            "edit": list(EDITS),
            "share": list(SHARES),
            "alone": list(ALONE),
            "document": ("prediction", [f"d{number // 2}" for number in range(predictions)]),
        },
    )


def test_criteria_are_means_over_what_could_be_done():
    dataset = made(dict(zip(NAMES, (3.0, 3.0, 1.0, 2.0, 0.0), strict=True)))
    judged = criteria(dataset)
    by_hand = np.nanmean(dataset.removed.values, axis=(2, 3))
    assert np.allclose(judged[COMPREHENSIVE].values, by_hand)
    assert np.allclose(judged[SUFFICIENT].values, -np.nanmean(dataset.kept.values, axis=(2, 3)))
    assert np.allclose(judged[UNREAD].values, dataset.agreement.values[:, :, -1])
    assert np.allclose(judged[BEYOND].values, dataset.beyond.values[:, :, [0, 2]].mean(axis=-1))


def test_differences_are_paired_by_prediction():
    """What all rankings of a prediction share falls out of the difference: its interval is much the narrower."""
    values = criteria(made(dict(zip(NAMES, (3.0, 3.0, 1.0, 2.0, 0.0), strict=True))))[COMPREHENSIVE]
    more = _estimates(values, POSITION)["good"]
    assert more.value == pytest.approx(float((values.sel(ranking="good") - values.sel(ranking=POSITION)).mean()))
    assert more.documents == 15 and more.draws.std() < _estimates(values)["good"].draws.std() / 3


def test_the_measures_to_trust_are_the_best_and_those_as_good():
    dataset = made(dict(zip(NAMES, (3.0, 3.0, 1.0, 2.0, 0.0), strict=True)))
    assert _best(criteria(dataset)[COMPREHENSIVE]) == [True, True, False, False, False]
    table = _verdicts("a task", dataset).set_index("measure")
    assert COMPREHENSIVE in table.loc["good", "trust it for"] and table.loc["bad", "trust it for"] == ""
    assert table.loc["good", "from"] > 0 and table.loc["bad", "to"] < 0
    assert table.loc[POSITION, "more than position"] == 0


def test_where_nothing_is_better_than_chance_nothing_is_trusted():
    found = [_best(criteria(made(dict.fromkeys(NAMES, 1.0), 12, 1.0))[COMPREHENSIVE])]
    assert sum(found[0]) <= 1


def test_what_cannot_be_measured_is_not_trusted():
    dataset = made(dict(zip(NAMES, (3.0, 3.0, 1.0, 2.0, 0.0), strict=True)))
    dataset["agreement"][:, :, -1] = np.nan
    assert not any(_best(criteria(dataset)[UNREAD]))


@pytest.mark.slow
def test_the_study_judges_a_small_model(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "PREDICTIONS", (6, 6))
    (tmp_path / "texts.txt").write_text("\n\n".join(tiny.texts(40, longest=12)))
    whence.study("referee", tiny.model(), str(tmp_path / "texts.txt"), tmp_path / "out", quick=True)
    found = json.loads((tmp_path / "out" / "findings.json").read_text())
    names = [picture["name"] for picture in found["pictures"]]
    assert len(names) == 8 and not found["left_out"] and len(found["claims"]) == len(study.CLAIMS)
    table = pandas.read_csv(tmp_path / "out" / "tables" / "referee_verdicts.csv")
    assert {POSITION, RANDOM, "share", "contribution", "rollout_alti"} <= set(table["measure"])
    for name in names:
        assert (tmp_path / "out" / "charts" / f"{name}.svg").read_text().count("<path") > 3
    edits = pandas.read_csv(tmp_path / "out" / "tables" / "referee_edits.csv")
    areas = edits[edits["criterion"] == COMPREHENSIVE].groupby("measure")["lost"].mean()
    assert table.set_index("measure")[COMPREHENSIVE].to_dict() == pytest.approx(areas.to_dict(), abs=1e-5)
