"""What explain measures unasked: as much as fits into memory and on a page."""

import pytest

from whence.cli import explain
from whence.measures.registry import given_by


@pytest.mark.parametrize(("tokens", "targets", "left"), [(50, None, 0), (2000, None, 4), (2000, [-1], 0)])
def test_what_does_not_fit_is_left_out_and_said(builtin, capsys, tokens, targets, left):
    names = given_by(builtin.gives, explain.EXPLAINED)
    kept = explain._fitting(builtin, names, tokens, None, targets)
    assert kept[0] == "mixing" and len(names) - len(kept) == left
    said = capsys.readouterr().err
    assert ("2,000 tokens would take" in said and "--targets -1" in said) if left else not said
