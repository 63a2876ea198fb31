"""A Dataset as pictures need it: every analysis, and every label of a foreign axis, as a variable of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.plot.style import style

if TYPE_CHECKING:
    import xarray

USUAL = frozenset({"analysis", "layer", "head", "target", "source"})
_BY_HEAD = {"layer", "head", "target"}  # a number for every head and token


def flattened(ds: xarray.Dataset) -> xarray.Dataset:
    """The measured analyses of norms and rollouts as maps, attn_n or rollout_attn_n; mixing stays as it is.

    Variables of other packages are split along their own axes, too; a number for every head and token is averaged over
    heads.
    """
    flat = _with_maps(_with_maps(ds, "norms", ""), "rollout", "rollout_")
    if "mixing" in flat:
        flat = flat.sel(analysis=_mixed(flat))
    elif "analysis" in flat.coords:
        flat = flat.drop_vars("analysis")
    by_head = [name for name, values in flat.items() if "source" not in values.dims and set(values.dims) >= _BY_HEAD]
    flat = flat.assign({name: flat[name].mean("head", keep_attrs=True) for name in by_head})
    for axis in _foreign(flat):
        for name in [str(name) for name in flat.data_vars if axis in flat[name].dims]:
            split = {f"{name}_{label}": flat[name].sel({axis: label}, drop=True) for label in flat[axis].values}
            flat = flat.drop_vars(name).assign(split)
        flat = flat.drop_vars(axis)
    return flat


def _with_maps(ds: xarray.Dataset, name: str, prefix: str) -> xarray.Dataset:
    if name not in ds or "analysis" not in ds[name].dims:
        return ds
    maps = {f"{prefix}{label}": ds[name].sel(analysis=label, drop=True) for label in ds["analysis"].values}
    known = {key: array.assign_attrs(units=style(key).unit) for key, array in maps.items() if array.notnull().any()}
    return ds.drop_vars(name).assign(known)


def _mixed(ds: xarray.Dataset) -> xarray.DataArray:
    """The analyses that have a mixing ratio."""
    dims = [dim for dim in ds["mixing"].dims if dim != "analysis"]
    return ds["analysis"][ds["mixing"].notnull().any(dims).values]


def _foreign(ds: xarray.Dataset) -> list[str]:
    """Axes of other packages' measures, with labels that name columns."""
    odd = [str(dim) for dim in ds.dims if dim not in USUAL]
    if not odd:
        return []
    from whence.measures.registry import AXES, axes  # only then: it imports torch

    registered = axes()
    return [dim for dim in odd if dim in registered and dim not in AXES and registered[dim].kept == "columns"]
