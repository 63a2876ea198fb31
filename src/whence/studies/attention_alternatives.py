"""Other attention, the same output: how far the weights of a head can be moved (Brunner et al. 2020, section 3.3)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas
import xarray

from whence.errors import BadInput, Unsupported
from whence.models.load import Model
from whence.plot.encodings import SEPARATOR
from whence.sentence.alternative import alternative_attention
from whence.sentence.measure import of_text as measure
from whence.stats.estimate import Estimate, paired
from whence.studies.frame.context import Context, by_document, ends_and_middle
from whence.studies.frame.sentences import at_most
from whence.studies.frame.study import Absent, Claim, Figure, Items
from whence.studies.frame.verdict import MUCH, Criterion
from whence.text.sentence import Sentence

PAPER = "Brunner et al. 2020"
WORDS, LONGER = 44, 1.4  # of a text, and in terms of the width of a head: long enough for a null space
SHORTEST = 0.8  # of these words a text must have
ROWS = 24  # targets of a picture; the paper shows those of one sentence
TEXTS = (6, 24)  # quick, full
REACHED = 0.97  # of the weights in a picture are inside its colours
# where attention goes, as `whence.alternative_attention` takes it -> its name
KINDS: dict[str | None, str] = {
    None: "at random",
    "unlike": "least alike",
    "minimum": "smallest weights",
    "minimum_simplex": "smallest distribution",
}
MOVED, OUTPUT, LOGITS = "attention moved", "output of the head", "logits"
UNMOVED = Criterion.named("unmoved")


def texts(context: Context) -> list[Sentence]:
    """Longer than a head is wide, and not much longer, since a programme is solved for every row."""
    words = max(WORDS, round(LONGER * context.model.anatomy.config.hidden_size / context.model.anatomy.heads))
    least = round(SHORTEST * words)
    try:
        return list(replace(context.texts(*TEXTS, at_most(words, least)), spread=True))
    except BadInput as error:
        raise Absent(f"no text of the corpus has {least} words, more than a head is wide") from error


def moves(context: Context) -> pandas.DataFrame:
    """One row per text, layer and kind of alternative: what moved, and what the model noticed."""
    layers = sorted(ends_and_middle(context.model.anatomy.attending))
    rows = [
        {"sentence": number, "document": sentence.document, "layer": layer, "head": head} | row
        for number, sentence in enumerate(context.kept(texts))
        for place, layer in enumerate(layers)
        for head in [(number + place) % context.model.anatomy.heads]
        for row in _of_head(context.model, sentence, layer, head)
    ]
    if not rows:
        raise Absent("no text is long enough for another attention with the same output")
    table = by_document(pandas.DataFrame(rows))
    table.attrs["sample"] = f"{table['sentence'].nunique()} texts, one head of layers {', '.join(map(str, layers))}"
    return table


def _of_head(model: Model, sentence: Sentence, layer: int, head: int) -> Iterator[dict[str, object]]:
    for direction, name in KINDS.items():
        try:
            ds = alternative_attention(model, sentence, layer, head, direction=direction)
        except Unsupported:  # no null space: the text is too short for this head
            return
        moved = float(abs(ds["alternative"] - ds["attention"]).sum("source").mean() / 2)
        yield {"kind": name, MOVED: moved, OUTPUT: ds.attrs["output_difference"], LOGITS: ds.attrs["logits_difference"]}


def noticed(context: Context) -> pandas.DataFrame:
    """Means by kind: the share of the attention that moved, and the largest changes of output and logits."""
    table = context.kept(moves)
    means = table.groupby("kind", sort=False).agg({MOVED: "mean", OUTPUT: "max", LOGITS: "max"}).reset_index()
    spread = table.groupby("kind", sort=False)[MOVED].quantile([0.1, 0.9]).unstack().reset_index(drop=True)
    means = means.assign(low=spread[0.1], high=spread[0.9])
    means.attrs["sample"] = table.attrs["sample"]
    worst = f"{table[LOGITS].max():.0e}"
    means.attrs["note"] = f"Put back into the model, no alternative moves a logit by more than {worst} of the largest."
    return means


def _furthest(table: pandas.DataFrame) -> str:
    moved, most = table.set_index("kind")[MOVED][KINDS["unlike"]], table[LOGITS].max()
    return f"{moved:.0%} of the attention can go elsewhere, and no logit moves by more than {most:.1e} of the largest"


def logits_moved(context: Context) -> Estimate:
    """The largest change of any logit in terms of the largest logit, over all alternatives; the worst of a text."""
    return _worst(context.kept(moves))


def _worst(table: pandas.DataFrame) -> Estimate:
    return paired(table[LOGITS].to_numpy(), table["document"].tolist(), np.max)


def attention_moved(context: Context) -> Estimate:
    """The share of a row that lies elsewhere in the attention that is least like it: half the sum of differences."""
    table = context.kept(moves)
    rows = table[table["kind"] == KINDS["unlike"]]
    return paired(rows[MOVED].to_numpy(), rows["document"].tolist(), np.mean)


def least_alike(context: Context, text: object) -> tuple[int, int]:
    """The layer and the head of a text whose effective attention is least like the raw one."""
    dataset = measure(context.model, text, ["effective_correlation"], truncate=True)
    values = dataset["effective_correlation"]
    place = values.argmin(...)
    return int(values["layer"][place["layer"]]), int(values["head"][place["head"]])


def example(context: Context) -> Sentence | str:
    """The text of the pictures: the user's, or the first of the sample."""
    return context.text or context.kept(texts)[0]


def pictures(context: Context) -> pandas.DataFrame:
    """One head's attention and every alternative to it, token by token."""
    text = example(context)
    layer, head = least_alike(context, text)
    datasets: list[xarray.Dataset] = []
    for direction in KINDS:
        try:
            datasets.append(alternative_attention(context.model, text, layer, head, direction=direction))
        except Unsupported as error:
            raise Absent(str(error).rstrip(".")) from error
    maps = {"attention": datasets[0]["attention"]}
    maps |= {name: ds["alternative"] for name, ds in zip(KINDS.values(), datasets, strict=True)}
    table = pandas.concat([cells(name, values) for name, values in maps.items()])
    table.attrs["sample"] = f"layer {layer}, head {head}"
    return table


def cells(kind: str, values: xarray.DataArray) -> pandas.DataFrame:
    """The middle rows of a map: target, source and weight, with tokens told apart by their places."""
    names = [f"{token}{SEPARATOR}{at}" for at, token in enumerate(values["source_token"].values)]
    first = max(0, (len(names) - ROWS) // 2)
    weights = values.transpose("target", "source").values[first : first + ROWS]
    table = pandas.DataFrame(weights, names[first : first + ROWS], names)
    long = table.rename_axis(index="target", columns="source").stack().rename("weight").reset_index()
    return long.assign(kind=kind)


def reached(table: pandas.DataFrame) -> tuple[float, float]:
    """Colours that end where nearly all weights do, the same on both sides of zero: one column may have most of it."""
    most = float(table["weight"].abs().quantile(REACHED)) or 1.0
    return -most, most


ALTERNATIVES: Items = (
    Figure(
        "alternative_attention",
        f"{PAPER}, section 3.3",
        noticed,
        {"kind": "bars", "x": "kind", "y": MOVED, "color": "kind", "x_title": ""}
        | {"y_title": "of the attention lies elsewhere"},
        _furthest,
        "mean over texts and heads, lines hold the middle 80 %",
    ),
    Figure(
        "alternative_maps",
        f"{PAPER}, section 3.3",
        pictures,
        {"kind": "grid", "x": "source", "y": "target", "value": "weight", "by": "kind", "signed": True}
        | {"share": False, "limits": reached, "columns": 1, "x_title": "", "y_title": ""},
        lambda table: "Five attentions of one head with the same output",
        f"rows look at columns; the colours reach as far as {REACHED:.0%} of the weights",
    ),
    Claim("Put back into the model, other attention moves no logit.", logits_moved, UNMOVED, form=".1e"),
    Claim("Much of the attention can go elsewhere without any effect.", attention_moved, MUCH, form=".1%"),
)
