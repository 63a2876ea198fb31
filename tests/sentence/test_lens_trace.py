"""One hidden token from both sides: the numbers of each measure by itself; what a terminal and a page show."""

import json

import numpy as np
import pytest
import xarray

import whence
from tests import tiny
from whence.cli import run
from whence.page.report import disposed
from whence.page.whither import payload
from whence.plot.lens import record
from whence.plot.terminal_lens import finding, picture, settled

TEXT = "ada bo cy dee ed ."


@pytest.fixture(scope="module")
def decoder():
    return tiny.model("llama")


@pytest.fixture(scope="module")
def lens(decoder):
    return whence.lens(decoder, tiny.texts(4, seed=1, longest=20), skip=0)


@pytest.fixture(scope="module")
def traced(decoder, lens):
    return lens.trace(decoder, TEXT, 3, k=2)


@pytest.fixture(scope="module")
def read(decoder, lens):
    return lens.read(decoder, TEXT, k=3)


def test_both_sides_are_those_of_each_measure(decoder, lens, traced):
    came = whence.measure(decoder, TEXT, ["contribution", "decomposition"], targets=3).isel(target=0)
    for name in ("contribution", "decomposition_share"):
        np.testing.assert_allclose(traced[name].sel(layer=came.layer), came[name], rtol=1e-5)
        assert np.isnan(traced[name].sel(layer=0)).all()
    given = whence.why(decoder, TEXT, position=list(range(3, 8)), measures="share")
    assert (traced.predicted == given.predicted).all() and traced.share.dims == ("predicted", "layer")
    np.testing.assert_allclose(traced.share, given.share.sel(source=3), rtol=1e-5)
    sizes = abs(given.share).sum("source") + abs(given.bias)
    np.testing.assert_allclose(traced.share_of_all, given.share.sel(source=3) / sizes, rtol=1e-5)
    alone = lens.read(decoder, TEXT, k=2).sel(token=3)
    np.testing.assert_array_equal(traced.candidate_token_id, alone.candidate_token_id)
    assert traced.attrs["traced"] == 3 and "gurnee2026" in whence.cite(traced)


def test_an_encoders_token_has_a_part_in_every_prediction():
    model = tiny.model()
    ds = whence.lens(model, tiny.texts(2), layers=[1, 3], tuned=False).trace(model, TEXT, -2)
    assert list(ds.predicted) == list(range(8)) and ds.attrs["traced"] == 6


def test_the_terminal_says_from_which_layer_on(read):
    ds = read.sel(token=2)
    for kind in ds.lens.values:
        places = ds.place.sel(lens=kind).values
        first = settled(ds.sel(lens=kind))
        assert (places[first:] == 1).all() and (first == 0 or places[first - 1] > 1)
    plain = str(picture(read, [2], 60, False))
    assert plain.startswith("At “") and max(map(len, plain.splitlines())) <= 60 and "Jacobian lens" in plain
    assert "tuned lens from layer" in finding(ds) or "tuned lens never" in finding(ds)


def test_the_page_has_every_number(read, traced):
    found = payload(read)
    assert len(found["tokens"]) == read.sizes["token"] and found["opened"] == read.sizes["token"] - 1
    cell = found["tokens"][2]["layers"][1]["tuned"]
    own = read.sel(token=2, lens="tuned").isel(layer=1)
    assert cell["place"] == int(own.place)
    assert [share for _, share, _ in cell["best"]] == pytest.approx(own.probability.values.tolist(), rel=1e-5)
    trace = payload(traced)["trace"]
    np.testing.assert_allclose(trace["given"]["share"], traced.share.transpose("layer", "predicted"), rtol=1e-5)
    np.testing.assert_allclose(trace["came"]["contribution"][1:], traced.contribution[1:], rtol=1e-5)
    page = disposed(traced)
    assert "module_whither.boot()" in page and "Content-Security-Policy" in page and "<script src" not in page


def test_a_report_of_a_lens(read, traced, tmp_path):
    for ds in (read, traced):
        assert "Whither it goes" in whence.report(ds, tmp_path / "page.html").read_text()


def test_numbers_are_kept_in_a_file(read, tmp_path):
    read.to_netcdf(tmp_path / "read.nc")
    assert record(xarray.load_dataset(tmp_path / "read.nc")) == record(read)


def test_the_command_line_fits_and_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("A cat sat.\nParis is a city.\n")
    assert run(["lens", "fit", "texts.txt", "--layers", "5", "6", "--out", "fit"]) == 0
    assert "Fitted to 2 texts, layers 5 to 6" in capsys.readouterr().out
    assert run(["lens", "read", "Paris is [MASK].", "--lens", "fit", "--json", "--out", "page.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["layers"] == [5, 6] and [token["position"] for token in found["tokens"]] == [3]
    assert "<title>" in (tmp_path / "page.html").read_text()
    assert run(["lens", "read", "Paris.", "--lens", "fit", "--position", "9"]) == 2
    assert "positions 0 to 3, and 9 was asked for" in capsys.readouterr().err
