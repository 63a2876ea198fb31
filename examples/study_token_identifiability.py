"""Can a hidden vector be traced to its token, as a study: python examples/study_token_identifiability.py [PAGE]"""

# %% Sentences to ask about; the study itself uses MRPC, as in --data mrpc:dev.tsv
import itertools
import json
import sys
from pathlib import Path

import pandas

import whence

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "study.html").with_suffix("")
folder.mkdir(parents=True, exist_ok=True)
words = (["old", "young", "other"], ["man", "dog", "queen"], ["saw", "fed", "lost"])
texts = [f"The {who} {what} {did} a bird near the river." for who, what, did in itertools.product(*words)]
(folder / "sentences.txt").write_text("\n".join(texts))

# %% The study: in full it takes all sentences, ten folds and every layer for every probe
model = whence.load()
report = whence.study("token-identifiability", model, str(folder / "sentences.txt"), folder, quick=True)

# %% Every picture has its table
rates = pandas.read_csv(folder / "tables" / "identity_rates.csv")
print("Tokens recognised, by probe and layer")
print(rates.pivot(index="probe", columns="layer", values="rate").round(2).to_string(na_rep=""))

# %% What the paper found, and whether it is so here
for claim in json.loads((folder / "findings.json").read_text())["claims"]:
    print(f"\n{claim['verdict']}: {claim['says']}")
    print(f"    {claim['statistic']}")
print(f"\nThe page: {report}")
