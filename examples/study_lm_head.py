"""Which step of the LM head makes the prediction, as a study: python examples/study_lm_head.py [PAGE]"""

# %% A few clozes, written as LAMA writes them; the study itself uses --data lama:conceptnet.jsonl
import json
import sys
from pathlib import Path

import pandas

import whence

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "study.html").with_suffix("")
folder.mkdir(parents=True, exist_ok=True)
clozes = {
    "The capital of France is [MASK].": "paris",
    "The capital of England is [MASK].": "london",
    "He was born in the United [MASK].": "states",
    "The opposite of north is [MASK].": "south",
    "She was the first [MASK] of the United States.": "president",
    "They won the game by two [MASK].": "points",
    "The book was written by an English [MASK].": "author",
    "It was destroyed during World [MASK] II.": "war",
}
lines = [json.dumps({"masked_sentences": [text], "obj_label": answer}) for text, answer in clozes.items()]
(folder / "clozes.jsonl").write_text("\n".join(lines))

# %% The study, for a sentence of one's own
model = whence.load()
data = f"lama:{folder / 'clozes.jsonl'}"
report = whence.study("lm-head", model, data, folder, quick=True, text="He was born in the city of [MASK].")

# %% Every picture has its table: at which stage are the answers among the best?
hits = pandas.read_csv(folder / "tables" / "head_hits.csv")
shares = hits.pivot(index="stage", columns="k", values="found").loc[hits["stage"].unique()]
print("Share of the answers among the k best")
print(shares.round(2).to_string())

# %% What the paper found, and whether it is so here
for claim in json.loads((folder / "findings.json").read_text())["claims"]:
    print(f"\n{claim['verdict']}: {claim['says']}")
    print(f"    {claim['statistic']}")
print(f"\nThe page: {report}")
