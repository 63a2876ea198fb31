"""An encoder-decoder in pictures: its two texts side by side, what they are called, and who comes from whom by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from whence.errors import BadInput
from whence.plot.flatten import flattened
from whence.plot.style import style
from whence.plot.why import gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray

ENCODER, DECODER, CROSS = "encoder", "decoder", "cross"
TITLES = {ENCODER: "Source", DECODER: "Answer"}
STACK = "source_stack"
# by which map an answer is laid beside its source, best first; then by any whose parts have one sign
ALIGNED = ("contribution", "decomposition_share", "alti", "attention")
ERROR = "_se"  # behind the name of what it is of
Word = tuple[int, int]  # the places of its first token, and of the one behind its last


def is_tree(ds: Any) -> TypeGuard[xarray.DataTree]:
    """Whether this is what whence.measure gives of an encoder-decoder."""
    return {ENCODER, DECODER, CROSS} <= set(getattr(ds, "children", ()))


def joined(tree: xarray.DataTree) -> xarray.Dataset:
    """One Dataset whose sources are the tokens of both texts, and whose targets are those of the answer.

    A map is /cross and /decoder side by side, so that a row of contributions sums to one; a row of either attention
    does so by itself. What knows no sources is the decoder's.
    """
    import xarray

    encoder, decoder, cross = (tree[name].to_dataset() for name in (ENCODER, DECODER, CROSS))
    border = encoder.sizes["target"]
    data: dict[str, Any] = {}
    for name, values in decoder.data_vars.items():
        if "source" in values.dims:
            parts = [cross[name], values]
            data[str(name)] = values.dims, np.concatenate([part.transpose(*values.dims) for part in parts], axis=-1)
        elif "target" in values.dims:
            data[str(name)] = values.dims, values.values
    attributes = {name: decoder[name].attrs for name in data}
    kept = {name: decoder[name] for name in ("layer", "head", "analysis") if name in decoder.coords}
    together = xarray.Dataset(data, kept | _labels(encoder, decoder), tree.attrs)
    for name, about in attributes.items():
        together[name].attrs = about
    return together.assign_coords(target=decoder["target"].values + border)


def _labels(encoder: xarray.Dataset, decoder: xarray.Dataset) -> dict[str, Any]:
    """What is known of the tokens of both texts, and of the targets."""
    axis = "source" if "source" in decoder.dims else "target"
    names = [str(name).removeprefix("target_") for name in decoder.coords if str(name).startswith("target_")]
    both = {name: (encoder[f"target_{name}"], decoder[f"{axis}_{name}"]) for name in names}
    labels: dict[str, Any] = {f"source_{name}": ("source", np.concatenate(parts)) for name, parts in both.items()}
    counts = encoder.sizes["target"], decoder.sizes[axis]
    labels["source"], labels[STACK] = np.arange(sum(counts)), ("source", np.repeat((ENCODER, DECODER), counts))
    return labels | {f"target_{name}": ("target", decoder[f"target_{name}"].values) for name in names}


def texts(ds: xarray.Dataset) -> list[tuple[str, int]]:
    """What each text is called, and the place of its first token; nothing where there is one text."""
    if STACK not in ds.coords:
        return []
    names = ds[STACK].values.tolist()
    return [(TITLES[stack], names.index(stack)) for stack in dict.fromkeys(names)]


def layer_names(ds: xarray.Dataset) -> list[str]:
    """The layers of a prediction by their stack: 0, encoder 1, encoder 2, decoder 1."""
    names = ds["layer_stack"].values.tolist() if "layer_stack" in ds.coords else []
    return [
        f"{stack} {place - names.index(stack) + (stack == DECODER)}" if place else "0"
        for place, stack in enumerate(names)
    ]


def words(ds: xarray.Dataset, axis: str = "source") -> list[Word]:
    """The words of both texts, or of one; a token of no word, as a special one, stands for itself."""
    named = [str(word) for word in ds[f"{axis}_word"].values]
    stacks = ds[STACK].values.tolist() if axis == "source" and STACK in ds.coords else [""] * len(named)
    apart = gaps([str(token) for token in ds[f"{axis}_token"].values])
    begins = [
        place == 0 or not word or word != named[place - 1] or stacks[place] != stacks[place - 1] or apart[place]
        for place, word in enumerate(named)
    ]
    firsts = [place for place, begin in enumerate(begins) if begin]
    return list(zip(firsts, [*firsts[1:], len(named)], strict=True))


def alignments(ds: xarray.Dataset) -> list[str]:
    """The maps by which an answer can be laid beside its source, best first."""
    names = [str(name) for name, values in ds.items() if {"layer", "target", "source"} <= set(values.dims)]
    alike = [name for name in names if style(name).unit == "share" and not name.endswith(ERROR)]
    alike = [name for name in alike if float(ds[name].min()) >= 0]
    return sorted(alike, key=lambda name: ALIGNED.index(name) if name in ALIGNED else len(ALIGNED))


def aligned(tree: xarray.DataTree, name: str | None, layer: int | None) -> tuple[str, int, np.ndarray]:
    """By which map, at which layer, and for every word of the answer its share from every word of the source.

    Shares of a source word's pieces are added, those of the answer's pieces averaged; heads are averaged, too.
    """
    cross = flattened(tree[CROSS].to_dataset())
    maps = alignments(cross)
    if not maps or (name is not None and name not in maps):
        raise BadInput(
            f"An answer is laid beside its source by shares, and /cross has no {name or 'map of them'!r}; there are:"
            f" {', '.join(maps) or 'none, so measure contribution or attention'}."
        )
    name = name or maps[0]
    layers = cross["layer"].values.tolist()
    if layer is not None and layer not in layers:
        raise BadInput(f"There is no layer {layer} in /cross; there are: {', '.join(map(str, layers))}.")
    values = cross[name].sel(layer=layer or layers[-1])
    values = values.mean("head") if "head" in values.dims else values
    rows = values.transpose("target", "source").values
    return name, layer or layers[-1], by_word(rows, words(cross, "target"), words(cross))


def by_word(values: np.ndarray, targets: Sequence[Word], sources: Sequence[Word]) -> np.ndarray:
    """Sums over the pieces of source words, means over those of target words."""
    summed = np.stack([values[:, first:end].sum(axis=1) for first, end in sources], axis=1)
    return np.stack([summed[first:end].mean(axis=0) for first, end in targets])
