"""The report of a run: the main variable first, plain labels, colours that differ, no sentence with a hole in it."""

import re

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests import tiny
from whence.plot.drawing import Drawing, draw
from whence.plot.encodings import distinct
from whence.plot.style import style
from whence.studies import overview
from whence.studies.overview import by_group, by_layer, kind_of, shares_of

MAPS = ("contribution", "block_n", "attnresln_n", "attn_w", "decomposition_share", "rollout_attn_n", "somebody_elses")
ANALYSES = ("block_n", "attnresln_n", "attnres_w", "attn_w")
COLUMNS = [f"mixing_{name}" for name in ANALYSES] + [
    f"{name}{end}" for name in MAPS for end in ("_own", "_own_largest")
]
HOLES = re.compile(r"\bnan\b|\bNone\b|  |“”|“\s|\(\)| [,.:;]|, ,|: *$|for ,|<NA>", re.IGNORECASE)
GROUPS = st.one_of(st.none(), st.sampled_from(["", " ", "NOUN", "[CLS]", ".", "nsubj:pass", "O"]))


@st.composite
def moments(draw):
    """Rows of a run's moments, as odd as they come: one layer, nothing finite, groups without a name."""
    rows = []
    columns = st.sampled_from([*COLUMNS, "attention_entropy", "attention_to"])
    for name in draw(st.lists(columns, unique=True, max_size=8)):
        for layer in draw(st.lists(st.integers(1, 40), unique=True, min_size=1, max_size=4)):
            for group in draw(st.lists(GROUPS, min_size=1, max_size=3, unique=True)):
                mean = draw(st.one_of(st.just(np.nan), st.floats(0, 1)))
                head, source = draw(st.sampled_from([(None, None), (None, None), (0, None), (None, "[CLS]")]))
                rows.append((name, layer, head, source, "upos", group, mean, 0.1, 0.0, 1.0, 7))
    names = ["variable", "layer", "head", "source", "by", "group", "mean", "std", "minimum", "maximum", "count"]
    return pandas.DataFrame(rows, columns=names).astype({"layer": int, "mean": float, "group": object})


@settings(max_examples=60, deadline=None)
@given(moments())
def test_no_sentence_has_a_hole(table):
    for by, rows in (("all", shares_of(table.assign(by="all"), "all")), ("upos", shares_of(table, "upos"))):
        for name in dict.fromkeys(rows["variable"]):
            kind, measure = kind_of(name)
            some = rows[rows["variable"] == name]
            says = by_group(kind, measure, some) if by == "upos" else by_layer(kind, some)
            assert not HOLES.search(says), says
            assert name not in says and says.endswith(style(measure).title)
            assert re.search(r"\b\d{1,3}%", says) and "layer" in says
        assert rows["head"].isna().all() and rows["source"].isna().all()


@settings(max_examples=30, deadline=None)
@given(moments())
def test_the_main_variable_comes_first_and_is_never_dropped(table):
    names = list(dict.fromkeys(shares_of(table.assign(by="all"), "all")["variable"]))
    order = ["contribution_own", "mixing_block_n", "mixing_attnresln_n"]
    there = [name for name in order if name in names]
    if "decomposition_share_own" not in names and not any("rollout" in name for name in names):
        assert names[: len(there)] == there
    assert all(kind_of(name) for name in names)


@given(st.lists(st.sampled_from([None, "#0072b2", "#000000", "#d55e00"]), min_size=1, max_size=7))
def test_colours_differ_as_long_as_there_are_enough(colors):
    found = distinct(colors)
    assert len(set(found)) == len(found)
    assert found[0] == colors[0] or colors[0] is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview") / "run"
    whence.run(tiny.model(), tiny.annotated(9), ["mixing", "norms", "contribution"], out=folder)
    return whence.open_run(folder)


def test_the_report_leads_with_the_main_variable_in_plain_words_with_intervals(run, tmp_path):
    page = overview.overview(run, tmp_path / "report").read_text(encoding="utf-8")
    first = re.search(r'alt="([^"]*)"', page)[1]
    assert first.startswith("Share of a token that comes from itself: ") and "by contribution" in first
    assert "bands: 95 %" in first
    assert not [said for said in re.findall(r'alt="([^"]*)"', page) if HOLES.search(said)]
    table = pandas.read_csv(tmp_path / "report" / "tables" / "by_layer_own.csv")
    rows = table[table["variable"] == "contribution_own"]
    assert ((rows["low"] <= rows["mean"]) & (rows["mean"] <= rows["high"])).all()
    tokens = run.tokens.groupby("layer")["contribution_own"].mean()
    assert rows["mean"].tolist() == pytest.approx(tokens.tolist(), rel=1e-5)


def test_lines_called_by_a_title_have_the_colour_of_their_measure():
    table = pandas.DataFrame({"layer": [1, 2, 1, 2], "mean": [0.1, 0.2, 0.3, 0.4], "by": ["a", "a", "b", "b"]})
    drawing = Drawing("lines", table, "layer", "mean", "T", color="by", measures={"a": "attn_n", "b": "attnresln_n"})
    assert '"range": ["#56b4e9", "#0072b2"]' in draw(drawing).to_json(indent=None)
