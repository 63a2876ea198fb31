"""How numbers travel to a page: as float32 while they are few, as int16 steps of each map's largest value beyond."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

DIMS = ("method", "layer", "head", "target", "source")
# Arrays up to this many values are kept in float32; larger ones as int16 steps of a ten-thousandth of each map's
# largest value, which a screen cannot tell apart: 200 tokens x 12 layers x 12 heads shrink from 23 MB to 8 at most.
EXACT_UP_TO = 2**16
STEPS = 10_000
MISSING = -(2**15)  # NaN among int16 steps
ALIGNED = 4  # JavaScript reads numbers only from places that are multiples of their size


def embedded(variable: xarray.DataArray) -> dict[str, Any]:
    """One variable for JSON: its bytes grouped by significance (all first, all second ones …), deflated, in base64."""
    described, parts = _parts(variable)
    return described | {name: _packed(values) for name, values in parts.items()}


def sent(variable: xarray.DataArray, start: int) -> tuple[dict[str, Any], bytes]:
    """One variable for the wire: where its bytes begin, counted from `start` on, and the bytes as they are."""
    described, parts = _parts(variable)
    body = b""
    for name, values in parts.items():
        described[f"{name}_at"] = start + len(body)
        body += aligned(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    return described, body


def aligned(data: bytes, filling: bytes = b"\0") -> bytes:
    return data + filling * (-len(data) % ALIGNED)


def _parts(variable: xarray.DataArray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    dims = [dim for dim in DIMS if dim in variable.dims]
    values = np.ascontiguousarray(variable.transpose(*dims).values, dtype=np.float32)
    described = {"dims": dims, "shape": list(values.shape), "signed": bool((values < 0).any())}
    if values.size <= EXACT_UP_TO:
        return {**described, "kind": "float32"}, {"data": values}
    steps, scale = _steps(values)
    return {**described, "kind": "int16"}, {"data": steps, "scale": scale}


def _steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values as whole steps, and the size of a step for each map (the two last axes are one map)."""
    flat = values.reshape(-1, values.shape[-2] * values.shape[-1])
    finite = np.isfinite(flat)
    largest = np.abs(flat).max(axis=1, where=finite, initial=0.0)
    scale = (np.where(largest > 0, largest, 1.0) / STEPS).astype(np.float32)
    steps = np.rint(np.where(finite, flat, 0.0) / scale[:, None])
    return np.where(finite, steps, MISSING).astype("<i2"), scale


def _packed(values: np.ndarray) -> str:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    planes = np.ascontiguousarray(little.reshape(-1, 1).view(np.uint8).T)
    deflate = zlib.compressobj(level=1, strategy=zlib.Z_RLE)  # measured numbers repeat only in runs of zeros
    return base64.b64encode(deflate.compress(planes.data) + deflate.flush()).decode("ascii")
