"""Which step of the LM head makes the prediction, and since which layer: python examples/lm_head.py [CHART]"""

import sys
from pathlib import Path

import whence
from whence.plot.lm_head import lens

model = whence.load()
text = "The keys to the [MASK] were on the table."
dataset = whence.lm_head(model, text, k=4).isel(layer=0, position=0)

print(f"{text}\nBest tokens after each step of the head")
print(dataset.top.to_pandas().to_string())

# how much like the model's own scores each step orders the vocabulary
print("\nSpearman correlation with the last step")
print(dataset.spearman.isel(other_stage=-1).to_series().round(2).to_string())

# the same head on the states of every layer
layers = whence.lm_head(model, text, layer="all")
place = layers.place.isel(position=0, candidate=0).sel(stage="lmhead-out").to_series()
print("\nPlace of the predicted token by layer")
print(place.to_string())

chart = Path(sys.argv[1] if len(sys.argv) > 1 else "head.html").with_suffix(".html")
lens(layers).save(chart)
print(f"\nThe chart: {chart}")
