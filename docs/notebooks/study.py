# %% [markdown]
# # A published study on your model
#
# A paper finds something about BERT. Does it hold for your model, on your texts? A *study* repeats the paper: it measures, draws the paper's figures,
# and says of each claim whether it was confirmed. This one is *Incorporating Residual and Normalization Layers into Analysis of Masked Language
# Models* (Kobayashi et al. 2021), on a handful of sentences, so that it runs in seconds.

# %%
import json
from pathlib import Path

import whence

TEXTS = [
    "The harbour was built where the river meets the sea, and the town grew around it.",
    "Merchants brought salt and amber from the north and took cloth and wine back with them.",
    "When the fleet was away the streets were so quiet that one could hear the bells of the abbey.",
    "Nobody knows who drew the first map of the coast, but every captain carried a copy of it.",
]
Path("town.txt").write_text("\n".join(TEXTS), encoding="utf-8")

# %% [markdown]
# One call. `quick=True` takes a small sample; without it, the study is the paper's. A list of models in place of one compares them, and a study that was
# stopped resumes.

# %%
page = whence.study("mixing", whence.load(), "town.txt", "study", quick=True)
sorted(path.name for path in Path("study").iterdir())[:8]

# %% [markdown]
# ## What was found
#
# The report, `study/report.html`, is for people. For programs there is `findings.json`. A claim is *confirmed* or *contradicted* only where its interval
# says so, and *undecided* otherwise, which a sample of four sentences often is.

# %%
import pandas

findings = json.loads((Path("study") / "findings.json").read_text(encoding="utf-8"))
pandas.DataFrame(findings["claims"])[["verdict", "says"]]

# %% [markdown]
# ## Look closer
#
# The numbers behind a figure are a table. How much of a token came from others, layer by layer, by each analysis of the paper?

# %%
from whence.plot import charts

ds = whence.measure(whence.load(), TEXTS[0], ["mixing"])
charts.mixing_lines(ds)

# %% [markdown]
# Attention weights alone (`attn_w`) put nearly everything down to the context. With norms, the residual connection and LayerNorm, most of a token
# stays, which is what the paper says.

# %%
ds.mixing.mean(["layer", "target"]).to_series().round(2)

# %% [markdown]
# The studies there are, and how to add one of your own, are in the documentation. From the command line it is
# `whence study mixing --data town.txt --out study --quick`.
