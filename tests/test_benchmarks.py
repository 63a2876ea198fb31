"""A record of benchmarks has what their figures depend on, and names no machine and nobody."""

import getpass
import json
import platform
from pathlib import Path

from benchmarks import record

HISTORY = Path(__file__).parents[1] / "benchmarks" / "history"


def test_what_is_printed_becomes_rows_and_what_was_recorded_stays(tmp_path, capsys):
    path = tmp_path / "0.1.0.json"
    record.written(path, ["first"], lambda name: print(f"== {name}\nmixing of a block      1.20 x the pass   1.35"))
    record.written(path, ["second"], lambda name: print("maps      2.00 x the pass"))
    found = json.loads(path.read_text())["benchmarks"]
    assert found["first"]["rows"] == [["mixing of a block", "1.20 x the pass", "1.35"]]
    assert found["second"]["rows"] == [["maps", "2.00 x the pass"]]
    assert "mixing of a block" in capsys.readouterr().out
    assert {"processor", "cores", "load_per_core"} <= found["first"]["machine"].keys()
    assert {"torch", "whence"} <= found["first"]["versions"].keys()


def test_no_machine_and_nobody_is_named(tmp_path):
    record.written(tmp_path / "r.json", ["first"], lambda name: print("row   1"))
    written = [tmp_path / "r.json", *HISTORY.glob("*.json")]
    for path in written:
        values = json.dumps(json.loads(path.read_text())).split('"')
        assert not {platform.node(), getpass.getuser()} & set(values), path


def test_the_page_has_the_figures_of_the_record():
    page = (HISTORY.parents[1] / "docs" / "benchmarks.md").read_text()
    rows = json.loads((HISTORY / "0.1.0.json").read_text())["benchmarks"]["peers"]["rows"]
    figures = [(row[0], row[-1].split()[0]) for row in rows if " x " in row[-1]]
    assert len(figures) > 5
    for name, figure in figures:
        assert f"| {name} | {figure} |" in page
