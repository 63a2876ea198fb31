"""The check of the documentation finds what it looks for."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("check", ROOT / "docs" / "check.py")
check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check)


def test_links_and_anchors_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html#here">b</a><a href="gone.html">x</a>')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="a.html#nowhere">a</a><img src="no.png"><a href="#here">h</a>'
    )
    assert check.broken_in(tmp_path) == ["a.html: gone.html", "b.html: a.html#nowhere", "b.html: no.png"]


def test_files_beside_the_documentation_point_to_files(tmp_path):
    for name in check.BESIDE:
        (tmp_path / name).write_text("[here](README.md#part) [there](https://example.org) [nowhere](gone.md)")
    assert check.broken_beside(tmp_path) == [f"{name}: gone.md" for name in check.BESIDE]
    assert check.broken_beside(ROOT) == []


def test_sentences_are_told_apart():
    prose, rest = "One sentence. `code` begins the second: and goes on.", "| a | table |\n\n```\nno prose\n```"
    text = f"# Head\n\n{prose}\n\n{rest}\n* A [link](x.md)."
    assert check.sentences(text)[1:3] == ["One sentence.", "code begins the second: and goes on."]
    assert check.sentences(text)[-1] == "* A link."


def test_no_sentence_is_too_long_to_be_read_aloud(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in check.BESIDE:
        (tmp_path / name).write_text("Short. " * 100)
    assert check.too_long(tmp_path) == []
    (tmp_path / "docs/page.md").write_text("word " * (check.LONGEST + 1) + ".")
    assert len(check.too_long(tmp_path)) == 1
    assert check.too_long(ROOT) == []
