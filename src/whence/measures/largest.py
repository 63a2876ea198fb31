"""Of each row of a map the largest sources alone: their values, where they stand, and the sum of all others."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whence.measures.registry import Variable
from whence.models.precision import reported

PLACE, REST, ERROR = "_source", "_rest", "_se"
POSITIONS = torch.int32
Row = tuple[Float[Tensor, "*r k"], Int[Tensor, "*r k"], Float[Tensor, "*r"]]


def declared(selected: Mapping[str, Variable], top: int | None) -> dict[str, Variable]:
    """The variables that there are in place of these where the `top` largest sources alone are kept."""
    if top is None:
        return dict(selected)
    kept: dict[str, Variable] = {}
    for name, variable in selected.items():
        kept |= _parts(name, variable, selected) if is_map(variable) else {name: variable}
    return kept


def is_map(variable: Variable) -> bool:
    return {"target", "source"} <= set(variable.dims)


def shortened(tensors: Mapping[str, Tensor], known: Mapping[str, Variable], top: int | None) -> dict[str, Tensor]:
    """The same with the largest entries of the maps among them; sources stand last. Standard errors are those of the
    values that are kept.
    """
    if top is None:
        return dict(tensors)
    maps = [name for name in tensors if name in known and is_map(known[name])]
    kept = {name: tensors[name] for name in tensors if name not in maps}
    for name in maps:
        if (value := _value_of(name, maps)) is None:
            kept[name], kept[name + PLACE], kept[name + REST] = largest(tensors[name], top)
    for name in maps:
        if (value := _value_of(name, maps)) is not None:
            kept[name] = tensors[name].gather(-1, kept[value + PLACE].long())
    return kept


def largest(rows: Float[Tensor, "*r s"], count: int) -> Row:
    """The entries of the largest size, with their signs, largest first; where they are; and the sum of the others.

    What was not measured is NaN, and neither large nor part of the sum, unless there is nothing else in the row.
    """
    sizes = rows.abs().nan_to_num_(nan=-1)
    places = sizes.topk(min(count, rows.shape[-1]), dim=-1).indices
    kept = rows.gather(-1, places)
    rest = sizes.copy_(rows).nan_to_num_(nan=0).scatter_(-1, places, 0)
    rest = rest.sum(dim=-1, dtype=reported(rows.dtype))
    return kept, places.to(POSITIONS), rest.masked_fill_(kept[..., 0].isnan(), torch.nan)


def _parts(name: str, whole: Variable, selected: Mapping[str, Variable]) -> dict[str, Variable]:
    dims = tuple("largest" if dim == "source" else dim for dim in whole.dims)
    kept = {name: replace(whole, dims=dims)}
    if _value_of(name, selected) is not None:
        return kept
    place = replace(whole, dims=dims, unit="position", about="the source it came from")
    rest = replace(whole, dims=dims[:-1], about=f"sum of all other sources: {whole.about}")
    return kept | {name + PLACE: _beside(place, PLACE), name + REST: _beside(rest, REST)}


def _beside(variable: Variable, ending: str) -> Variable:
    """An analysis stands beside those of the same kind."""
    if variable.analysis is None:
        return variable
    name, analysis = variable.analysis
    return replace(variable, analysis=(name + ending, analysis))


def _value_of(name: str, names: Mapping[str, Variable] | list[str]) -> str | None:
    """Whose standard error it is, among these."""
    value = name.removesuffix(ERROR)
    return value if value != name and value in names else None
