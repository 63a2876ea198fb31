"""How much of each token's vector comes from other tokens? python examples/study_mixing.py [PAGE]"""

# %% A corpus of our own; with --data on the command line it would be a file.
import json
import sys
import tempfile
from pathlib import Path

import whence

TEXTS = [
    "The harbour was built where the river meets the sea, and the town grew around it.",
    "Merchants brought salt and amber from the north and took cloth and wine back with them.",
    "When the fleet was away the streets were so quiet that one could hear the bells of the abbey.",
    "Nobody knows who drew the first map of the coast, but every captain carried a copy of it.",
]
folder = Path(tempfile.mkdtemp())
(folder / "town.txt").write_text("\n".join(TEXTS), encoding="utf-8")

# %% The study: measured, drawn, and held against the paper. The same call again goes on where it was.
page = whence.study("mixing", whence.load(), str(folder / "town.txt"), folder / "study", quick=True)

# %% What was found, for a program.
found = json.loads((folder / "study" / "findings.json").read_text(encoding="utf-8"))
for claim in found["claims"]:
    print(claim["verdict"], claim["says"], claim["statistic"], sep=" | ")

# %% The page for a person.
target = Path(sys.argv[1] if len(sys.argv) > 1 else "study_mixing.html")
target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
print(f"The page: {target}")
