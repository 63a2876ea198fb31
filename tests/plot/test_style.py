"""The table of styles: complete sentences, and no import that a saved Dataset does not need."""

import re
import subprocess
import sys

import pytest

from whence.plot.style import OTHERS, OWN, PAID, PLAIN, STYLES, SUMS, WORDINGS, style

# Loads the pictures and the table, and says what came with them.
LOADED = """
import sys
import whence.plot, whence.plot.style, whence.plot.palette
print("torch" in sys.modules, "transformers" in sys.modules)
"""


def test_pictures_of_a_saved_dataset_do_not_import_torch():
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("reading", [OWN, OTHERS, PAID, PLAIN])
def test_a_finding_names_the_layer_the_token_and_both_values(reading):
    assert set(re.findall(r"\{(\w+)\}", reading.finding)) - {"title"} == {"layer", "token", "value", "mean"}


def test_sums_and_means_name_variables_that_have_a_row():
    assert {name for one in SUMS for name in one.names} <= set(STYLES)
    assert {row.mean_of for row in STYLES.values()} - {""} == {"attention"}


def test_a_map_since_the_input_says_so():
    assert style("contribution").wording is WORDINGS["comes"]
    assert style("rollout_alti").wording.since_input and not style("alti").wording.since_input
