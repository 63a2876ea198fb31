"""Which part of the attention matters? python examples/study_attention_identifiability.py [PAGE]"""

# %% Texts shorter and longer than a head of the built-in model is wide (32).
import sys
import tempfile
from pathlib import Path

import pandas

import whence

SENTENCE = "The harbour was built where the river meets the sea, and the town grew around it. "
folder = Path(tempfile.mkdtemp())
(folder / "town.txt").write_text("\n".join(SENTENCE * count for count in (1, 2, 3, 4, 5)), encoding="utf-8")

# %% The study.
page = whence.study("attention-identifiability", whence.load(), str(folder / "town.txt"), folder / "study", quick=True)

# %% Every picture has its table: here, how alike raw and effective attention are, by length.
table = pandas.read_parquet(folder / "study" / "tables" / "correlation_by_length.parquet")
print(table[["tokens", "nullity", "effective_correlation"]].sort_values("tokens").round(2).to_string(index=False))

# %% The page for a person.
target = Path(sys.argv[1] if len(sys.argv) > 1 else "study_attention_identifiability.html")
target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
print(f"The page: {target}")
