"""Where the weights of a model go while it is loaded: checked before anything is read."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whence._extras import require
from whence.errors import BadInput

SPREAD = ("auto", "balanced", "balanced_low_0", "sequential")
KEPT = ("cpu", "disk")  # where weights may be kept that no accelerator has room for
AMOUNT = re.compile(r"\d+(\.\d+)?\s*[KMGT]?i?B?", re.IGNORECASE)


def spread(device: str, device_map: object, max_memory: object, offload_folder: str | Path | None) -> dict[str, Any]:
    """The arguments of `from_pretrained` that spread a model; none where it goes to one device as a whole."""
    if device_map is None:
        for name, value in (("max_memory", max_memory), ("offload_folder", offload_folder)):
            if value is not None:
                raise BadInput(f"{name} is for a model that is spread; give device_map='auto' (--device-map auto) too.")
        return {}
    if device != "auto":
        raise BadInput(f"Both a device ({device!r}) and a device_map were given; give one of them.")
    require("A device map needs", "large", "accelerate")
    return {"device_map": _map(device_map)} | _limits(max_memory) | _folder(offload_folder)


def check_named_modules(placed: Mapping[str, Any], model: nn.Module) -> None:
    """Refuses a table that names what the model does not have: transformers leaves that out in silence."""
    table = placed.get("device_map")
    if not isinstance(table, dict):
        return
    known = {name for name, _ in (*model.named_modules(), *model.named_parameters(), *model.named_buffers())}
    if wrong := [name for name in table if name not in known]:
        raise BadInput(f"The device map names {wrong[0]!r}, and {type(model).__name__} has no such part.")


def on_device(device: object) -> torch.device:
    """A device that is here, by its name or number."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)  # type: ignore[call-overload]
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise BadInput(f"There is no device {device!r} here; use auto, cpu, cuda or mps.") from error
    if chosen.type == "meta":
        raise BadInput("The device 'meta' holds no numbers; use auto, cpu, cuda or mps.")
    return chosen


def _map(device_map: object) -> object:
    if isinstance(device_map, str):
        if device_map not in SPREAD and not _is_device(device_map):
            raise BadInput(
                f"There is no device map {device_map!r}; use {', '.join(SPREAD)}, or in Python a table of modules and"
                " devices."
            )
        return device_map
    if not isinstance(device_map, Mapping) or not all(isinstance(name, str) for name in device_map):
        raise BadInput(
            f"A device map is a word ({', '.join(SPREAD)}) or a table of modules and devices, and"
            f" {str(device_map)[:60]} was given."
        )
    for place in device_map.values():
        if place not in KEPT:
            on_device(place)
    return dict(device_map)


def _is_device(name: str) -> bool:
    try:
        on_device(name)
    except BadInput:
        return False
    return True


def _limits(max_memory: object) -> dict[str, Any]:
    if max_memory is None:
        return {}
    if not isinstance(max_memory, Mapping):
        raise BadInput(
            f"max_memory is a table such as {{0: '20GB', 'cpu': '60GB'}}, and {str(max_memory)[:60]!r} was given."
        )
    for place, amount in max_memory.items():
        if place not in KEPT and not (isinstance(place, int) and place < torch.cuda.device_count()):
            raise BadInput(f"max_memory names {place!r}, which is no device here; name cpu, or a GPU by its number.")
        if not (isinstance(amount, int) or (isinstance(amount, str) and AMOUNT.fullmatch(amount))):
            raise BadInput(f"max_memory gives {place!r} {amount!r}, and an amount such as 20GB or 500MB was expected.")
    return {"max_memory": dict(max_memory)}


def _folder(folder: str | Path | None) -> dict[str, Any]:
    """Refuses a folder that cannot be written before hours of loading."""
    if folder is None:
        return {}
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"The offload folder {str(folder)!r} cannot be made ({error.strerror}); name another."
        ) from error
    if not os.access(path, os.W_OK):
        raise BadInput(f"The offload folder {str(folder)!r} cannot be written; name another.")
    return {"offload_folder": str(path)}
