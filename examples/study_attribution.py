"""What is left of a token, and whence did the rest come? python examples/study_attribution.py [PAGE]"""

# %% Pairs of sentences, as a table with a header.
import sys
import tempfile
from pathlib import Path

import pandas

import whence

PAIRS = [
    ("The company said profits rose.", "Profits rose, the company said."),
    ("He sold the old house in May.", "In May the old house was sold."),
]
folder = Path(tempfile.mkdtemp())
rows = ["first\tsecond", *("\t".join(pair) for pair in PAIRS)]
(folder / "pairs.tsv").write_text("\n".join(rows), encoding="utf-8")
corpus = whence.read(folder / "pairs.tsv", text="first", pair="second")

# %% The study. Without parts of speech in the data it leaves that section out and says so.
page = whence.study("attribution", whence.load(), corpus, folder / "study", quick=True)

# %% How much a token keeps of itself, layer by layer.
table = pandas.read_parquet(folder / "study" / "tables" / "own_0.parquet")
print(table[["layer", "lower", "middle", "upper"]].round(3).to_string(index=False))

# %% The page for a person.
target = Path(sys.argv[1] if len(sys.argv) > 1 else "study_attribution.html")
target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
print(f"The page: {target}")
