"""Many models in one study: every study on two, resumed wherever it was stopped, checkpoints, one model in memory."""

import gc
import json
import random
import runpy
import sys
import weakref
from pathlib import Path

import pandas
import psutil
import pytest

import whence
from tests import tiny
from tests.studies.undrawn import undrawn
from whence.errors import BadInput
from whence.models.several import several
from whence.studies import STUDIES

MANY = 5  # models, of which more would be the same
SAMPLES = Path(__file__).parents[1] / "samples"
DATA = {
    "lm-head": ["lama:{samples}/statements.jsonl"],
    "correlates": ["conllu:{samples}/treebank.conllu"],
    "lens": ["text:{long}"],
    "attribution": ["text:{texts}", "conllu:{samples}/treebank.conllu"],
}


@pytest.fixture(autouse=True)
def _undrawn():
    with undrawn():
        yield


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("\n\n".join(tiny.texts(40, longest=20)))
    return tmp_path / "texts.txt"


@pytest.fixture
def few(tmp_path):
    (tmp_path / "few.txt").write_text("\n\n".join(tiny.texts(8)))
    return tmp_path / "few.txt"


def saved(folder, count, **more):
    """Tiny random models in folders, as a training leaves them."""
    for number in range(count):
        model = tiny.model(**more)
        model.model.save_pretrained(folder / f"seed-{number}")
        model.tokenizer.save_pretrained(folder / f"seed-{number}")
    return f"{folder}/seed-*"


def findings(folder):
    return json.loads((folder / "findings.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_on_two_models(name, texts, tmp_path):
    long = [text for text in tiny.texts(120, longest=50) if len(text.split()) > 26]
    (tmp_path / "long.txt").write_text("\n\n".join(long[:20]))
    paths = {"samples": SAMPLES, "texts": texts, "long": tmp_path / "long.txt"}
    data = [source.format(**paths) for source in DATA.get(name, ["text:{texts}"])]
    models = [tiny.model(num_hidden_layers=3) for _ in range(2)]
    whence.study(name, models, data, tmp_path / "out", quick=True)
    found = findings(tmp_path / "out")
    assert found["about"]["model"] == "2 models" and found["about"]["sample"] == "a quick sample"
    assert found["pictures"] and len(found["claims"]) + len(found["left_out"]) > 2
    for claim in found["claims"]:
        assert claim["verdict"] in ("confirmed", "contradicted", "undecided")
        assert "[" in claim["statistic"] and "asked: " in claim["statistic"]
    pictures = [picture["name"] for picture in found["pictures"] if not picture["name"].startswith("models_")]
    alone = [findings(folder) for folder in sorted((tmp_path / "out" / "models").iterdir())]
    for picture in pictures:
        table = pandas.read_parquet(tmp_path / "out" / "tables" / f"{picture}.parquet")
        assert set(table["model"]) == {model.name for model in several(models)}
    for own in alone:
        assert {picture["name"] for picture in own["pictures"]} <= set(pictures)


def test_stopped_at_any_model_and_resumed_the_report_is_the_same(few, tmp_path):
    """Three models; the study stops at any of them, and those before it are not loaded again."""
    models, loads = saved(tmp_path / "m", 3), []

    def load(source):
        loads.append(Path(source).name)
        return whence.load(source)

    whence.study("mixing", models, str(few), tmp_path / "whole", quick=True, load=load)
    assert loads == [f"seed-{number}" for number in range(3)]
    at = random.randrange(3)

    def stopped(source):
        if Path(source).name == f"seed-{at}":
            raise KeyboardInterrupt
        return load(source)

    with pytest.raises(KeyboardInterrupt):
        whence.study("mixing", models, str(few), tmp_path / "parts", quick=True, load=stopped)
    loads.clear()
    whence.study("mixing", models, str(few), tmp_path / "parts", quick=True, load=load)
    assert loads == [f"seed-{number}" for number in range(at, 3)]
    assert (tmp_path / "parts" / "report.html").read_text() == (tmp_path / "whole" / "report.html").read_text()
    assert findings(tmp_path / "parts") == findings(tmp_path / "whole")


@pytest.mark.slow
def test_of_several_models_one_is_in_memory(few, tmp_path):
    """One report with the spread between them; what was loaded before is gone, and its memory with it."""
    models, alive, resident = saved(tmp_path / "m", MANY, intermediate_size=2**15), [], []

    def load(source):
        gc.collect()
        assert sum(reference() is not None for reference in alive) == 0
        resident.append(psutil.Process().memory_info().rss)
        model = whence.load(source)
        alive.append(weakref.ref(model.model))
        return model

    out = tmp_path / "out"
    whence.study("mixing", models, str(few), out, quick=True, load=load)
    weights = sum(file.stat().st_size for file in (tmp_path / "m" / "seed-0").glob("*.safetensors"))
    assert weights > 2**25 and resident[-1] - resident[1] < weights  # of the others that came and went
    assert len(alive) == MANY
    claims = findings(out)["claims"]
    assert all(sum(claim["counts"].values()) == MANY for claim in claims) and f"{MANY} models" in claims[0]["statistic"]
    spread = pandas.read_parquet(next((out / "tables").glob("models_with_residual*.parquet")))
    assert spread["model"].tolist() == [*(f"seed-{number}" for number in range(MANY)), "all of them"]
    each, everyone = spread[:-1], spread.iloc[-1]
    assert everyone["value"] == pytest.approx(each["value"].mean())
    assert everyone["low"] < everyone["value"] < everyone["high"]
    assert len(pandas.read_parquet(out / "tables" / "models.parquet")) == MANY


def test_checkpoints_are_an_axis_and_findings_are_of_the_last(few, tmp_path):
    for step in (1, 10, 100):
        saved(tmp_path / f"step-{step}", 1)
    named = [f"{tmp_path}/step-{step}/seed-0" for step in (1, 10, 100)]
    for path in named:
        Path(path).rename(Path(path).parent.parent / f"seed-0-{Path(path).parent.name}")
    whence.study("mixing", f"{tmp_path}/seed-0-step-*", str(few), tmp_path / "out", quick=True)
    table = pandas.read_parquet(next((tmp_path / "out" / "tables").glob("training_with_residual*.parquet")))
    assert table["step"].tolist() == [1, 10, 100]
    claim = next(claim for claim in findings(tmp_path / "out")["claims"] if "With residual" in claim["says"])
    assert claim["parts"][""]["models"] == 1 and claim["parts"][""]["value"] == table["value"].iloc[-1]


def test_names(tmp_path):
    saved(tmp_path, 2)
    found = several([f"{tmp_path}/seed-*", "org/model@step1000", "org/other-step_20k"])
    assert [model.name for model in found] == ["seed-0", "seed-1", "org/model@step1000", "org/other-step_20k"]
    assert [model.step for model in found] == [None, None, 1000, 20_000]
    assert found[2].source == "org/model" and found[2].revision == "step1000" and found[2].series == "org/model"
    assert [model.step for model in several(["a/checkpoint-500", "b/stage1-step7-tokens3B", "c/bert-base"])] == [
        500,
        7,
        None,
    ]
    twice = several([tiny.model()] * 2)
    assert twice[0].name != twice[1].name and twice[0].folder != twice[1].folder


@pytest.mark.parametrize(
    ("models", "says"),
    [([], "No model"), (["a", "a"], "named twice"), ("missing/*", "No folder"), ([3], "not int")],
)
def test_what_names_no_models(models, says):
    with pytest.raises(BadInput, match=says):
        several(models)


def test_runs_of_several_models(texts, tmp_path):
    folder = whence.run([saved(tmp_path, 2)], tiny.texts(5), ["mixing"], out=tmp_path / "runs")
    runs = whence.open_runs(folder)
    assert list(runs) == ["seed-0", "seed-1"] and "2 models" in repr(runs)
    table = runs.table("tokens", ["layer", "mixing_attn_n"])
    assert table.columns.tolist() == ["model", "layer", "mixing_attn_n"]
    for name, run in runs.items():
        alone = run.tokens["mixing_attn_n"].tolist()
        assert table[table["model"] == name]["mixing_attn_n"].tolist() == alone
    with pytest.raises(BadInput, match="no runs"):
        whence.open_runs(tmp_path / "none")


@pytest.mark.slow
def test_the_seeds_are_trained_by_the_script(tmp_path, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "examples" / "seeds" / "train.py"
    (tmp_path / "text.txt").write_text(
        "\n".join(f"the town by the river was quiet in the year {year}, and for long after" for year in range(900))
    )
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "text.txt"), str(tmp_path / "seeds"), "2"])
    runpy.run_path(str(script), run_name="__main__")
    assert "seed 4, step 2" in capsys.readouterr().out
    found = several(f"{tmp_path}/seeds/seed-*/step-*")
    assert [model.name for model in found][:3] == ["seed-0/step-1", "seed-0/step-2", "seed-1/step-1"] and len(
        found
    ) == 10
    assert "lm_head" in found[-1].load().gives
    assert sum(file.stat().st_size for file in (tmp_path / "seeds").rglob("*") if file.is_file()) < 2e7
