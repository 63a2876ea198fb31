"""How a picture or a sound looks in a terminal: patches as half-blocks, frames as a line of bars, or plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.style import Style
from rich.text import Text

from .palette import amount, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray

    from .palette import Theme

HALF, BARS = "▀", "▁▂▃▄▅▆▇█"
TALLEST, WIDEST = 32, 64  # cells of a grid, two of them to a line
DIM = Style(dim=True)


def in_scene(ds: xarray.Dataset, axis: str) -> np.ndarray:
    """Which tokens stand for a patch or a frame."""
    count = ds.sizes[axis]
    if f"{axis}_row" in ds.coords:
        return np.asarray(ds[f"{axis}_row"].values >= 0)
    return np.full(count, f"{axis}_start" in ds.coords)


def grids(
    ds: xarray.Dataset, axis: str, values: np.ndarray, end: float, width: int, theme: Theme | None
) -> Iterator[Text]:
    """The values of patches or frames, no line wider than `width`; without a theme as numbers in per cent of `end`."""
    if f"{axis}_row" not in ds.coords:
        yield from _bars(ds, axis, values, end, width, theme)
        return
    rows, columns = ds[f"{axis}_row"].values, ds[f"{axis}_column"].values
    of = ds[f"{axis}_picture"].values if f"{axis}_picture" in ds.coords else np.where(rows < 0, -1, 0)
    for number in range(int(of.max()) + 1):
        here = of == number
        cells = np.full((rows[here].max() + 1, columns[here].max() + 1), np.nan)
        cells[rows[here], columns[here]] = values[here]
        yield from [Text()] if number else []
        yield from _numbers(cells, end, width) if theme is None else _halves(cells, end, width, theme)


def _halves(cells: np.ndarray, end: float, width: int, theme: Theme) -> Iterator[Text]:
    """A patch is a square of one half-block, or of several where there is room."""
    side = max(min(TALLEST // cells.shape[0], min(width, WIDEST) // cells.shape[1]), 1)
    if cells.shape[1] > width:
        yield Text(f"{cells.shape[1]} patches in a row do not fit; the page shows them.", style=DIM)
        return
    shown = cells.repeat(side, axis=0).repeat(side, axis=1)
    if len(shown) % 2:
        shown = np.concatenate([shown, np.full((1, shown.shape[1]), np.nan)])
    both = bool((cells < 0).any())
    for upper, lower in zip(shown[::2], shown[1::2], strict=True):
        line = Text()
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            line.append(HALF, Style(color=_color(above, end, both, theme), bgcolor=_color(below, end, both, theme)))
        yield line


def _color(value: float, end: float, both: bool, theme: Theme) -> str | None:
    if not np.isfinite(value):
        return None
    return signed(value / end, theme) if both else amount(value / end, theme)


def _numbers(cells: np.ndarray, end: float, width: int) -> Iterator[Text]:
    """In per cent of the end of the scale, which is the same for all."""
    shown = np.round(100 * cells / end)
    wide = max(len(f"{value:.0f}") for value in shown.ravel().tolist()) + 1
    if wide * cells.shape[1] > width:
        yield Text(f"{cells.shape[1]} patches in a row do not fit; the page shows them.", style=DIM)
        return
    for row in shown.tolist():
        yield Text("".join(f"{value:.0f}".replace("-", "−").rjust(wide) for value in row))


def _bars(
    ds: xarray.Dataset, axis: str, values: np.ndarray, end: float, width: int, theme: Theme | None
) -> Iterator[Text]:
    """Along time, of several frames in one cell the largest; what is negative is drawn in its own colour."""
    last = float(ds[f"{axis}_end"].values[-1])
    cells = [part[abs(part).argmax()] for part in np.array_split(values, min(width, len(values)))]
    line = Text()
    for value in cells:
        height = BARS[min(int(abs(value) / end * len(BARS)), len(BARS) - 1)]
        line.append(height if value >= 0 or theme else "▽", Style() if theme is None else _ink(float(value), theme))
    yield line
    closing = f"{last:.2f} s"
    yield Text(f"0{closing:>{max(len(cells) - 1, len(closing))}}", style=DIM)


def _ink(value: float, theme: Theme) -> Style:
    return Style(color=signed(0.75 if value >= 0 else -0.75, theme))
