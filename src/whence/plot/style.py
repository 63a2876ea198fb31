"""How every variable and analysis is named, coloured and worded: the one table that Python and the page read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whence.plot.palette import (
    BLACK,
    BLUE,
    FURNITURE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    THEMES,
    VERMILION,
    YELLOW,
    Color,
    Theme,
)

if TYPE_CHECKING:
    from whence.measures.registry import Variable

ROLLED_OUT = "rollout_"
PERCENT = ("share", "weight")  # units that are written as per cent


@dataclass(frozen=True)
class Wording:
    """A map in sentences: the {token} it is about, the {title} of the map."""

    verb: str
    to: str
    rows: str
    "what all tokens do: rows `take from` columns"
    when: str
    "how a sentence about a layer begins"
    shade: str
    "what the shade of the sentence's tokens means, followed by the layer"
    most: str
    "what is said of the token that most heads look at"
    paths: str
    "how links from layer to layer go together"
    since_input: bool = False
    "from the input through all layers up to this one, or through this one alone"


# what is said wherever shares are multiplied over layers
CAUTION = "vectors that cancel still add up, so read it with care"
_MULTIPLIED = f"Multiplied over all layers up to this one (a rollout): {CAUTION}"
_PATHS = f"A path weighs what its links weigh, multiplied (a rollout): {CAUTION}"
ATTENDS = Wording("attends", "to", "attend to", "In", "what {token} attends to in", "receives most {title}", _PATHS)
TAKES = Wording("takes", "from", "take from", "In", "where {token} came from, in", "is the largest source", _PATHS)
COMES = Wording(
    "comes",
    "from",
    "come from",
    "After",
    "where {token} came from, from the input to",
    "is the largest source",
    "Links go from the input through all layers at once: nothing is multiplied",
    since_input=True,
)
ROLLED = replace(COMES, paths=_MULTIPLIED)
WORDINGS = {"attends": ATTENDS, "takes": TAKES, "comes": COMES, "rolled out": ROLLED}


@dataclass(frozen=True)
class Reading:
    """A number for every layer and token in sentences: its {title} and {about}, the {value} of a {token} in a {layer},
    and the {mean} over tokens."""

    kind: str
    "what is of one kind can be compared"
    label: str
    "in a list of choices"
    name: str
    "inside a sentence"
    group: str
    "what a line in a chart of several is filed under"
    meaning: str
    finding: str
    unit: str
    "what follows the value"
    since_input: bool = False


_AVERAGE = "; the average token {mean}"
OWN = Reading(
    "own",
    "own share: {title}",
    "own share by {title}",
    "own share",
    "How much of each hidden token still comes from the same token at the input, by {title}.",
    "After layer {layer}, {token} is still {value} itself" + _AVERAGE,
    "itself",
    since_input=True,
)
OWN_ROLLED = replace(OWN, meaning=f"{OWN.meaning} {_MULTIPLIED}.")
OTHERS = Reading(
    "others",
    "from others: {title}",
    "share from others by {title}",
    "from other tokens",
    "Share of each token’s new vector that came from other tokens, by {title}.",
    "In layer {layer}, {token} takes {value} of its new vector from others" + _AVERAGE,
    "from other tokens",
)
PAID = Reading(
    "others",
    "{title} paid to others",
    "{title} paid to others",
    "from other tokens",
    "One minus the token’s weight on itself, mean of all heads.",
    "In layer {layer}, {token} pays others {value} of its {title}" + _AVERAGE,
    "goes to others",
)
PLAIN = Reading("plain", "{title}", "{title}", "", "{about}", "In layer {layer}, {token} has {value}" + _AVERAGE, "")
SOURCES = Reading("sources", "sources: {title}", "sources of the chosen token by {title}", "", "{about}", "", "")


@dataclass(frozen=True)
class Sum:
    """Variables that are drawn together on one scale, because the first is the sum of the others."""

    names: tuple[str, str, str]
    meaning: str
    nothing: str
    "what is said where the last of them is zero everywhere"


SUMS = (
    Sum(
        ("attention", "effective", "null"),
        "Attention is the sum of an effective part and a part that the values cancel.",
        "All of it is effective: with so few tokens the values cancel nothing.",
    ),
)

# what a page says of the LM head
LM_HEAD = {
    "about": "Each step’s vector is scored against every token of the vocabulary by inner product; the scores of the "
    "last step are the model’s own, and give probabilities. Place: where the step puts the token that is predicted in "
    "the end. Shade: how high a token stands in the end, among those shown.",
    "nothing": "Nothing is predicted yet",
    "ask": "Put [MASK] in the place of a word, or ask what the model expects at the chosen token.",
    "picture": "Best tokens after each step of the head",
    "layers": "The same head after every layer",
    "agreement": "Agreement of the steps: Spearman correlation over the vocabulary",
}

# what is said of rows that rest on the first token
SINK = {
    "label": "sink",
    "row": "sink: {first} holds more than half of this row’s attention",
    "head": "a sink in {rows} of {all} rows",
    "tiles": "The strip beside a tile marks sinks: rows in which the first token, {first}, holds more than half.",
    "dots": "dots: the first token holds more than half of the token's attention in this layer (sink)",
    "map": "Sink marks {rows} of {all} rows: there the first token, {first}, holds more than half of the attention.",
    "finding": "{first}, the first token, is an attention sink: it holds more than half of the attention in {share} of "
    "the rows (mean of heads; its own rows left out)",
    "list": "sink: the first token, where it holds more than half of the row's attention in this layer",
    "node": "{first}, the first token, is an attention sink: what goes there is drawn grey, as one node.",
    "rows": "sink: rows in which the first token holds more than half of the attention",
}


@dataclass(frozen=True)
class Style:
    """One row: `meaning` is a sentence, `note` is what is said of one head, with the {value}."""

    title: str
    meaning: str = ""
    color: Color | None = None
    wording: Wording = TAKES
    note: str = ""
    unit: str = ""
    reading: Reading = PLAIN
    "where it has a number for every layer and token"
    mean_of: str = ""
    "the map by head of which this is the mean"

    @property
    def percent(self) -> bool:
        return self.unit in PERCENT

    def colored(self, theme: Theme) -> str:
        return FURNITURE[theme]["muted"] if self.color is None else self.color[THEMES.index(theme)]


STYLES: dict[str, Style] = {
    "contribution": Style(
        "contribution",
        "How much each input token contributes to the hidden token, from gradients through all layers up to "
        "it; a row adds up to 100 % (Brunner et al. 2020).",
        BLACK,
        COMES,
    ),
    "jacobian": Style(
        "Jacobian norm",
        "How strongly the hidden token reacts to a small change of each input token.",
        BLACK,
        COMES,
    ),
    "decomposition": Style(
        "decomposition, lengths", "Length of each input token’s vector in the hidden token.", wording=COMES
    ),
    "decomposition_share": Style(
        "decomposition",
        "The hidden token is a sum of vectors, one for each input token and one for what belongs to none: how long "
        "each input token’s is, as a share of theirs.",
        wording=COMES,
    ),
    "decomposition_signed": Style(
        "decomposition along the state",
        "Each input token's vector along the hidden token; may be negative.",
        wording=COMES,
    ),
    "decomposition_bias": Style("bias of the decomposition", "Length of the vector that belongs to no token."),
    "decomposition_bias_signed": Style("bias along the state", "The vector that belongs to no token, along the state."),
    "jacobian_local": Style("Jacobian norm, one layer", "How strongly a layer's output reacts to each of its inputs."),
    "gradient": Style(
        "gradient G*",
        "Sum of the gradient of the hidden token with respect to each input token.",
        wording=COMES,
    ),
    "gradient_local": Style("gradient G, one layer", "Sum of the gradient of a layer's output to each of its inputs."),
    "block_n": Style(
        "norms: whole block",
        "Size of the part each token hands over, through attention, residual, layer norm and feed-forward.",
        PURPLE,
    ),
    "attnresln_n": Style(
        "norms: attention + residual + layer norm",
        "Size of the part each token hands over, counted after attention, residual and layer norm (Kobayashi "
        "et al. 2021).",
        BLUE,
    ),
    "attnres_n": Style(
        "norms: attention + residual",
        "Size of the part each token hands over, counted after attention and residual (Kobayashi et al. 2021).",
        GREEN,
    ),
    "attn_n": Style(
        "norms: attention",
        "Size of the weighted value vectors each token hands over, summed over heads (Kobayashi et al. 2020).",
        SKY,
    ),
    "attnres_w": Style(
        "weights: attention + residual",
        "Mean attention weight over heads, half of it replaced by the residual (Abnar & Zuidema 2020).",
        VERMILION,
        ATTENDS,
    ),
    "attn_w": Style("weights: attention", "Mean attention weight over heads.", ORANGE, ATTENDS, mean_of="attention"),
    "attention": Style("attention", "The softmax weights; a row adds up to 100 %.", ORANGE, ATTENDS),
    "effective": Style(
        "effective attention",
        "The part of attention that can reach the output; the rest lies in the null space of the values "
        "(Brunner et al. 2020).",
        YELLOW,
        ATTENDS,
    ),
    "null": Style(
        "null attention",
        "The part of attention that the values cancel: it cannot reach the output.",
        GREY,
        ATTENDS,
    ),
    "alti": Style(
        "ALTI",
        "How much nearer each token's part brings the new vector to what it becomes (Ferrando et al. 2022).",
    ),
    "value_zeroing": Style(
        "value zeroing",
        "How far the block's output turns when a token's value is set to zero (Mohebbi et al. 2023).",
    ),
    "minimum": Style("smallest attention", "The smallest weights with which a head gives the same output."),
    "minimum_simplex": Style(
        "smallest distribution",
        "The smallest weights, none negative, that add up to 100 % and give the same output.",
    ),
    "norms_heads": Style("norms per head", "Size of each head's weighted, projected value vectors.", SKY),
    "mixing": Style("mixing", reading=OTHERS),
    "self_contribution": Style("contribution, summed up", reading=OWN),
    "value_rank": Style("rank of the values", note="rank {value}"),
    "nullity": Style("nullity", note="null space of dimension {value}"),
    "nullity_sums": Style("nullity sums"),
    "effective_correlation": Style("effective correlation"),
}

# steps of the LM head; those of a decoder's norm look like those of an encoder's
STAGES: dict[str, Color] = {
    "trf-out": GREY,
    "dense-w": ORANGE,
    "dense-b": VERMILION,
    "gelu": PURPLE,
    "lnorm-n": SKY,
    "lnorm-w": BLUE,
    "lnorm-b": GREEN,
    "lmhead-out": BLACK,
}
STAGES |= {f"norm-{step}": STAGES[f"lnorm-{step}"] for step in ("n", "w", "b")}
STAGES |= {"unembed": BLACK, "scale": ORANGE, "softcap": PURPLE}


def style(name: str) -> Style:
    """The row of a variable or analysis; for one without a row, what its measure says of it.

    A map accumulated over layers has the row of the map itself, and says so.
    """
    inner = name.removeprefix(ROLLED_OUT)
    variable = _registered(name)
    row = STYLES.get(inner) or _unlisted(inner)
    if inner != name:
        meaning = f"{row.meaning} {_MULTIPLIED}.".strip()
        row = replace(row, title=f"{row.title}, rolled out", meaning=meaning, wording=ROLLED)
    return replace(row, unit=variable.unit if variable else "")


# what the studies tell apart: one colour each, whatever else is in the picture
CATEGORIES: dict[str, Color] = {
    "baseline": GREY,
    "attention and norms": BLUE,
    "derivatives": GREEN,
    "the pass taken apart": VERMILION,
    "lost": VERMILION,
    "lost without a probe": PURPLE,
    "kept of itself": ORANGE,
    "mixed in by attention": BLUE,
    "mixed in by the block": SKY,
    "log frequency rank": GREY,
    "raw": BLUE,
    "null": VERMILION,
    "[CLS]": GREEN,
    "[SEP]": BLUE,
    "[MASK]": VERMILION,
    "period": ORANGE,
    "comma": PURPLE,
    "other": GREY,
    "linear, cosine": BLUE,
    "linear, L2": SKY,
    "MLP, cosine": VERMILION,
    "MLP, L2": ORANGE,
    "naive, cosine": GREEN,
    "naive, L2": PURPLE,
    "linear, train": BLUE,
    "linear, test": SKY,
    "MLP, train": VERMILION,
    "MLP, test": ORANGE,
    "the token itself": BLACK,
    "1 to the left": BLUE,
    "2 to the left": SKY,
    "3 to the left": GREEN,
    "1 to the right": VERMILION,
    "2 to the right": ORANGE,
    "3 to the right": PURPLE,
    "A": ORANGE,
    "G": GREEN,
    "G*": BLUE,
    "coreferent": VERMILION,
    "not coreferent": GREY,
    "open class": VERMILION,
    "closed class": GREY,
    "Jacobian lens": VERMILION,
    "tuned lens": BLUE,
    "logit lens": GREY,
    "sorting": BLUE,
    "sorted": ORANGE,
    "as it is": BLACK,
    "final period removed": BLUE,
    "end token removed": ORANGE,
    "mask replaced by “cat”": VERMILION,
    "the best": BLUE,
    "among the best 10": SKY,
    "among the best 100": GREY,
    "alternative, at random": SKY,
    "alternative, least alike": VERMILION,
    "smallest weights": GREEN,
    "smallest distribution": PURPLE,
}


def named_color(name: str, theme: Theme) -> str | None:
    """The fixed colour of a measure, an analysis or a step of the LM head; None for what has none."""
    color = STAGES.get(name) or CATEGORIES.get(name) or style(name).color
    return None if color is None else color[THEMES.index(theme)]


def _unlisted(name: str) -> Style:
    title, variable = name.replace("_", " "), _registered(name)
    if variable is None:
        return Style(title)
    return Style(title, f"{variable.about[:1].upper()}{variable.about[1:]}.", note=f"{title} {{value}}")


def _registered(name: str) -> Variable | None:
    from whence.measures.registry import variables  # imports torch, which a picture of a saved Dataset does not need

    return variables().get(name)
