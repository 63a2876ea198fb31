"""A picture that stays when no script runs: the text shaded by where one token came from, as SVG and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

import numpy as np

from whence.plot import flattened, legible, style
from whence.plot.palette import FURNITURE, amount, ink_on, signed
from whence.plot.why import explained, is_explained, measures

if TYPE_CHECKING:
    import xarray

WIDTH, MARGIN, LETTER, LINE, CHIP = 760, 16.0, 7.3, 40, 20  # pixels; a letter of 12 pixels of a monospaced face
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MOST = 400  # tokens that are drawn
NAMED = 3  # sources in the sentence above


class Still(NamedTuple):
    """What is drawn: a finding, what was measured, the tokens and what each of them has."""

    finding: str
    about: str
    tokens: list[str]
    values: np.ndarray


def of(ds: xarray.Dataset, flow: str = "") -> Still:
    """Of an explained prediction its parts; else where the mask, or the last token of the text, goes back to."""
    return _why(ds) if is_explained(ds) else _flow(flattened(ds), flow)


def _why(ds: xarray.Dataset) -> Still:
    name, first = measures(ds)[0], explained(ds)[0]
    values = ds[name].isel(predicted=0, layer=0).values.astype(float)
    tokens = [legible(str(token)) for token in ds["source_token"].values]
    return Still(first.finding, f"Shade: {name} of each input token. {_model(ds)}", tokens, values)


def _flow(ds: xarray.Dataset, flow: str) -> Still:
    values = ds[flow].mean("head") if "head" in ds[flow].dims else ds[flow]
    last = values.isel(layer=-1).transpose("target", "source").values.astype(float)
    tokens = [legible(str(token)) for token in ds["target_token"].values]
    chosen = _opening(tokens, ds["target_is_special"].values)
    row = np.nan_to_num(last[chosen])
    if (row >= 0).all() and row.sum() > 0:
        row = row / row.sum()
    parts = [
        f"“{tokens[source]}” ({100 * row[source]:.0f} %)" for source in np.argsort(-row)[:NAMED] if row[source] > 0
    ]
    told = f"“{tokens[chosen]}” in layer {ds['layer'].values[-1]} goes back to {', '.join(parts) or 'nothing'}"
    return Still(told, f"Shade: sources by {style(flow).title}. {_model(ds)}", tokens, row)


def _opening(tokens: list[str], special: np.ndarray) -> int:
    masks = [place for place, token in enumerate(tokens) if token.lower() in ("[mask]", "<mask>")]
    return (masks or np.flatnonzero(~special.astype(bool)).tolist()[::-1] or [0])[0]


def _model(ds: xarray.Dataset) -> str:
    return str(ds.attrs.get("model", ""))


def in_words(still: Still) -> str:
    """The same as plain text."""
    shares = [f"{token} {100 * value:.1f}" for token, value in zip(still.tokens, still.values, strict=True)]
    return f"{still.finding}\n{still.about}\n{' · '.join(shares[:MOST])}"


def as_svg(still: Still) -> str:
    """The same as SVG on white, its text as text."""
    colors, both = FURNITURE["light"], bool((still.values < 0).any())
    end = float(np.abs(still.values).max()) or 1.0
    left, top, parts = MARGIN, 74, []
    for token, value in zip(still.tokens[:MOST], still.values, strict=False):
        wide = _wide(token) + 12
        if left + wide > WIDTH - MARGIN and left > MARGIN:
            left, top = MARGIN, top + LINE
        fill = (signed if both else amount)(value / end, "light")
        parts.append(f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{CHIP}" rx="4" fill="{fill}"/>')
        middle, face = left + wide / 2, f'text-anchor="middle" font-family="{MONO}"'
        parts.append(_text(middle, top + 14, token, 12, ink_on(fill), face))
        number = f"{value:.2f}" if both else f"{100 * value:.0f} %"
        parts.append(_text(middle, top + 31, number, 9, colors["muted"], 'text-anchor="middle"'))
        left += wide + 5
    height = top + LINE + 16
    head = _text(MARGIN, 30, still.finding, 15, colors["ink"], 'font-weight="600"')
    about = _text(MARGIN, 52, still.about, 12, colors["muted"])
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    paper = f'<rect width="{WIDTH}" height="{height}" fill="{colors["paper"]}"/>'
    body = "".join([paper, head, about, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{SANS}">{body}</svg>'


def _text(x: float, y: int, text: str, size: int, fill: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{fill}" {more}>{escape(text)}</text>'


def _wide(token: str) -> float:
    return LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in token)


def bundle(still: Still) -> dict[str, Any]:
    """Both, under the types by which a notebook keeps them."""
    return {"image/svg+xml": as_svg(still), "text/plain": in_words(still)}
