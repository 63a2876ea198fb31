"""CSV files: read back they say what was written, and no cell is a formula."""

import ast
import csv
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whence
from whence._spreadsheet import write_csv

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
SOURCES = Path(whence.__file__).parent


@pytest.mark.parametrize("kind", [object, "string", "category"])
@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tb", "\rc", '=HYPERLINK("http://x","y")'])
def test_a_formula_becomes_a_text(tmp_path, text, kind):
    write_csv(pandas.DataFrame({"text": pandas.Series([text], dtype=kind), "=number": [-1.5]}), tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        header, row = csv.reader(file)
    assert header == ["text", "'=number"]
    assert row == [f"'{text}", "-1.5"]


@given(st.lists(st.tuples(st.text(), st.integers(-9, 9), st.floats(-9, 9), st.one_of(st.none(), st.text("=-a")))))
def test_only_texts_that_would_run_are_changed(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    table = pandas.DataFrame(rows, columns=["text", "count", "share", "mixed"])
    write_csv(table.astype({"text": object, "count": int, "share": float}), path)
    with open(path, newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))[1:]
    expected = [f"'{text}" if text.startswith(FORMULAS) else text for text, *_ in rows]
    assert [row[0] for row in found] == expected
    assert [(int(row[1]), float(row[2])) for row in found] == [(count, share) for _, count, share, _ in rows]
    assert not any(row[3].startswith(FORMULAS) for row in found)


def test_the_library_writes_no_csv_in_another_way():
    writing = set()
    for path in SOURCES.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
        if {node.attr for node in calls} & {"to_csv", "DictWriter", "writer"}:
            writing.add(path.name)
    assert writing == {"_spreadsheet.py"}
