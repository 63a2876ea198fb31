"""How numbers are sent to a page: small arrays as float32, large ones as int16 steps of each map's largest value.

Inside a file, large maps of low rank are two thin factors, and a difference of two other maps is not written at all.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot.style import SUMS

if TYPE_CHECKING:
    import xarray

DIMS = ("analysis", "layer", "head", "target", "source")
# Arrays up to this many values are kept in float32; larger ones as int16 steps of a ten-thousandth of each map's
# largest value, which a screen cannot tell apart: 200 tokens x 12 layers x 12 heads shrink from 23 MB to 8 at most.
EXACT_UP_TO = 2**16
STEPS = 10_000
FINE = 2**15 - 1  # steps of a factor: its errors add up over the rank
THIN = 4  # factors are worth it when the rank is at most this part of the tokens
DIFFERENCES = {group.names[2]: group.names[:2] for group in SUMS}  # the whole less the other part
VISIBLE = 1 / 1000  # of a map's largest value: what a difference may be off by
MISSING = -(2**15)  # NaN among int16 steps
Factors = tuple[np.ndarray, np.ndarray]
ALIGNED = 4  # JavaScript reads numbers only at offsets that are multiples of their size


def embedded(variable: xarray.DataArray) -> dict[str, Any]:
    """One variable for JSON: its bytes grouped by significance (all first, all second ones …), deflated, in base64."""
    described, arrays = _arrays(variable)
    factors = _all_factors(_maps(variable)) if described["kind"] == "int16" else None
    if factors is None:
        return described | {name: _packed(values) for name, values in arrays.items()}
    return described | {"kind": "product", "factors": [_factor(values) for values in factors]}


def exact(variable: xarray.DataArray) -> dict[str, Any]:
    """One variable for JSON with its axes as they are and every number in full: parts that add up still do."""
    values = np.ascontiguousarray(variable.values, dtype=np.float32)
    described = {"dims": list(variable.dims), "shape": list(values.shape), "signed": bool((values < 0).any())}
    return {**described, "kind": "float32", "data": _packed(values)}


def differences(ds: xarray.Dataset) -> dict[str, dict[str, Any]]:
    """The large variables that the page computes as the difference of two others, exactly enough for any screen."""
    return {
        name: described | {"kind": "difference", "of": list(operands)}
        for name, operands in DIFFERENCES.items()
        if {name, *operands} <= set(ds.data_vars)
        and (described := _arrays(ds[name])[0])["kind"] == "int16"
        and _close_enough(*(_maps(ds[operand]) for operand in (name, *operands)))
    }


def sent(variable: xarray.DataArray, start: int) -> tuple[dict[str, Any], bytes]:
    """One variable for the wire: where its bytes begin, counted from `start` on, and the bytes as they are."""
    described, arrays = _arrays(variable)
    body = b""
    for name, values in arrays.items():
        described[f"{name}_at"] = start + len(body)
        body += aligned(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    return described, body


def aligned(data: bytes, filling: bytes = b"\0") -> bytes:
    return data + filling * (-len(data) % ALIGNED)


def _close_enough(difference: np.ndarray, whole: np.ndarray, part: np.ndarray) -> bool:
    """Whether the two, rounded to steps, give the third to within what can be seen."""
    error = _largest(whole - part - difference) + (_largest(whole) + _largest(part)) / STEPS
    return bool((error <= VISIBLE * _largest(difference)).all())


def _all_factors(maps: np.ndarray) -> Factors | None:
    return None if _factors(maps[:1]) is None else _factors(maps)  # the first map nearly always decides, and quickly


def _factors(maps: np.ndarray) -> Factors | None:
    """Left and right factors of each map when all are of low rank, as effective attention is: at most a head's width.

    A sketch of every map's columns (Halko et al. 2011) spans them if the rank is low; what is left shows whether it is.
    """
    widest = maps.shape[-1] // THIN
    if maps.shape[-2] != maps.shape[-1] or not widest or not np.isfinite(maps).all():
        return None
    sketch = np.random.default_rng(0).standard_normal((maps.shape[-1], widest)).astype(np.float32)
    basis = np.linalg.qr(maps @ sketch)[0]
    left, sizes, right = np.linalg.svd(basis.mT @ maps, full_matrices=False)
    rank = max(1, int((sizes > sizes[:, :1] * 1e-6).sum(axis=-1).max()))
    roots = np.sqrt(sizes[:, :rank])
    factors = basis @ left[:, :, :rank] * roots[:, None], roots[:, :, None] * right[:, :rank]
    return factors if _close(maps, factors) else None


def _close(maps: np.ndarray, factors: Factors) -> bool:
    """Whether the factors, rounded, give the maps to within a step."""
    left, right = (_read(*_steps(values, FINE), values.shape) for values in factors)
    return bool((_largest(maps - left @ right) <= _largest(maps) / STEPS).all())


def _read(steps: np.ndarray, scale: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return (steps * scale[:, None]).reshape(shape)


def _largest(maps: np.ndarray) -> np.ndarray:
    return np.abs(maps).max(axis=(1, 2))


def _factor(values: np.ndarray) -> dict[str, Any]:
    steps, scale = _steps(values, FINE)
    return {"kind": "int16", "shape": list(values.shape), "data": _packed(steps), "scale": _packed(scale)}


def _maps(variable: xarray.DataArray) -> np.ndarray:
    values = variable.transpose(*(dim for dim in DIMS if dim in variable.dims)).values
    return values.reshape(-1, *values.shape[-2:]).astype(np.float32, copy=False)


def _arrays(variable: xarray.DataArray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    dims = [dim for dim in DIMS if dim in variable.dims]
    values = np.ascontiguousarray(variable.transpose(*dims).values, dtype=np.float32)
    described = {"dims": dims, "shape": list(values.shape), "signed": bool((values < 0).any())}
    if values.size <= EXACT_UP_TO:
        return {**described, "kind": "float32"}, {"data": values}
    steps, scale = _steps(values)
    return {**described, "kind": "int16"}, {"data": steps, "scale": scale}


def _steps(values: np.ndarray, count: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Values as whole steps, and the size of a step for each map (the two last axes are one map)."""
    flat = values.reshape(-1, values.shape[-2] * values.shape[-1])
    finite = np.isfinite(flat)
    largest = np.abs(flat).max(axis=1, where=finite, initial=0.0)
    scale = (np.where(largest > 0, largest, 1.0) / count).astype(np.float32)
    steps = np.rint(np.where(finite, flat, 0.0) / scale[:, None])
    return np.where(finite, steps, MISSING).astype("<i2"), scale


def _packed(values: np.ndarray) -> str:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    planes = np.ascontiguousarray(little.reshape(-1, 1).view(np.uint8).T)
    deflate = zlib.compressobj(level=1, strategy=zlib.Z_RLE)  # measured numbers repeat only in runs of zeros
    return base64.b64encode(deflate.compress(planes.data) + deflate.flush()).decode("ascii")
