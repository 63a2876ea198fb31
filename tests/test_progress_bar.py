"""The bar: drawn where somebody looks, once there is something to say, and gone afterwards."""

import os
import pty
import subprocess
import sys

CODE = """
import whence
with whence.progress() as bar:
    for done in (1, 2, 3):
        bar(done, 3)
    bar("second part", 1, None)
print("done")
"""


def test_nothing_is_drawn_into_a_file():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("done\n", "")


def test_a_bar_for_each_piece_of_work_on_a_terminal():
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.DEVNULL, stderr=theirs, env=environment, check=True)
    drawn = os.read(ours, 100_000).decode()
    os.close(theirs)
    os.close(ours)
    assert "measuring" in drawn and "100%" in drawn and "second part" in drawn
    assert drawn.rstrip().endswith("\x1b[2K")  # the line was cleared
