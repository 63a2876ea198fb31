"""Two devices that are not there: every tensor remembers its own, and one operation on two of them is an error."""

from typing import Any

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)
HOST = torch.device("cpu")
DEVICE, COPIES = Tensor.device.__get__, {"copy_", "__setitem__"}
ACROSS = {*COPIES, "grad"}


class TwoDevices(TorchFunctionMode):
    """Tensors made without a device are on the host; what `torch.func` wraps is on none."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == DEVICE:
            return _place(args[0]) or HOST
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        name = getattr(func, "__name__", "")
        if name in ("to", "cpu"):
            return _moved(func, args, kwargs)
        target = kwargs.pop("device", None)
        places = {place for tensor in tensors if tensor.ndim and (place := _place(tensor)) is not None}
        if len(places) > 1 and name not in ACROSS:
            raise RuntimeError(f"{name}: tensors on {sorted(map(str, places))}")
        if name in COPIES:
            places = {_place(args[0])}
        if name == "grad":  # of outputs on one device by inputs on another
            places = {_place(tree_leaves(args[1])[0])}
        place = torch.device(target) if target is not None else next(iter(places), None if tensors else HOST)
        return _on(place, func(*args, **kwargs))


def _place(tensor: Tensor) -> torch.device | None:
    return vars(tensor).get("place")


def _on(place: torch.device | None, output: Any) -> Any:
    for leaf in tree_leaves(output):
        if isinstance(leaf, Tensor) and place is not None and _place(leaf) is None:
            leaf.place = place  # type: ignore[attr-defined]
    return output


def _moved(func: Any, args: tuple, kwargs: dict) -> Tensor:
    tensor, *rest = (*args, *kwargs.values())
    place, dtype = HOST if func.__name__ == "cpu" else _place(tensor), tensor.dtype
    for each in rest:
        if isinstance(each, Tensor):
            place, dtype = _place(each), each.dtype
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, str | torch.device):
            place = torch.device(each)
    moved = tensor.type(dtype)
    if _place(moved) is None or _place(moved) == place:
        return _on(place, moved)
    moved = moved.clone()
    moved.place = place  # type: ignore[attr-defined]
    return moved


def over_two(model: nn.Module, blocks: list[nn.Module]) -> nn.Module:
    """The later half of the blocks, and what comes behind them, on the second device."""
    late = {part for block in blocks[len(blocks) // 2 :] for part in block.modules()}
    leaves = [part for part in model.modules() if not any(True for _ in part.children())]
    seen = False
    for part in leaves:
        seen = seen or part in late
        behind = part in late or (seen and not any(part in set(block.modules()) for block in blocks))
        _put(part, SECOND if behind else FIRST)
    for block in blocks:
        add_hook_to_module(block, AlignDevicesHook(SECOND if block in late else FIRST))
    for part in model.modules():  # of modules around the leaves
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None and _place(tensor) is None:
                tensor.place = SECOND if seen and "head" in type(part).__name__.lower() else FIRST
    return model


def _put(part: nn.Module, place: torch.device) -> None:
    for tensor in (*part._parameters.values(), *part._buffers.values()):
        if tensor is not None:
            tensor.place = place  # type: ignore[attr-defined]
    if any(True for _ in part.parameters()):
        add_hook_to_module(part, AlignDevicesHook(place))
