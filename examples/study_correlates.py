"""Do gradients and attention follow parts of speech? python examples/study_correlates.py [PAGE]"""

# %% A small treebank, written by hand. A real one would be a file of Universal Dependencies.
import json
import sys
import tempfile
from pathlib import Path

import whence

SENTENCES = {
    "The/DET old/ADJ captain/NOUN lost/VERB his/PRON map/NOUN": (3, 3, 4, 0, 6, 4),
    "Nobody/PRON believed/VERB the/DET story/NOUN of/ADP the/DET storm/NOUN": (2, 0, 4, 2, 7, 7, 4),
    "A/DET small/ADJ boat/NOUN left/VERB the/DET harbour/NOUN at/ADP night/NOUN": (3, 3, 4, 0, 6, 4, 8, 4),
}


def treebank() -> str:
    """Ten columns a word: number, form, lemma, part of speech, ..., governor, relation, ..."""
    parts = []
    for text, heads in SENTENCES.items():
        words = [word.split("/") for word in text.split()]
        parts.append(f"# text = {' '.join(form for form, _ in words)}")
        for place, ((form, tag), head) in enumerate(zip(words, heads, strict=True), 1):
            relation = "root" if head == 0 else "dep"
            parts.append("\t".join([str(place), form, form, tag, "_", "_", str(head), relation, "_", "_"]))
        parts.append("")
    return "\n".join([*parts, ""])


folder = Path(tempfile.mkdtemp())
(folder / "sea.conllu").write_text(treebank(), encoding="utf-8")

# %% The study. Nothing is marked as coreferent here, so that section is left out, with the reason.
page = whence.study("correlates", whence.load(), str(folder / "sea.conllu"), folder / "study", quick=True)

# %% What was found and what was left out.
found = json.loads((folder / "study" / "findings.json").read_text(encoding="utf-8"))
for claim in found["claims"]:
    print(claim["verdict"], claim["says"], claim["statistic"], sep=" | ")
for left in found["left_out"]:
    print("left out", left["what"], left["why"], sep=" | ")

# %% The page for a person.
target = Path(sys.argv[1] if len(sys.argv) > 1 else "study_correlates.html")
target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
print(f"The page: {target}")
