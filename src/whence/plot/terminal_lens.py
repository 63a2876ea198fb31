"""How a read-out looks in a terminal: what each layer would say at one token, by each lens, shaded by how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from whence.plot import legible
from whence.plot.lens import TITLES
from whence.plot.palette import amount, ink_on
from whence.plot.terminal import BOLD, DIM, _closed, _cut, _short, _theme, _wrapped
from whence.plot.why import chance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import xarray

TOKEN, CHANCE, PLACE = 14, 14, 6  # cells


def picture(ds: xarray.Dataset, tokens: Sequence[int], width: int, color: bool) -> Text:
    """What every layer says at these tokens, no line wider than `width` cells; `str()` of it is plain text."""
    lines = [line for token in tokens for line in (*_one(ds.sel(token=token), width, color), Text())][:-1]
    text = Text("\n", no_wrap=True, overflow="ignore").join(_cut(line, width) for line in lines)
    return text if color else Text(text.plain, no_wrap=True, overflow="ignore")


def _one(ds: xarray.Dataset, width: int, color: bool) -> Iterator[Text]:
    yield from _wrapped(finding(ds), width, BOLD)
    columns = TOKEN + CHANCE + PLACE
    kinds = [str(kind) for kind in ds["lens"].values][: max(1, (width - 5) // (columns + 2))]
    yield Text(
        "layer  " + "  ".join(f"{TITLES[kind]:<{columns - PLACE}}{'place':>{PLACE}}" for kind in kinds), style=DIM
    )
    for layer in ds["layer"].values:
        line = Text(f"{layer:>5}")
        for kind in kinds:
            line.append("  ")
            line.append_text(_cell(ds.sel(layer=layer, lens=kind), color))
        yield line


def finding(ds: xarray.Dataset) -> str:
    """The model's own answer at a token, and from which layer on each lens says it."""
    answer = legible(str(ds["answer_token"].item()))
    sure = chance(float(ds["final_probability"]))
    said = [f"{TITLES[str(kind)]} {_known(settled(ds.sel(lens=kind)))}" for kind in ds["lens"].values]
    at = legible(str(ds["token_text"].item()))
    return f"At “{_closed(at)}” the model says “{_closed(answer)}” ({sure}); said by the {', the '.join(said)}."


def settled(ds: xarray.Dataset) -> int | None:
    """The first layer from which on the answer is the best token to the end; None where it never is."""
    first = None
    for layer, place in zip(ds["layer"].values[::-1], ds["place"].values[::-1], strict=True):
        if place != 1:
            break
        first = int(layer)
    return first


def _known(layer: int | None) -> str:
    return "never" if layer is None else f"from layer {layer} on"


def _cell(ds: xarray.Dataset, color: bool) -> Text:
    """The best token, its probability with its standard error, and the place of the model's own answer."""
    best: Any = ds.isel(candidate=0)
    probability, error = float(best["probability"]), float(best["probability_se"])
    token = _closed(_short(legible(str(best["candidate_token"].item())), TOKEN - 1))
    sure = chance(probability).replace("less than ", "<")
    if error == error and error >= 0.0005:
        sure = f"{sure.removesuffix(' %')} ± {100 * error:.{1 if error < 0.095 else 0}f} %"
    shade = amount(probability, _theme())
    style = Style(bgcolor=shade, color=ink_on(shade)) if color else Style()
    text = Text(token + " " * max(0, TOKEN - cell_len(token)), style=style)
    return text.append(f"{sure:>{CHANCE}}", style=Style()).append(f"{int(ds['place']):>{PLACE},}", style=DIM)
