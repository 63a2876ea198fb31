"""The value maps of a model, x -> x W_V + b_V, found by watching it, and else by probing.

Where one linear layer reads what the attention reads and gives just its values, its weights are the map. Otherwise each
attention is fed the unit vectors, which works whatever the weights are called and however they are stored: fused with
queries and keys, transposed, shared among heads or layers; it takes a pass of as many tokens as the model is wide.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from whence.errors import Unsupported
from whence.models.affine import read_affine
from whence.models.agreement import apart
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.capture import borrowed, hearing, reader, run
from whence.models.hooks import here
from whence.models.locate import probe
from whence.models.pieces import device_of
from whence.models.verify import LIMITS
from whence.models.weights import Affine

LENGTH = 16  # tokens of a row of unit vectors: any model has room for that many


@dataclass(frozen=True)
class ValueMaps:
    """One map per layer, read when it is asked for: together they may be a tenth of a model."""

    read: tuple[Callable[[], Affine], ...]

    def __len__(self) -> int:
        return len(self.read)

    def __getitem__(self, place: int) -> Affine:
        return self.read[place]()

    def __iter__(self) -> Iterator[Affine]:
        return (read() for read in self.read)


def value_maps(anatomy: Anatomy) -> ValueMaps:
    """One map per layer, from what the attention reads to the values of all groups of heads, m x (g d)."""
    if anatomy.outside is not None:
        return ValueMaps(tuple(partial(anatomy.outside.values, block) for block in anatomy.blocks))
    if anatomy.encoder is not None:
        return _of_decoder(anatomy, 0)
    attentions = _attentions(anatomy)
    linear = _linear(anatomy, attentions)
    layers = [layer for layer in linear if layer is not None]
    if layers and len(layers) == len(linear):
        return ValueMaps(tuple(partial(read_affine, layer) for layer in layers))
    return ValueMaps(tuple(partial(_as_it_is, affine) for affine in _probed(anatomy, attentions)))


def cross_value_maps(anatomy: Anatomy) -> ValueMaps:
    """The same of the attention to an encoder, from what the encoder gives."""
    return _of_decoder(anatomy, 1)


def _of_decoder(anatomy: Anatomy, place: int) -> ValueMaps:
    """Its blocks attend twice: to their own tokens, and to the encoder's."""
    linear = _linear(anatomy, _attentions(anatomy) & set(anatomy.stack.modules()))[place::2]
    layers = [layer for layer in linear if layer is not None]
    if len(layers) != anatomy.layers:
        raise Unsupported(f"The values of {type(anatomy.model).__name__} are not given by one linear layer each.")
    return ValueMaps(tuple(partial(read_affine, layer) for layer in layers))


def _as_it_is(affine: Affine) -> Affine:
    return affine


def _linear(anatomy: Anatomy, attentions: set[nn.Module]) -> list[nn.Linear | None]:
    """For each attention in a pass over a few ordinary tokens, the one layer that gave its values, or None."""
    reads, layers, maps = dict[nn.Module, Tensor](), list[tuple[nn.Linear, Tensor, Tensor]](), list[nn.Linear | None]()

    def begin(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        reads[module] = _sources(args, kwargs)
        layers.clear()

    def heard(module: nn.Module, _: Any, values: Tensor, *__: Any) -> None:
        if module not in attentions:
            return
        rows = rearrange(values, "b g s d -> b s (g d)")
        same = [
            layer
            for layer, read, output in layers
            if read is reads.get(module) and output.shape == rows.shape and torch.equal(output, rows)
        ]
        maps.append(same[0] if len(same) == 1 else None)

    with ExitStack() as hooks:
        for module in attentions:
            hooks.callback(module.register_forward_pre_hook(here(begin), with_kwargs=True).remove)
            for layer in module.modules():
                if type(layer) is nn.Linear:
                    note = here(lambda layer, args, output: layers.append((layer, args[0], output)))
                    hooks.callback(layer.register_forward_hook(note).remove)
        with borrowed(anatomy.model, anatomy.seam), torch.no_grad(), hearing(heard):
            _run(anatomy)
    return maps


def _sources(args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """What an attention makes its values of: an encoder's states, or else its own."""
    for name in ("key_value_states", "encoder_hidden_states"):  # the second is UMT5's
        if kwargs.get(name) is not None:
            return kwargs[name]
    return args[0] if args else kwargs["hidden_states"]


def _probed(anatomy: Anatomy, attentions: set[nn.Module]) -> list[Affine]:
    units, recorded = _units(anatomy), list[Tensor]()
    fed = _fed(attentions, units)
    with (
        borrowed(anatomy.model, anatomy.seam),
        torch.no_grad(),
        fed,
        # a copy: where queries, keys and values are one tensor, that would be kept
        hearing(lambda _, __, values, *___: recorded.append(values.clone())),
    ):
        run(anatomy.stack, _dummy(anatomy))
    return [_read(anatomy, values, units) for values in recorded]


def _attentions(anatomy: Anatomy) -> set[nn.Module]:
    """The modules that attend in a pass over a few ordinary tokens."""
    modules: set[nn.Module] = set()
    with borrowed(anatomy.model, anatomy.seam), torch.no_grad(), hearing(lambda module, *_: modules.add(module)):
        _run(anatomy)
    return modules


def _run(anatomy: Anatomy) -> None:
    batch = probe(anatomy.model)
    run(anatomy.stack if batch.split is None else reader(anatomy, batch), batch)


@contextmanager
def _fed(modules: set[nn.Module], states: Float[Tensor, "b s m"]) -> Iterator[None]:
    """Inside, every module reads these states instead of its own."""

    def replace(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if args:
            return (states, *args[1:]), kwargs
        return args, kwargs | {"hidden_states": states}

    with ExitStack() as hooks:
        for module in modules:
            hooks.callback(module.register_forward_pre_hook(here(replace), with_kwargs=True).remove)
        yield


def _units(anatomy: Anatomy) -> Float[Tensor, "b s m"]:
    """The zero vector, the unit vectors, random ones to check by, laid out over batch and tokens."""
    like = next(anatomy.owner.parameters())
    units = torch.randn(_rows(anatomy) * LENGTH, anatomy.width, generator=torch.Generator().manual_seed(0))
    units[: anatomy.width + 1] = 0
    units[1 : anatomy.width + 1].fill_diagonal_(1)
    units = units.to(device_of(anatomy.owner), like.dtype)
    return rearrange(units, "(b s) m -> b s m", s=LENGTH)


def _dummy(anatomy: Anatomy) -> Batch:
    ids = probe(anatomy.model, LENGTH).ids.expand(_rows(anatomy), -1)
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))


def _rows(anatomy: Anatomy) -> int:
    return (anatomy.width + 1) // LENGTH + 1


def _read(anatomy: Anatomy, values: Float[Tensor, "b g s d"], units: Float[Tensor, "b s m"]) -> Affine:
    """The map that gave these values, refused when it is not affine after all."""
    rows, width = rearrange(values, "b g s d -> (b s) (g d)"), anatomy.width
    affine = Affine(rows[1 : width + 1] - rows[0], rows[0])
    random, expected = rearrange(units, "b s m -> (b s) m")[width + 1 :], rows[width + 1 :]
    if apart(random @ affine.weight, expected - rows[0]) > LIMITS[rows.dtype]:  # a large bias would hide the rest
        raise Unsupported(f"The values of the family {anatomy.family!r} are no affine map of what its attention reads.")
    return affine
