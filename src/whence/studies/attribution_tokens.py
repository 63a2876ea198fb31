"""Single tokens, the token that stands for all, and parts of speech: what is left of them (Brunner et al. 2020)."""

from functools import partial

import pandas

from whence.plot.drawing import SEPARATOR
from whence.sentence.measure import of_text as measure
from whence.stats.estimate import Estimate, estimate
from whence.studies.attribution_rows import ITSELF, PAPER, maps_of, run_of, token_rows
from whence.studies.frame.context import MARKS, Context, called, ends_and_middle, quartiles
from whence.studies.frame.study import Absent, Claim, Figure, Items
from whence.studies.frame.verdict import MORE

LEAST = 5  # tokens for a box
OPEN = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"})


def special_token(context: Context) -> pandas.DataFrame:
    """Where the first token takes its context from, centred on itself and on the first border."""
    first, sep = context.model.tokenizer.cls_token, context.model.tokenizer.sep_token
    tables = []
    for _, dataset, values in maps_of(run_of(context)):
        tokens = [str(token) for token in dataset["source_token"].values]
        if first is None or first not in tokens:
            continue
        at = tokens.index(first)
        rows = pandas.DataFrame(values[:, at].numpy(), dataset["layer"].values).rename_axis("layer")
        rows = rows.drop(columns=at).reset_index().melt("layer", var_name="source", value_name="sum")
        borders = {f"from {first}": at} | ({f"from the first {sep}": tokens.index(sep)} if sep in tokens else {})
        tables += [rows.assign(centred=name, position=rows["source"] - place) for name, place in borders.items()]
    if not tables:
        raise Absent("this model's input has no token that stands for the whole, such as [CLS]")
    table = pandas.concat(tables).groupby(["centred", "layer", "position"], as_index=False)["sum"].sum()
    table["share"] = table["sum"] / table.groupby(["centred", "layer"])["sum"].transform("sum")
    return table.astype({"position": int})


def _ends(table: pandas.DataFrame) -> pandas.DataFrame:
    shown = table[table["layer"].isin(ends_and_middle(table["layer"]))]
    return shown.assign(layer="layer " + shown["layer"].astype(str))


def tracked(context: Context) -> pandas.DataFrame:
    """Every input token's contribution to a few tokens of one sentence, layer by layer."""
    if context.text is None:
        dataset = next(iter(run_of(context).maps.values()))
    else:
        dataset = measure(context.model, context.text, ["contribution"], truncate=True)
    tokens, special = [str(token) for token in dataset["source_token"].values], dataset["source_is_special"].values
    words = [at for at in range(len(tokens)) if not special[at] and tokens[at].isalpha()]
    chosen = list(dict.fromkeys([0, *words[1 :: max(1, len(words) // 4)], len(tokens) - 1]))[:6]
    rows = [
        {
            "token": f"{tokens[target]} ({target})",
            "layer": int(layer),
            "source": f"{tokens[at]}{SEPARATOR}{at}",
            "share": float(row),
        }
        for target in chosen
        for layer, line in zip(dataset["layer"].values, dataset["contribution"].sel(target=target).values, strict=True)
        for at, row in enumerate(line)
    ]
    table = pandas.DataFrame(rows)
    table.attrs["sample"] = f"{' '.join(tokens[:16])} …"
    return table


def _tagged(context: Context) -> pandas.DataFrame:
    """The tokens of the first corpus that has parts of speech."""
    places = range(len(context.corpora))
    place = next((at for at in places if context.kept(token_rows, at)["upos"].notna().any()), None)
    if place is None:
        raise Absent("no corpus given has parts of speech; give a CoNLL-U file as well (--data file.conllu)")
    tokens = context.kept(token_rows, place)
    tokens.attrs["sample"] = called(context.corpora[place])
    return tokens


def parts_of_speech(tags: str, context: Context) -> pandas.DataFrame:
    tokens = _tagged(context)
    if tokens[tags].isna().all():
        raise Absent(f"the corpus has no {tags.upper()} tags")
    table = _kept_by(tokens, tags)
    table.attrs["sample"] = tokens.attrs["sample"]
    return table


def _kept_by(tokens: pandas.DataFrame, tags: str) -> pandas.DataFrame:
    """What tokens keep, by layer and tag, sorted by the last layer; special tokens are tags of their own."""
    names = tokens[tags].replace(MARKS).where(~tokens["is_special"], tokens["token"])
    boxes = tokens.groupby(["layer", names])["contribution_own"].apply(quartiles).unstack().reset_index()
    boxes = boxes[boxes["n"] >= LEAST]
    order = boxes[boxes["layer"] == boxes["layer"].max()].sort_values("middle", ascending=False)[tags]
    places = {name: place for place, name in enumerate(order)}
    return boxes.sort_values(["layer", tags], key=lambda column: column.map(places) if column.name == tags else column)


def _ranked(tags: str, table: pandas.DataFrame) -> str:
    last = table[table["layer"] == table["layer"].max()].iloc[[0, -1]]
    (most, least), (high, low) = last[tags], last["middle"]
    return f"After the last layer {most} keeps {high:.0%} of itself, {least} {low:.0%}"


def classes(context: Context) -> Estimate:
    """The median of open classes less that of all others, in the last layer."""
    tokens = _tagged(context)
    last = tokens[(tokens["layer"] == tokens["layer"].max()) & tokens["upos"].notna()]
    last = last.assign(open=last["upos"].isin(OPEN))
    return estimate(last, "contribution_own", "open", lambda of: of[True] - of[False], median=True)


SPECIAL: Items = (
    Figure(
        "special_token",
        f"{PAPER}, figures 18a and 18b",
        special_token,
        {"kind": "lines", "x": "position", "y": "share", "color": "layer", "by": "centred"},
        lambda table: "Where the first token takes its context from",
        "total contribution by position, the token itself left out",
        only=_ends,
    ),
)
TRACKED: Items = (
    Figure(
        "tracked",
        f"{PAPER}, figures 19–25",
        tracked,
        {"kind": "grid", "x": "source", "y": "layer", "value": "share", "by": "token", "x_title": ""},
        lambda table: "Single tokens through the layers: whence each came",
        "contribution of every input token",
    ),
)
SPEECH: Items = (
    *(
        Figure(
            f"own_by_{tags}",
            f"{PAPER}, figures 26–37",
            partial(parts_of_speech, tags),
            {"kind": "boxes", "x": tags, "y": "middle", "by": "panel", "x_title": "", "y_title": ITSELF},
            partial(_ranked, tags),
            "by layer, in the order of the last: median, middle half and 5–95 %",
            only=lambda table: table.assign(panel="layer " + table["layer"].astype(str)),
        )
        for tags in ("upos", "xpos")
    ),
    Claim(
        "In the last layer words with meaning keep more of themselves than function words.", classes, MORE, form=".1%"
    ),
)
