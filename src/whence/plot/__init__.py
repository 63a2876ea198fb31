"""What every picture of a Dataset says in words: its finding, its labels, its tokens made legible."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from whence.plot.flatten import flattened as flattened
from whence.plot.style import Style as Style
from whence.plot.style import style as style

if TYPE_CHECKING:
    import xarray


# Which analysis or map is shown first when there are several: the one that sees most of the block.
MIXING_ORDER = ("block_n", "attnresln_n", "attnres_n", "attn_n", "attnres_w", "attn_w")
WHOLE_MODEL = "decomposition_share"  # exact, from the input through all layers: what a picture of the flow is drawn by
SOURCE_ORDER = ("contribution", "block_n", "attnresln_n", "attnres_n", "attn_n", "attnres_w", "attn_w")
# Controls, soft hyphen, marks and overrides of direction, zero-width space and joiner, byte-order mark, surrogates.
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def legible(token: str) -> str:
    """The token with everything invisible, directional or broken written out, so that it can stand in any line."""
    shown = _INVISIBLE.sub(lambda match: f"⟨{ord(match[0]):02X}⟩", token)
    if not any(unicodedata.category(character)[0] not in "CMZ" for character in shown):
        shown = "".join("␣" if character.isspace() else f"⟨{ord(character):02X}⟩" for character in shown)
    return shown or "∅"


def mixing_analysis(ds: xarray.Dataset) -> str:
    """The mixing analysis shown first."""
    analyses = [str(analysis) for analysis in ds["analysis"].values]
    return next((analysis for analysis in MIXING_ORDER if analysis in analyses), analyses[0])


def mixed(ds: xarray.Dataset) -> tuple[str, np.ndarray]:
    """What is measured and its values (layer, target): the share of each token that came from other tokens.

    Without a mixing ratio it is the attention paid to other tokens, 1 - a_ii averaged over heads.
    """
    if "mixing" in ds:
        analysis = mixing_analysis(ds)
        values = ds["mixing"].loc[{"analysis": analysis}].transpose("layer", "target").values
        return f"share of a token's new vector that came from other tokens ({style(analysis).title})", values
    attention = ds["attention"].transpose("layer", "head", "target", "source").values
    own = _own(ds, attention).mean(axis=1)
    return "attention paid to other tokens (1 - own weight, mean of heads)", 1 - own


def _own(ds: xarray.Dataset, maps: np.ndarray) -> np.ndarray:
    """Each target's own weight, wherever it stands among the sources."""
    places = ds["target"].values if "target" in ds.indexes else np.arange(ds.sizes["target"])
    return maps[..., np.arange(len(places)), places]


def mean(values: np.ndarray, axis: int) -> np.ndarray:
    """The mean over finite values; NaN without a warning where there are none."""
    finite = np.isfinite(values)
    count = finite.sum(axis=axis)
    total = np.where(finite, values, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def finding(ds: xarray.Dataset) -> str:
    """One sentence a reader can check in the picture."""
    return contribution_finding(ds) if "contribution" in ds else mixing_finding(ds)


def contribution_finding(ds: xarray.Dataset) -> str:
    """How much of a token is still itself after the last layer."""
    last = ds["contribution"].transpose("layer", "target", "source").values[-1]
    own = float(mean(_own(ds, last), axis=0))
    return f"After layer {ds['layer'].values[-1]}, a token is still {percent(own)} itself on average"


def mixing_finding(ds: xarray.Dataset) -> str:
    """Which layer mixes most, and how much."""
    values = mixed(ds)[1] if "mixing" in ds or "attention" in ds else np.empty((0, 0))
    if not np.isfinite(values).any():
        return f"Where {ds.sizes.get('target', 0)} tokens came from"
    by_layer = mean(values, axis=1)
    most = int(np.nanargmax(by_layer))
    layer, share = ds["layer"].values[most], percent(float(by_layer[most]))
    if "mixing" in ds:
        return f"Layer {layer} mixes most: {share} of a token's new vector comes from other tokens"
    return f"Layer {layer} looks around most: {share} of a token's attention goes to other tokens"
