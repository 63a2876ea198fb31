"""whence identify, as it is typed."""

import json

import pandas
import pytest
import xarray

from whence import cli


@pytest.fixture
def called(capsys, loaded_once, sample):
    """Exit code, output and errors, for a few pairs of the sample."""

    def call(*arguments):
        code = cli.run(["identify", f"mrpc:{sample / 'pairs.tsv'}", "--limit", "20", *arguments])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_a_table_and_files(called, tmp_path):
    files = {name: tmp_path / f"found{ending}" for name, ending in FILES.items()}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    code, out, err = called("--probe", "naive", "--folds", "2", "--layers", "1", "6", *options[:-2])
    assert code == 0, err
    assert "20 sentences" in out and "guessing finds" in out and "same piece" in out
    lines = [line.split() for line in out.splitlines() if line.strip().startswith(("1 ", "6 "))]
    assert [line[0] for line in lines] == ["1", "6"] and lines[0][1] == "100.0"
    assert xarray.load_dataset(files["out"]).sizes == {"layer": 2, "fold": 2}
    table = pandas.read_csv(files["tokens"])
    assert {"layer", "found", "token", "sentence", "is_special"} <= set(table) and set(table["layer"]) == {1, 6}
    assert "<svg" in files["chart"].read_text()


FILES = {"out": ".nc", "chart": ".svg", "tokens": ".csv", "save": ".safetensors"}


def test_probes_saved_and_applied(called, tmp_path):
    path = tmp_path / "probes.safetensors"
    code, out, err = called("--folds", "1", "--layers", "6", "--test-layers", "1", "6", "--save", str(path))
    assert code == 0 and "Trained on (rows)" in out, err
    code, out, err = called("--probe", str(path), "--out", str(tmp_path / "rates.csv"))
    assert code == 0 and "–" in out, err
    assert pandas.read_csv(tmp_path / "rates.csv").rate.between(0.5, 1).all()


def test_the_learning_rate_is_passed_on(called, tmp_path):
    path = tmp_path / "rates.nc"
    code, _, err = called("--probe", "naive", "--layers", "6", "--learning-rate", "0.003", "--out", str(path))
    assert code == 0, err
    assert json.loads(xarray.load_dataset(path).attrs["parameters"])["learning_rate"] == 0.003


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--folds", "40"), "40 folds need at least 40 sentences, and the corpus has 20"),
        (("--layers", "7"), "layers 0 to 6, and 7"),
        (("--out", "rates.xls"), "should end in .nc or .csv"),
        (("--chart", "missing/chart.svg"), "no folder 'missing'"),
        (("--probe", "forest"), "no probe 'forest'"),
        (("--loss", "hinge"), "hinge"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(called, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = called(*arguments)
    assert code == 2 and says in err and not out
    assert err.startswith("whence: ") and err.count("\n") == 1 and not list(tmp_path.iterdir())
