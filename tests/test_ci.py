"""Continuous integration: it gets a browser when it may, says so when it cannot, and says what was skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BROWSER = "touch $(dirname $0)/chromium; chmod +x $(dirname $0)/chromium"


@pytest.mark.parametrize(
    ("programs", "user", "said"),
    [
        ({"chromium": ""}, 0, ""),
        ({"apt-get": BROWSER}, 0, ""),
        ({"apt-get": "exit 1"}, 0, "NO BROWSER: apt-get could not"),
        ({"apt-get": BROWSER}, 1000, "NO BROWSER: the tests"),
        ({}, 0, "NO BROWSER: the tests"),
    ],
)
def test_a_browser_is_installed_or_its_lack_is_said(tmp_path, programs, user, said):
    for name, does in ({"make": "echo made $1", "id": f"echo {user}"} | programs).items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "sh", "dirname", "touch", "chmod"):
        (tmp_path / name).symlink_to(shutil.which(name))
    ran = subprocess.run(
        [tmp_path / "bash", ROOT / ".ci" / "run"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, "made test\n")
    assert said in ran.stderr and bool(said) == bool(ran.stderr)
    assert (tmp_path / "chromium").exists() == (not said)


@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
def test_skips_are_counted_by_reason(tmp_path, processes):
    """With the hook of this suite, and nothing else of it."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary  # noqa: F401\n")
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('number', range(3))\ndef test_many(number):\n    pytest.skip('no chromium')\n\n"
        "@pytest.mark.skip(reason='no data')\ndef test_one():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *processes, tmp_path]
    ran = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    last = ran.stdout.splitlines()[-4:]
    assert "3 skipped: no chromium" in last and "1 skipped: no data" in last
