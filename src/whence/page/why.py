"""What goes into the page of an explained prediction: the text, what gave how much, and what everything is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.citations import credit
from whence.page.arrays import exact
from whence.page.scene import PICTURE, scene
from whence.plot import legible
from whence.plot.palette import FURNITURE, SEQUENTIAL, THEMES, opposed
from whence.plot.stacks import layer_names, texts
from whence.plot.terms import terms
from whence.plot.why import (
    CLASS,
    CONSTANTS,
    LINE,
    OTHERS,
    SIMILARITY,
    SINK,
    VALUES,
    Explained,
    explained,
    gaps,
    in_percent,
    kind,
    measures,
    profile,
    span_names,
    worded,
)

if TYPE_CHECKING:
    import xarray

# What can be shaded; `by` says how the tokens of a span go together.
SHADES: dict[str, dict[str, Any]] = {
    "share": {
        "title": "Share",
        "by": "sum",
        "most": "What gave most to {token}, at {layer}",
        "key": "Shade: what each token's state at {layer} gave to {what}; blue for it, orange against it.",
        "meaning": "The signed part of the {value} that a token's state gave; over all tokens, with the constants, the"
        " parts add up to it.",
    },
    "dependence": {
        "title": "Dependence",
        "by": "length",
        "most": "What {token} depends on most, at {layer}",
        "key": "Shade: how much {token} would change with a small change of each token's state at {layer}.",
        "meaning": "The length of the derivative of the {chance} by a token's state.",
    },
    "carried": {
        "title": "Via the answer",
        "by": "sum",
        "most": "What {token} rests on in the prompt",
        "key": "Shade: what the prompt carries of {token} when what rests on the answer's own tokens is handed on to"
        " the prompt.",
        "meaning": "The prompt's part by size, in per cent, when what rests on the answer's own tokens is handed on to"
        " what those rested on.",
    },
}
WORDS = {
    "answer": "The answer: choose a token",
    "predictions": "The predictions: choose one",
    "text": "The text, token by token",
    "first": SINK,
    "sink": f"The {SINK} has {{value}} and is left out of the scale.",
    "at": "Dotted: where it is predicted.",
    "layer": "layer {layer}",
    "of_stack": "layer {layer} ({name})",
    "embeddings": "layer 0 (the embeddings)",
    "constants": CONSTANTS,
    "alternatives": "Best tokens",
    "depth": "Part of it that sits at {at} itself, by layer",
    "settled": "half of it from layer {layer} on",
    "heat": "Heads and feed-forwards, what each gave",
    "percent": "Per cent of all parts, by size.",
    "more": "The table has {count} more.",
    "logit": "the logit of {token}",
    "lead": "the lead of {token} over {against}",
    "source": "speaks for it",
    "own": "what is left of {at} itself",
    "against": "speaks against it",
    "sure": "Exact: with the constants, the parts add up to {what}, {value}.",
    "sunk": "The {sink} holds {value} and is drawn as a node of its own.",
    "depths": "Where its parts sit, layer by layer",
    "becomes": "{before}, predicted with {chance}, becomes {after} with {other}",
    "stays": "{after} stays what is predicted, with {other} instead of {chance}",
    "made": "What {what} is made of",
}
# what differs where no token is predicted
OTHER_WORDS: dict[str, dict[str, str]] = {
    CLASS: {
        "alternatives": OTHERS[CLASS],
        "logit": "the score of {token}",
        "at": "Dotted: where the class is read.",
        "depth": "Part of it that sits at {at}, where the class is read, by layer",
    },
    SIMILARITY: {"logit": "the similarity to {token}"},
}


def payload(ds: xarray.Dataset) -> dict[str, Any]:
    """Everything the page draws, ready for JSON."""
    predictions = explained(ds)
    shades = {name: _shade(ds, name) for name in SHADES if name in ds}
    parts = [ds.isel(predicted=place) for place in range(len(predictions))]
    return {
        "credit": credit(ds),
        "finding": predictions[0].finding.replace(" %", "\N{NO-BREAK SPACE}%"),
        "attrs": {str(name): _plain(str(value)) for name, value in ds.attrs.items() if name != PICTURE},
        "causal": int(ds.attrs.get("causal", 0)) == 1,
        "tokens": _tokens(ds),
        "texts": [{"title": title, "first": first} for title, first in texts(ds)],
        "layer_names": layer_names(ds),
        "layers": ds["layer"].values.tolist(),
        "heads": 0,
        "predicted": [_predicted(prediction, part, ds) for prediction, part in zip(predictions, parts, strict=True)],
        "spans": [_plain(name) for name in span_names(ds)],
        "shades": [{"name": name} | shade for name, shade in shades.items()],
        "styles": {name: {part: shade[part] for part in ("title", "meaning")} for name, shade in shades.items()},
        "heat": _heat(ds),
        "scene": scene(ds, "source"),
        "words": WORDS | OTHER_WORDS.get(kind(ds), {}),
        "terms": terms(),
        "palette": {
            theme: {**FURNITURE[theme], "sequential": SEQUENTIAL[theme], "diverging": opposed(theme), "measures": {}}
            for theme in THEMES
        },
        "state": f"token={max(predictions[0].position, 0)}&layer=0",
        "variables": {name: exact(_by_layer(ds, name)) for name in shades},
    }


def _shade(ds: xarray.Dataset, name: str) -> dict[str, Any]:
    value = VALUES[kind(ds)]
    meaning = SHADES[name]["meaning"].format(value=value, chance="log-probability" if "probability" in ds else value)
    return SHADES[name] | {"meaning": meaning}


def _by_layer(ds: xarray.Dataset, name: str) -> xarray.DataArray:
    """Over predictions, layers and sources; what is carried through an answer has layer 0 alone."""
    values = ds[name] if "layer" in ds[name].dims else ds[name].expand_dims("layer", 1)
    return values.transpose("predicted", "layer", "source")


def _tokens(ds: xarray.Dataset) -> list[dict[str, Any]]:
    tokens = [str(token) for token in ds["source_token"].values]
    spans = ds["source_span"].values if "source_span" in ds.coords else np.arange(len(tokens))
    columns = (tokens, ds["source_word"].values, ds["source_is_special"].values, gaps(tokens), spans)
    return [
        {
            "text": _plain(token),
            "shown": legible(token),
            "read": worded(token),
            "word": _plain(str(word)),
            "special": bool(special),
            "gap": gap,
            "line": token.endswith(LINE),
            "span": int(span),
        }
        for token, word, special, gap, span in zip(*columns, strict=True)
    ]


def _predicted(prediction: Explained, part: xarray.Dataset, ds: xarray.Dataset) -> dict[str, Any]:
    """One prediction; `place` is where its token stands in the text, -1 where it does not."""
    stands = prediction.position + 1
    answered = (
        "source_is_answer" in ds.coords and bool(ds["source_is_answer"].values[stands]) and prediction.place is not None
    )
    depth = profile(part)
    bias = part["bias"].values if "bias" in part else np.zeros(part.sizes["layer"])
    return prediction._asdict() | {
        "finding": prediction.finding.replace(" %", "\N{NO-BREAK SPACE}%"),
        "title": prediction.title.replace(" %", "\N{NO-BREAK SPACE}%"),
        "chance": prediction.chance.replace(" %", "\N{NO-BREAK SPACE}%"),
        "rank": prediction.place,
        "ids": part["alternative_token_id"].values.tolist() if "alternative_token_id" in part else [],
        "place": stands if answered else -1,
        "depth": None if depth is None else _rounded(depth),
        "bias": _rounded(bias),
        "sizes": _sizes(part, bias),
    }


def _sizes(part: xarray.Dataset, bias: np.ndarray) -> list[float | None]:
    """By layer, what the sizes of all parts add up to, where a part may be told in per cent of it."""
    rows = zip(part[measures(part)[0]].transpose("layer", "source").values, bias, strict=True)
    if "share" not in part:
        return [None] * len(bias)
    return [
        float(abs(row).sum() + abs(constant)) if in_percent(row, float(constant)) else None for row, constant in rows
    ]


def _heat(ds: xarray.Dataset) -> dict[str, Any] | None:
    """By prediction, block and component, without what the residual passes on."""
    if "component_share" not in ds:
        return None
    values = ds["component_share"].sum("source").drop_sel(component="residual")
    values = values.transpose("predicted", "block", "component")
    return {
        "blocks": values["block"].values.tolist(),
        "components": [str(name) for name in values["component"].values],
        "values": [[_rounded(row) for row in rows] for rows in values.values],
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
