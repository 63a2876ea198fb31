"""The affine map x W + b of a linear layer: its weights or, where something is wrapped around them (an adapter), its
output for every unit vector.

A wrapper is read again whenever it is needed, so its current state counts: which adapters are active, merged,
disabled or trained further. Whatever is read is compared with the module's own output.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from whence.errors import Unsupported
from whence.models.pieces import held_whole
from whence.models.precision import product, unpacked

PLAIN = (nn.Linear.forward, Conv1D.forward)
STATE = ("_disable_adapters", "_active_adapter", "merged_adapters", "scaling")  # of a layer with adapters (PEFT 0.21)
MERGE = "merge the adapter first (PEFT: PeftModel.from_pretrained(model, adapter).merge_and_unload())"
PROBES = 4  # random vectors on which a map has to agree with its module
AGREE = 1e-5  # relative to the size of a dimension: what rounding in float32 explains


@dataclass(frozen=True)
class Affine:
    """x W + b, with W laid out input x output."""

    weight: Float[Tensor, "i o"]
    bias: Float[Tensor, " o"] | None

    def __call__(self, states: Float[Tensor, "*_ i"]) -> Float[Tensor, "*_ o"]:
        out = product(states, self.weight)
        return out if self.bias is None else out + self.bias

    def to(self, dtype: torch.dtype) -> "Affine":
        return Affine(self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype))


def read_affine(module: nn.Module) -> Affine:
    """The map of a Linear, a Conv1D, or a wrapper around one; refused where that is not affine."""
    with held_whole(module):
        return _read(module)


def _read(module: nn.Module) -> Affine:
    if is_plain(module):
        return _stored(module)
    affine = _adapted(module)
    if affine is None or not _agrees(affine, module):
        affine = _probed(module)
    dtype = _weights(module).dtype
    if affine is None:
        raise Unsupported(
            f"{type(module).__name__} stands where a linear layer is expected and is no affine map of what it reads;"
            f" {MERGE if dtype.is_floating_point else 'load the model unquantised'}."
        )
    return affine.to(dtype) if dtype.is_floating_point else affine  # quantised weights, as they work out


def is_plain(module: nn.Module) -> bool:
    """Whether the layer computes what its class does with the weights it shows (also parametrized ones)."""
    return type(module).forward in PLAIN


def outermost(linear: nn.Module, parents: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """The linear layer, or the outermost wrapper that adds weights and is an affine map of its one input."""
    parent = parents.get(linear)
    if parent is None or not wraps(parent, linear) or not is_affine(parent):
        return linear
    return outermost(parent, parents)


def wraps(parent: nn.Module, linear: nn.Module) -> bool:
    """Whether it could be an adapter around the linear layer: it takes one named argument and adds weights."""
    return _takes_one(parent) and len(list(parent.parameters())) > len(list(linear.parameters()))


def adapters(model: nn.Module) -> list[tuple[object, ...]]:
    """The state of a model's adapters (PEFT) beside its weights: active, merged or disabled, and scaling."""
    peft = sys.modules.get("peft.tuners.tuners_utils")
    if peft is None:
        return []
    layers = [(name, vars(part)) for name, part in model.named_modules() if isinstance(part, peft.BaseTunerLayer)]
    return [(name, *(str(settings.get(setting)) for setting in STATE)) for name, settings in layers]


def _stored(module: Any) -> Affine:
    """GPT-2's Conv1D keeps its weights transposed."""
    weight = unpacked(module.weight)
    weight = weight if isinstance(module, Conv1D) else weight.T
    return Affine(weight.detach(), None if module.bias is None else module.bias.detach())


def _adapted(module: Any) -> Affine | None:
    """PEFT's LoRA by its definition, W + sum s A B, which is much faster than probing; None for anything else."""
    peft = sys.modules.get("peft.tuners.lora.layer")
    if peft is None or not isinstance(module, peft.LoraLayer) or not is_plain(module.get_base_layer()):
        return None
    base = _stored(module.get_base_layer())
    weight = _precise(base.weight)
    active = [] if module.merged or module.disable_adapters else module.active_adapters
    for name in set(active) & set(module.lora_A):
        down, up = (_precise(part[name].weight.detach()) for part in (module.lora_A, module.lora_B))
        weight = weight + module.scaling[name] * (down.T @ up.T)
    return Affine(weight, None if base.bias is None else _precise(base.bias))


def _probed(module: nn.Module) -> Affine | None:
    """The map from the module's outputs for zero and every unit vector; None where it is not affine."""
    like = _precise(_weights(module))
    units = torch.eye(_width(module), dtype=like.dtype, device=like.device)
    try:
        zero = _response(module, torch.zeros_like(units[:1]))[0]
        affine = Affine(_response(module, units) - zero, zero if bool(zero.any()) else None)
        return affine if _agrees(affine, module) else None
    except (RuntimeError, TypeError):  # it does not read single vectors
        return None


def _agrees(affine: Affine, module: nn.Module) -> bool:
    probes = _probes(module)
    outputs = _response(module, probes)
    return outputs.shape[-1] == affine.weight.shape[1] and _is_rounding(affine(probes) - outputs, outputs)


def is_affine(module: nn.Module) -> bool:
    """Whether f(x + y) + f(0) = f(x) + f(y) for random vectors."""
    with held_whole(module):
        return _adds_up(module)


def _adds_up(module: nn.Module) -> bool:
    first, second = _probes(module).chunk(2)
    try:
        outputs = _response(module, torch.cat([first, second, first + second, torch.zeros_like(first)]))
    except (RuntimeError, TypeError):
        return False
    of_first, of_second, of_sum, of_zero = outputs.chunk(4)
    return _is_rounding(of_sum + of_zero - of_first - of_second, outputs)


def _is_rounding(difference: Float[Tensor, "k o"], outputs: Float[Tensor, "n o"]) -> bool:
    """Every dimension is judged by its own size, so that a huge one hides no error of the others."""
    return bool((difference.abs().amax(dim=0) <= AGREE * outputs.abs().amax(dim=0)).all())


def _response(module: nn.Module, states: Float[Tensor, "k i"]) -> Float[Tensor, "k o"]:
    """The module's output in eval mode and in the precision of the states, given as a sentence of k tokens."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    widened = {name: tensor.to(states) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    with torch.no_grad(), _evaluating(module), torch.autocast(states.device.type, enabled=False):
        output = functional_call(module, widened, (states[None],))
    if not isinstance(output, Tensor) or output.ndim != 3:
        raise TypeError(f"{type(module).__name__} gives more than one state a token")
    return output[0]


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _probes(module: nn.Module) -> Float[Tensor, "k i"]:
    vectors = torch.randn(PROBES, _width(module), generator=torch.Generator().manual_seed(0))
    return vectors.to(_precise(_weights(module)))


def _linears(module: nn.Module) -> list[Any]:
    return [part for part in module.modules() if isinstance(part, nn.Linear | Conv1D)]


def _weights(module: nn.Module) -> Tensor:
    """The weights of the largest linear layer in it, which is the one that the others adapt."""
    weights = [part.weight.detach() for part in _linears(module)]
    if not weights:
        raise Unsupported(f"{type(module).__name__} stands where a linear layer is expected, and none is in it.")
    return max(weights, key=Tensor.numel)


def _width(module: nn.Module) -> int:
    largest = max(_linears(module), key=lambda part: part.weight.numel())
    return int(largest.weight.shape[0] if isinstance(largest, Conv1D) else largest.in_features)


def _takes_one(module: nn.Module) -> bool:
    """Whether it takes one named argument; attention and blocks take more."""
    named = [parameter for parameter in inspect.signature(module.forward).parameters.values() if parameter.kind < 2]
    return len(named) == 1


def _precise(tensor: Tensor) -> Tensor:
    """In float32, or float64 as it is."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
