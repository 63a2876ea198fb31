"""One sentence, from text to numbers to a page: python examples/one_sentence.py [PAGE]"""

import sys

import whence

model = whence.load()
dataset = whence.measure(model, "The keys to the cabinet [MASK] on the table.", ["attention", "mixing"])

# axes have names: what does [MASK] look at in the last layer, averaged over heads?
mask = dataset.target_token.values.tolist().index("[MASK]")
looked_at = dataset.attention.sel(layer=6, target=mask).mean("head").to_series()
looked_at.index = dataset.source_token.values
print("In layer 6, [MASK] attends to")
print(looked_at.sort_values(ascending=False).head(4).round(2).to_string())

# how much of each token's new vector came from other tokens, residual and norm counted
ratio = dataset.mixing.sel(analysis="attnresln_n").mean("target")
print("\nShare that came from other tokens, by layer")
print(ratio.to_series().round(2).to_string())

page = whence.report(dataset, sys.argv[1] if len(sys.argv) > 1 else "one_sentence.html")
print(f"\nThe page: {page}\n")
print(whence.cite(dataset))
