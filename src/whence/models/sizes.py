"""How large the tensors are that a computation makes, by watching it."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Sizes(TorchDispatchMode):
    """Inside, `largest` grows to the bytes of the largest tensor made; views of others are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        made = [] if func.is_view else [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
        self.largest = max([self.largest, *(tensor.numel() * tensor.element_size() for tensor in made)])
        return output
