"""A Dataset as pictures take it: every analysis, and every label of a foreign axis, under a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.plot.style import style

if TYPE_CHECKING:
    import xarray

USUAL = frozenset({"analysis", "layer", "head", "target", "source"})
_BY_HEAD = {"layer", "head", "target"}  # a number for every head and token


def flattened(ds: xarray.Dataset) -> xarray.Dataset:
    """The analyses of norms and rollouts that are there as maps, attn_n or rollout_attn_n; mixing as it is.

    What a measure of another package has along an axis of its own is split too; of a number for every head and token
    the mean of the heads is taken.
    """
    found = _with_maps(_with_maps(ds, "norms", ""), "rollout", "rollout_")
    if "mixing" in found:
        found = found.sel(analysis=_mixed(found))
    elif "analysis" in found.coords:
        found = found.drop_vars("analysis")
    by_head = [name for name, values in found.items() if "source" not in values.dims and set(values.dims) >= _BY_HEAD]
    found = found.assign({name: found[name].mean("head", keep_attrs=True) for name in by_head})
    for axis in _foreign(found):
        for name in [str(name) for name in found.data_vars if axis in found[name].dims]:
            parts = {f"{name}_{label}": found[name].sel({axis: label}, drop=True) for label in found[axis].values}
            found = found.drop_vars(name).assign(parts)
        found = found.drop_vars(axis)
    return found


def _with_maps(ds: xarray.Dataset, name: str, prefix: str) -> xarray.Dataset:
    if name not in ds or "analysis" not in ds[name].dims:
        return ds
    parts = {f"{prefix}{label}": ds[name].sel(analysis=label, drop=True) for label in ds["analysis"].values}
    there = {key: part.assign_attrs(units=style(key).unit) for key, part in parts.items() if part.notnull().any()}
    return ds.drop_vars(name).assign(there)


def _mixed(ds: xarray.Dataset) -> xarray.DataArray:
    """The analyses that a ratio is there for."""
    others = [dim for dim in ds["mixing"].dims if dim != "analysis"]
    return ds["analysis"][ds["mixing"].notnull().any(others).values]


def _foreign(ds: xarray.Dataset) -> list[str]:
    """Axes that measures of other packages brought, with labels that name columns."""
    odd = [str(dim) for dim in ds.dims if dim not in USUAL]
    if not odd:
        return []
    from whence.measures.registry import AXES, axes  # only then: it imports torch

    known = axes()
    return [dim for dim in odd if dim in known and dim not in AXES and known[dim].kept == "columns"]
