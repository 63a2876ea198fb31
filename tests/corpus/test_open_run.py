"""A run read back, by whence and by what others use."""

import duckdb
import numpy as np
import polars
import pytest
import xarray

import whence
from tests import tiny
from whence.errors import BadInput


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "run"
    whence.run(model, tiny.annotated(7), ["mixing", "attention", "attn_n"], out, part_size=3, maps=True)
    return out


@pytest.fixture(scope="module")
def run(folder):
    return whence.open_run(folder)


def test_maps_are_the_dataset_of_one_sentence(model, run):
    for number in (0, 4):
        wanted = whence.measure(model, tiny.annotated(7)[number], ["attention", "attn_n"])
        found = run.maps[number]
        for name in ("attention", "norms"):
            assert found[name].dims == wanted[name].dims
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)
        for name in ("target_token", "source_word", "target_is_special", "layer", "head"):
            xarray.testing.assert_equal(found[name].variable, wanted[name].variable)
        assert {"target_upos", "source_deprel", "target_entity"} <= set(found.coords) == set(wanted.coords)
        for name in found.coords:
            assert found[name].values.tolist() == wanted[name].values.tolist()
        assert whence.cite(found).count("@") >= 2
        assert set(wanted.attrs) - set(found.attrs) == {"text", "pair"}
        same = set(found.attrs) - {"measures"}
        assert {name: found.attrs[name] for name in same} == {name: wanted.attrs[name] for name in same}
    assert len(run.maps) == 7 and list(run.maps) == [*range(7)]


def test_a_run_names_its_papers(run):
    cited = whence.cite(run)
    assert "kobayashi2021" in cited and "vaswani2017" in cited and "westera" not in cited
    with pytest.raises(KeyError):
        run.maps[99]


def test_a_part_of_a_table(run):
    layer = run.arrow("tokens").to_table(columns=["token", "mixing_attn_n"], filter=run.field("layer") == 2).to_pandas()
    assert len(layer) == len(run.tokens) / 3 and list(layer) == ["token", "mixing_attn_n"]


def test_maps_of_a_large_part_are_read_one_by_one(folder, run, monkeypatch):
    monkeypatch.setattr("whence.corpus.open_run.KEPT", 0)
    again = whence.open_run(folder)
    for number in (5, 0, 3):
        xarray.testing.assert_identical(again.maps[number], run.maps[number])


def test_duckdb_reads_it(folder, run):
    query = f"select layer, avg(mixing_attn_n) as mean from '{folder}/tokens/*.parquet' group by layer order by layer"
    found = duckdb.sql(query).fetchall()
    np.testing.assert_allclose([row[1] for row in found], run.tokens.groupby("layer").mixing_attn_n.mean(), rtol=1e-5)
    assert duckdb.sql(f"select count(*) from '{folder}/moments.parquet' where head is null").fetchall()[0][0] > 0
    assert duckdb.sql(f"select len(values) = tokens * tokens from '{folder}/maps/*.parquet'").fetchall()[0][0]


def test_polars_reads_it(folder, run):
    found = polars.scan_parquet(f"{folder}/pairs/*.parquet").filter(polars.col("coreferent")).collect()
    assert found.height == (run.pairs.coreferent == True).sum() > 0  # noqa: E712  (None is neither)


def test_every_type_is_what_the_documentation_says(run):
    kinds = {field.name: str(field.type) for field in run.arrow("tokens").schema}
    assert kinds["sentence"] == "int64" and kinds["layer"] == "int16" and kinds["mixing_attn_n"] == "float"
    assert kinds["attn_n_own_largest"] == "bool" and kinds["upos"] == "string" and kinds["word_index"] == "int32"


def test_what_is_no_run(tmp_path):
    with pytest.raises(BadInput, match=r"is no run: it has no manifest.json"):
        whence.open_run(tmp_path)


def test_damage_is_named(model, tmp_path):
    whence.run(model, tiny.texts(4), "mixing", tmp_path / "run", part_size=2)
    (tmp_path / "run" / "tokens" / "00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=r"Part 1 of .*tokens/00001.parquet is damaged or gone; start the same run"):
        whence.open_run(tmp_path / "run")


def test_tables_that_are_not_there_say_why(model, tmp_path):
    whence.run(model, tiny.texts(2), "mixing", tmp_path / "run")
    run = whence.open_run(tmp_path / "run")
    with pytest.raises(BadInput, match="no table 'pairs'; none of its measures gives a map"):
        _ = run.pairs
    with pytest.raises(BadInput, match="kept on request"):
        _ = run.maps
    with pytest.raises(BadInput, match=r"no table 'token'; it has .*tokens"):
        run.arrow("token")


def test_an_unfinished_run_can_be_looked_at(model, tmp_path):
    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whence.run(model, tiny.texts(6), "mixing", tmp_path / "run", part_size=2, progress=stop)
    run = whence.open_run(tmp_path / "run")
    assert not run.finished and "not finished" in repr(run)
    assert set(run.tokens.sentence) in ({0, 1}, {*range(4)})  # the next part may have been begun
    assert run.moments["count"].max() == len(run.tokens) / 3


def test_it_says_what_it_is(run):
    assert "7 sentences" in repr(run) and "mixing" in repr(run)
