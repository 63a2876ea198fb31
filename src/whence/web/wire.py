"""How a result travels to the browser: a header in JSON, then the arrays as plain bytes.

Four bytes say how long the header is (little-endian); arrays begin right behind it, each at the place its row of
`variables` names. A variable the browser has already is described but not sent again.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from whence.page.arrays import aligned, sent
from whence.page.payload import describe, drawn
from whence.plot import flattened

if TYPE_CHECKING:
    from collections.abc import Container

    import xarray


def packed(dataset: xarray.Dataset, have: Container[str] = ()) -> bytes:
    """The Dataset as the page reads it, without the arrays the page has."""
    dataset = flattened(dataset)
    variables, bodies, start = {}, [], 0
    for name in drawn(dataset):
        if name not in have:
            variables[name], body = sent(dataset[name], start)
            bodies.append(body)
            start += len(body)
    header = aligned(json.dumps(describe(dataset) | {"variables": variables}).encode(), b" ")
    return b"".join([struct.pack("<I", len(header)), header, *bodies])


def netcdf(dataset: xarray.Dataset) -> bytes:
    """The Dataset as a netCDF-4 file."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whence.nc"
        dataset.to_netcdf(path, engine="netcdf4")
        return path.read_bytes()
