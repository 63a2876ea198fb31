"""Another package adds a measure, a reader and a study by entry points; the example is installed and used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "whence-entropy"
MEMORY = """<?xml version="1.0"?><tmx version="1.4"><body>
<tu tuid="a"><tuv xml:lang="en"><seg>Paris is a <hi>city</hi>.</seg></tuv><tuv xml:lang="de"><seg>Ja.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Nur deutsch.</seg></tuv></tu>
<tu tuid="b"><tuv xml:lang="en-GB"><seg>A cat sat.</seg></tuv></tu></body></tmx>"""
USED = """
import json, numpy as np, whence
from whence.page.payload import payload
from whence_entropy.measure import Entropy
model = whence.load()
text = "Paris is the capital of [MASK]."
ds = whence.measure(model, text, ["attention", "attention_entropy"])
a = ds.attention.values.astype(np.float64)
expected = np.stack([-(a * np.log(a)).sum(-1), -np.log((a ** 2).sum(-1)), -np.log(a.max(-1))])
bits = whence.measure(model, text, Entropy(bits=True)).attention_entropy
corpus = whence.read("memory.xml")
whence.run(model, corpus, ["attention_entropy"], out="run", part_size=1)
run = whence.open_run("run")
first = whence.measure(model, "Paris is a city.", "attention_entropy").attention_entropy
stored = run.tokens[run.tokens.sentence == 0]
whence.report(ds, "page.html")
study = whence.study("entropy", [model, whence.load()], corpus, "study", quick=True)
claim, = json.loads((study.parent / "findings.json").read_text())["claims"]
print(json.dumps({
    "off": float(np.abs(ds.attention_entropy.values - expected).max()),
    "bits": float((bits / ds.attention_entropy).mean()),
    "dims": ds.attention_entropy.dims,
    "orders": ds.order.values.tolist(),
    "ids": [each.id for each in corpus],
    "stored": float(np.abs(stored.attention_entropy_2.values - first.sel(order="2").mean("head").values.ravel()).max()),
    "by head": int((run.moments[run.moments.variable == "attention_entropy_inf"]["head"].nunique())),
    "cited": whence.cite(ds).count("renyi1961"),
    "drawn": [name for name in payload(ds)["variables"] if "entropy" in name],
    "fields": [row["key"] for row in payload(ds)["fields"] if "entropy" in row["key"]],
    "styled": payload(ds)["styles"]["attention_entropy_1"]["title"],
    "claim": [claim["says"], claim["verdict"], claim["parts"][""]["models"], "asked: " in claim["statistic"]],
    "listed": whence.list_measures().query("measure == 'attention_entropy'").dims.item(),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of a process that has the example beside whence."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*command, str(target), str(EXAMPLE)], check=True, capture_output=True)
    here = [path for path in sys.path if path.endswith("src")]
    return os.environ | {"PYTHONPATH": os.pathsep.join([*here, str(target)])}


def test_a_measure_and_a_reader_of_another_package(installed, tmp_path):
    (tmp_path / "memory.xml").write_text(MEMORY)
    done = subprocess.run(
        [sys.executable, "-c", USED], cwd=tmp_path, env=installed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["off"] < 1e-5 and found["stored"] < 1e-5
    assert found["bits"] == pytest.approx(1 / 0.6931472, rel=1e-5)
    assert found["dims"] == ["order", "layer", "head", "target"] and found["orders"] == ["1", "2", "inf"]
    assert found["ids"] == ["a", "b"] and found["by head"] == 12 and found["cited"] == 1
    assert found["drawn"] == [f"attention_entropy_{order}" for order in ("1", "2", "inf")]
    assert found["fields"] == found["drawn"]
    assert found["claim"] == ["Later layers look at fewer tokens.", "undecided", 2, True]  # of two documents
    assert found["styled"] == "attention entropy 1" and found["listed"] == "order, layer, head, target"


def test_what_cannot_be_loaded_is_said_and_left_out(monkeypatch, caplog):
    from importlib.metadata import EntryPoint

    from whence import _plugins
    from whence.measures.registry import Measure

    broken = [
        EntryPoint("gone", "nowhere.at.all:X", "whence.measures"),
        EntryPoint("odd", "json:dumps", "whence.measures"),
    ]
    monkeypatch.setattr(_plugins, "entry_points", lambda group: broken)
    assert _plugins.plugins.__wrapped__("whence.measures", Measure) == {}
    assert "'gone'" in caplog.text and "cannot be loaded" in caplog.text and "json:dumps is no Measure" in caplog.text
