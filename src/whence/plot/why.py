"""What an explained prediction says, in words and rows: the same in the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whence.plot import legible

if TYPE_CHECKING:
    import xarray

MEASURES = ("share", "dependence")
SPACE, PIECE, LINE = "▁", "##", "⏎"
SINK = "first token (sink)"
CONSTANTS = "constants"
BEST = 3  # tokens that a sentence names
TOKEN, CLASS, SIMILARITY = "token", "class", "similarity"
WHOLE = "the whole text"
# what is predicted -> the number that the parts add up to, what it is of, and what else it could have been
VALUES = {TOKEN: "logit", CLASS: "score", SIMILARITY: "similarity"}
OTHERS = {TOKEN: "Best tokens", CLASS: "Best classes", SIMILARITY: ""}
OPPOSED = 0.2  # of the largest part: what speaks against a prediction by less goes unsaid
WORTH = 0.1  # of the largest part: what gave less than this is not named beside it
HONEST = 0.05  # parts are told in per cent where no more than this of their sizes goes against the rest


class Row(NamedTuple):
    """One source: a token or a span, with what each measure says of it."""

    name: str
    values: dict[str, float]
    sink: str = ""

    @property
    def is_sink(self) -> bool:
        """Whether it is the sink alone, and not a span around it."""
        return self.sink.endswith(SINK)

    @property
    def labelled(self) -> str:
        return f"{self.name} {self.sink}".strip()


class Explained(NamedTuple):
    """One prediction; `settled` is the layer from which on half of its logit sits where it is predicted."""

    position: int
    token: str
    at: str
    probability: float | None
    logit: float
    place: int | None
    against: str
    alternatives: list[tuple[str, float]]
    settled: int | None
    finding: str
    title: str = ""
    "what is predicted, with its probability, whatever it is compared with"
    because: str = ""
    "the three tokens that gave most, and what speaks against it"
    chance: str = ""
    "its probability, or the number itself where there is none"


def is_explained(ds: Any) -> bool:
    """Whether this is a Dataset of whence.why."""
    return {"predicted", "layer", "source"} <= set(getattr(ds, "dims", ())) and bool(measures(ds))


def kind(ds: xarray.Dataset) -> str:
    """What is predicted: a token, a class, or a similarity."""
    return str(ds.attrs.get("predicts", TOKEN))


def measures(ds: xarray.Dataset) -> list[str]:
    return [name for name in MEASURES if name in ds]


def explained(ds: xarray.Dataset) -> list[Explained]:
    return [_explained(ds.isel(predicted=place)) for place in range(ds.sizes["predicted"])]


def sink_of(ds: xarray.Dataset, name: str, values: np.ndarray) -> int | None:
    """0 where a decoder's first token holds more than any other; it is left out of scales. An encoder has no such."""
    one_decoder = int(ds.attrs.get("causal", 0)) and "source_stack" not in ds.coords
    if not one_decoder or len(values) < 2 or int(abs(values).argmax()) != 0 or name == "carried":
        return None
    return 0 if int(np.atleast_1d(ds["predicted"].values)[0]) else None


def limit(values: np.ndarray, sink: int | None) -> float:
    """The end of a scale: the largest size among the sources, the sink left out."""
    sizes = np.delete(abs(values), [] if sink is None else [sink])
    return float(sizes.max(initial=0.0)) or 1.0


def in_percent(values: np.ndarray, bias: float) -> bool:
    """Whether parts may be told in per cent of their sum: nearly all of it has one sign."""
    parts = np.append(values, bias)
    sizes = abs(parts).sum()
    return bool(sizes > 0 and abs(abs(parts.sum()) - sizes) <= HONEST * sizes)


def rows(ds: xarray.Dataset) -> list[Row]:
    """The sources of one prediction, at its first layer, by span or else by token, the largest first."""
    names = measures(ds)
    values = {name: _by_span(ds, name).isel(layer=0).values for name in names}
    by_token = ds[names[0]].isel(layer=0).values
    of_source = ds["source_span"].values if "source_span" in ds.coords else np.arange(len(by_token))
    sink = sink_of(ds, names[0], by_token)
    labels = span_names(ds)
    if "carried" in ds:
        values["carried"] = np.bincount(of_source, ds["carried"].values, minlength=len(labels))
    listed = [
        Row(
            labels[span], {name: float(numbers[span]) for name, numbers in values.items()}, _sink(sink, of_source, span)
        )
        for span in range(len(labels))
        if any(numbers[span] for numbers in values.values())  # what is behind the prediction gave nothing
    ]
    return sorted(listed, key=lambda row: -abs(row.values[names[0]]))


def span_names(ds: xarray.Dataset) -> list[str]:
    """The spans on one line each; those of one name carry their place."""
    values = ds["span_text"].values if "span_text" in ds.coords else ds["source_token"].values
    names = [_one_line(str(name)) for name in values]
    times = Counter(names)
    return [f"{name}({place})" if times[name] > 1 else name for place, name in enumerate(names)]


def profile(ds: xarray.Dataset) -> np.ndarray | None:
    """By layer, the part of the logit that already sits in the state where it is predicted."""
    if "share" not in ds or "place" not in ds or int(ds["predicted"]) < 0 or not float(ds["logit"]):
        return None
    return ds["share"].sel(source=int(ds["predicted"])).values / float(ds["logit"])


def whole(ds: xarray.Dataset) -> xarray.Dataset | None:
    """All predictions as one: shares add up; what does not add up is left out."""
    if "share" not in ds or ds.sizes["predicted"] < 2:
        return None
    names = [name for name in ("logit", "share", "bias", "span_share", "component_share") if name in ds]
    total = ds[names].sum("predicted").assign_coords(predicted=ds["predicted"].values[0]).assign_attrs(ds.attrs)
    return total.assign(carried=ds["carried"].mean("predicted")) if "carried" in ds else total


def components(ds: xarray.Dataset, most: int) -> list[tuple[str, float]]:
    """The heads and feed-forwards that gave most, by size."""
    by_block = ds["component_share"].sum("source").drop_sel(component="residual").transpose("block", "component")
    values = by_block.values
    places = np.argsort(-abs(values), axis=None, kind="stable")[:most]
    pairs = zip(*np.unravel_index(places, values.shape), strict=True)
    blocks, names = by_block["block"].values, by_block["component"].values
    return [(f"layer {blocks[block]}, {names[one]}", float(values[block, one])) for block, one in pairs]


def worded(token: str) -> str:
    """A token as people read it in a text, without the mark of the space before it."""
    return legible(token.removeprefix(SPACE) if token.strip(SPACE) else token)


def gaps(tokens: list[str]) -> list[bool]:
    """Whether a space stands before each token: by the tokenizer's marks of spaces, or of pieces that go on a word."""
    if any(token.startswith(SPACE) for token in tokens):
        return [token.startswith(SPACE) for token in tokens]
    return [place > 0 and not token.startswith(PIECE) for place, token in enumerate(tokens)]


def chance(probability: float) -> str:
    if 0 < probability < 1e-4:
        return "less than 0.01 %"
    return f"{100 * probability:.{0 if probability >= 0.095 else 1 if probability >= 0.00095 else 2}f} %"


def number(value: float | np.floating[Any]) -> str:
    """Two decimals, or two digits of what is smaller."""
    size = abs(float(value))
    shown = f"{value:.1f}" if size >= 9.995 else f"{value:.2g}" if 0.0005 <= size < 0.095 else f"{value:.2f}"
    return shown.replace("-", "−")


def _explained(ds: xarray.Dataset) -> Explained:
    position = int(ds["predicted"])
    token = _one_line(str(ds["predicted_token"].values))
    at = worded(str(ds["source_token"].values[position])) if position >= 0 else ""
    against = worded(str(ds["against_token"].values)) if "against_token" in ds.coords else ""
    prediction = Explained(
        position,
        token,
        at,
        float(ds["probability"]) if "probability" in ds else None,
        float(ds["logit"]),
        int(ds["place"]) if "place" in ds else None,
        against,
        _alternatives(ds),
        _settled(ds),
        "",
    )
    prediction = prediction._replace(
        chance=number(prediction.logit) if prediction.probability is None else chance(prediction.probability)
    )
    alone = prediction._replace(against="")
    return prediction._replace(
        finding=f"{_predicted(ds, prediction)}{_most(ds, prediction)}",
        title=_predicted(ds, alone),
        because=_because(ds, prediction),
    )


def _predicted(ds: xarray.Dataset, prediction: Explained) -> str:
    if kind(ds) == SIMILARITY:
        return f"The similarity to “{prediction.token}” is {number(prediction.logit)}"
    if prediction.place is None:
        return f"“{prediction.token}” as one: {prediction.chance}"
    where = _where(ds, prediction)
    if prediction.against:
        ahead = "ahead of" if prediction.logit >= 0 else "behind"
        return f"“{prediction.token}” is {number(abs(prediction.logit))} {ahead} “{prediction.against}”{where}"
    place = "" if prediction.place == 1 else f" (place {prediction.place:,})"
    if kind(ds) == CLASS and len(prediction.alternatives) < 2:  # a relevance, or another single score
        score = number(prediction.logit)
        return f"“{prediction.token}” is scored {score}{where}" + (
            f" ({prediction.chance})" if prediction.chance != score else ""
        )
    return f"“{prediction.token}” is predicted{where} with {prediction.chance}{place}"


def _where(ds: xarray.Dataset, prediction: Explained) -> str:
    """The place of a prediction; the class of a whole text has none that means something."""
    if kind(ds) == CLASS and ds.attrs.get("of") == WHOLE:
        return ""
    return f" {'after' if kind(ds) == TOKEN and int(ds.attrs.get('causal', 0)) else 'at'} “{prediction.at}”"


def _most(ds: xarray.Dataset, prediction: Explained) -> str:
    """The two tokens that gave most of it at layer 0, the sink told apart."""
    name = measures(ds)[0]
    values = ds[name].isel(layer=0).values
    sink = sink_of(ds, name, values)
    order = np.argsort(-values if prediction.logit >= 0 or name != "share" else values, kind="stable")
    best = [int(place) for place in order if place != sink][:2]
    names = [worded(str(ds["source_token"].values[place])) for place in best]
    alike = len(set(names)) < len(names)
    tokens = [f"“{token}”" + f"({place})" * alike for token, place in zip(names, best, strict=True)]
    if name != "share":
        return f", and depends most on {_listed(tokens)}"
    parts = [f"{number(values[place])} from {token}" for place, token in zip(best, tokens, strict=True)]
    parts[0] = parts[0].replace(" from ", " came from ", 1)
    parts += [] if sink is None else [f"{number(values[sink])} from the {SINK}"]
    logit = "the sum of its logits," if prediction.place is None else f"its {VALUES[kind(ds)]} of"
    of = "of that" if prediction.against or kind(ds) == SIMILARITY else f"of {logit} {number(prediction.logit)}"
    return f"; {of}, {_listed(parts)}"


def _because(ds: xarray.Dataset, prediction: Explained) -> str:
    """The three input tokens that gave most of it, and the one that speaks most against it, the sink left out."""
    name = measures(ds)[0]
    values = ds[name].isel(layer=0).values
    sink = sink_of(ds, name, values)
    order = [int(place) for place in np.argsort(-values, kind="stable") if place != sink and values[place] > 0]
    if not order:
        return ""
    largest, last = values[order[0]], int(values.argmin())
    best = [place for place in order[:BEST] if values[place] >= WORTH * largest]
    opposed = name == "share" and values[last] < -OPPOSED * largest and last != sink
    parts = _parts(ds, values, [*best, last] if opposed else best)
    told = _listed(parts[: len(best)])
    if name != "share":
        return f"It depends most on {told}."
    subject = f"Its lead over “{prediction.against}”" if prediction.against else "It"
    other = f"for “{prediction.against}”" if prediction.against else "against it"
    return f"{subject} comes mostly from {told}" + (f"; {parts[-1]} speaks {other}." if opposed else ".")


def _parts(ds: xarray.Dataset, values: np.ndarray, places: list[int]) -> list[str]:
    """Tokens with what they gave; those that are written alike carry their place."""
    names = [worded(str(ds["source_token"].values[place])) for place in places]
    where = [f" at {place}" if names.count(name) > 1 else "" for name, place in zip(names, places, strict=True)]
    return [f"“{name}”{at} ({number(values[place])})" for name, at, place in zip(names, where, places, strict=True)]


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1])] * (len(parts) > 1) + parts[-1:])


def _alternatives(ds: xarray.Dataset) -> list[tuple[str, float]]:
    """The best tokens; the mark of a space stays where two differ by it alone."""
    if "alternative_token" not in ds:
        return []
    tokens = [str(token) for token in ds["alternative_token"].values]
    plain = [worded(token) for token in tokens]
    names = [legible(token) if plain.count(short) > 1 else short for token, short in zip(tokens, plain, strict=True)]
    chances = ds["alternative_probability"].values.tolist() if "alternative_probability" in ds else []
    return list(zip(names, chances, strict=True)) if chances else []


def _settled(ds: xarray.Dataset) -> int | None:
    part = profile(ds)
    if part is None or part[-1] < 0.5:
        return None
    below = np.flatnonzero(part < 0.5)
    return int(ds["layer"].values[below[-1] + 1 if len(below) else 0])


def _by_span(ds: xarray.Dataset, name: str) -> xarray.DataArray:
    return ds[f"span_{name}"] if f"span_{name}" in ds else ds[name]


def _sink(sink: int | None, of_source: np.ndarray, span: int) -> str:
    if sink is None or of_source[sink] != span:
        return ""
    return f"– {SINK}" if (of_source == span).sum() == 1 else "– with the sink"


def _one_line(name: str) -> str:
    return worded(" ".join(name.split()) if name.strip() else name)
