"""Can a hidden vector still be traced to its token? python examples/identity.py [PAGE] [CORPUS] [SENTENCES]

With a corpus, such as mrpc:dev.tsv, this is the whole experiment of Brunner et al. (2020), section 4, in minutes.
Without one it is the same on a few made-up sentences, in seconds.
"""

import itertools
import sys
from pathlib import Path

import whence
from whence.plot.charts import write
from whence.plot.identity import grid, neighbours, rates

page, corpus, count = [*sys.argv[1:], *("identity.html", "", "")[len(sys.argv) - 1 :]]
words = (["old", "young", "other"], ["man", "dog", "queen", "child"], ["saw", "fed", "lost"], ["bird", "letter"])
made_up = [f"The {' '.join(chosen[:3])} the {chosen[3]} near the river." for chosen in itertools.product(*words)]
sentences = whence.read(corpus, limit=int(count) if count else None) if corpus else made_up
settings = {"folds": 10 if corpus else 1, "cache": Path(page).parent / "states"}

model = whence.load()
experiments = [
    whence.identify(model, sentences, probe, loss=loss, **settings)
    for probe, loss in itertools.product(("linear", "naive"), ("cosine", "l2"))
]
print(f"Tokens recognised in the last layer; guessing finds {float(experiments[0].chance.mean()):.1%}")
for found in experiments:
    print(f"  {found.attrs['probe']:<6} {found.attrs['loss']:<6} {float(found.rate.isel(layer=-1).mean()):.1%}")

across = whence.identify(model, sentences, test_layers=range(1, 7), **settings)
print("\nTrained on (rows), tested on (columns)")
print(across.transfer.mean("fold").to_pandas().round(2).to_string())

beside = [whence.identify(model, sentences, offset=offset, **settings) for offset in (-2, -1, 1, 2)]
charts = {"": rates(experiments), "_grid": grid(across), "_neighbours": neighbours([experiments[0], *beside])}
print()
for name, chart in charts.items():
    path = Path(page).with_stem(Path(page).stem + name)
    write(chart, path)
    print(f"A chart: {path}")
