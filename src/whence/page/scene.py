"""What the tokens of a picture or a sound are drawn over: grids of patches with their pictures, or an axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

PICTURE = "picture"  # the attribute with pictures as data URIs, one per line, and the coordinate that counts them
WORDS = {
    "picture": "The picture, patch by patch",
    "read": "as the model reads it",
    "sound": "The sound, frame by frame",
    "seconds": "seconds",
}


def scene(ds: xarray.Dataset, axis: str) -> dict[str, Any] | None:
    """None where tokens are those of a text alone. Every token has its cell, (picture, row, column), or its span of
    time; None where it stands for no part of what is drawn.
    """
    if f"{axis}_row" in ds.coords:
        return _pictures(ds, axis)
    if f"{axis}_start" in ds.coords:
        spans = zip(ds[f"{axis}_start"].values.tolist(), ds[f"{axis}_end"].values.tolist(), strict=True)
        return {"kind": "sound", "words": WORDS, "spans": [list(span) for span in spans]}
    return None


def _pictures(ds: xarray.Dataset, axis: str) -> dict[str, Any]:
    rows, columns = (ds[f"{axis}_{name}"].values for name in ("row", "column"))
    of = ds[f"{axis}_{PICTURE}"].values if f"{axis}_{PICTURE}" in ds.coords else np.where(rows < 0, -1, 0)
    images = [line for line in str(ds.attrs.get(PICTURE, "")).split("\n") if line]
    cells = zip(of.tolist(), rows.tolist(), columns.tolist(), strict=True)
    return {
        "kind": "picture",
        "words": WORDS,
        "cells": [None if row < 0 else [picture, row, column] for picture, row, column in cells],
        "pictures": [
            {
                "rows": int(rows[of == number].max()) + 1,
                "columns": int(columns[of == number].max()) + 1,
                "image": images[number] if number < len(images) else "",
            }
            for number in range(int(of.max()) + 1)
        ],
    }
