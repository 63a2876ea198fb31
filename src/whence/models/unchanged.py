"""Restores what a forward pass changes in a model's modules and configurations.

Some models change for good when they are run: BigBird exchanges its attention for a short text, others keep a cache or
widen a table of positions. Tensors are restored by reference, not copied: only RWKV writes into its weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

STAYING = {"_output_capturing_hooks_installed"}  # transformers' flag for hooks that it installed, which stay too

SCALED = "layers_are_rescaled"  # RWKV's flag for weights that it has rescaled


@contextmanager
def unchanged(modules: list[nn.Module]) -> Iterator[None]:
    """Inside, a model may change; afterwards every module and configuration has the attributes it had before."""
    saved = [(used, used.copy()) for used in _attributes(modules)]
    scaled = {module: vars(module)[SCALED] for module in modules if SCALED in vars(module)}
    try:
        yield
    finally:
        for module, before in scaled.items():
            _scale_back(module, before)
        for used, before in saved:
            if len(used) != len(before) or not all(map(is_, used.values(), before.values())):
                _put_back(used, before)


def _scale_back(module: Any, before: bool) -> None:
    """RWKV divides weights by powers of two when it is first run for evaluation, and for training multiplies again."""
    if vars(module)[SCALED] != before:
        module.training = not before
        module._rescale_layers()


def _put_back(used: dict[str, Any], before: dict[str, Any]) -> None:
    """Only what differs is written, because another thread may be reading."""
    for name in used.keys() - before.keys() - STAYING:
        del used[name]
    for name, value in before.items():
        if name not in used or used[name] is not value:
            used[name] = value


def _attributes(modules: list[nn.Module]) -> Iterator[dict[str, Any]]:
    """The attributes of every module and configuration; children and tensors of a module are in tables of their own."""
    for module in modules:
        own = vars(module)
        yield from (own, own["_modules"], own["_parameters"], own["_buffers"])
    yield from map(vars, _configurations([vars(module)["config"] for module in modules if "config" in vars(module)]))


def _configurations(waiting: list[Any]) -> list[PreTrainedConfig]:
    """These configurations and those nested in them."""
    configs: dict[int, PreTrainedConfig] = {}
    while waiting:
        config = waiting.pop()
        if isinstance(config, PreTrainedConfig) and id(config) not in configs:
            configs[id(config)] = config
            waiting += vars(config).values()
    return list(configs.values())
