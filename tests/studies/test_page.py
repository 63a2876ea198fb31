"""What the report of a study shows: escaped, with its own style and no script, numbers under their headings."""

import base64
import hashlib
import re

import pandas
import pytest

from whence.plot.drawing import Drawing
from whence.studies.frame.page import page
from whence.studies.frame.study import Answered, Beside, Finding, Left, Section, Shown, Study

HOSTILE = "<script>alert('1')</script>\"&"
ABOUT = {"model": HOSTILE, "data": HOSTILE, "sample": "a quick sample", "nothing": ""}


def shown(answers, text="A text", about=ABOUT):
    study = Study("name", text, text, text, text, ())
    return page(study, about, answers, {"picture": {"light": "data:image/png;base64,AA 1x", "dark": "data:,"}})


def section(*items, text="A text"):
    return Answered(Section(text, text), list(items))


def test_everything_is_escaped():
    table = pandas.DataFrame({HOSTILE: [HOSTILE, "a"]})
    drawing = Drawing("bars", table, "x", "y", HOSTILE, HOSTILE)
    items = [
        Shown("picture", HOSTILE, drawing, note=HOSTILE),
        Finding(HOSTILE, "undecided", HOSTILE),
        Beside("table", HOSTILE, table, HOSTILE),
        Left(HOSTILE, HOSTILE),
    ]
    text = shown([section(*items, text=HOSTILE)], HOSTILE)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&#34;&amp;") == 24


def test_the_policy_allows_the_style_alone():
    text = shown([])
    digest = base64.b64encode(hashlib.sha256(text.split("<style>")[1].split("</style>")[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ") and f"style-src 'sha256-{digest}'" in policy
    assert "script" not in policy and "unsafe" not in policy


def test_verdicts_are_counted():
    claims = [
        Finding("One.", "confirmed", "1"),
        Finding("Two.", "contradicted", "2"),
        Finding("Three.", "undecided", "3"),
        Finding("Four.", "confirmed", "4"),
    ]
    text = " ".join(shown([section(*claims)]).split())
    assert (
        "2 of 4 findings of the paper are confirmed on this model, 1 contradicted; 1 could not be decided. The" in text
    )
    quick = " ".join(shown([section(*claims)], about=ABOUT | {"sample": "the full sample"}).split())
    assert "The sample is small" not in quick and "The sample is small" in shown([section(*claims)])
    verdicts = re.findall(r'<span class="verdict (\w+)">([^<]*)</span>', text)
    assert [name for name, _ in verdicts] == ["yes", "no", "open", "yes"] and verdicts[1][1] == "contradicted"
    assert "In short" not in shown([section()])


def test_numbers_stand_under_their_headings():
    table = pandas.DataFrame({"name": ["a"], "share": [0.123456], "count": [12345], "sure": [True], "gone": [None]})
    text = shown([section(Beside("table", "theirs", table.assign(lost=float("nan")), "it differs"))])
    heads, cells = (re.findall(rf'<{tag} class="(\w+)">([^<]*)</{tag}>', text) for tag in ("th", "td"))
    assert [name for _, name in heads] == ["name", "share", "count", "sure", "gone", "lost"]
    assert [kind for kind, _ in heads] == [kind for kind, _ in cells]
    assert [value for _, value in cells] == ["a", "0.123", "12,345", "True", "", ""]


@pytest.mark.parametrize(("rows", "drawn", "says"), [(14, 14, None), (15, 15, "15 rows"), (1234, 40, "40 of 1,234")])
def test_long_tables_are_folded(rows, drawn, says):
    text = shown([section(Beside("table", "theirs", pandas.DataFrame({"n": range(rows)}), "it differs"))])
    assert text.count("<td") - 3 == drawn  # three are about model, data and sample
    assert ("<details>" in text) == (says is not None) and (says or "") in text


def test_a_report_of_no_paper_names_none():
    text = page(Study("report", "T", "A", "", "", ()), {"model": "m", "data": "d"}, [], {})
    assert "The paper" not in text and "sample" not in text
