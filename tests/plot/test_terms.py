"""What a page says of a word is what the glossary says."""

from pathlib import Path

from whence.plot.style import STAGES
from whence.plot.terms import STEPS, TERMS, terms

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_page_and_the_glossary_say_the_same():
    text = GLOSSARY.read_text(encoding="utf-8")
    assert {term for term, meaning in TERMS.items() if term not in text or meaning not in text} == set()
    assert {step for step, meaning in STEPS.items() if f"| `{step}` | {meaning} |" not in text} == set()


def test_every_step_of_the_head_is_explained_and_no_term_hides_another():
    assert set(STEPS) == set(STAGES)
    names = list(terms())
    assert names == sorted(names, key=len, reverse=True) and set(names) == {*TERMS, *STEPS}
