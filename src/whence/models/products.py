"""The second seam: attention outside transformers' interface, overheard where a softmax meets the values.

Families whose file computes attention in its own way (DeBERTa, MPNet, BLOOM, ...) still end it with a softmax over
sources and the product of that with the values. A torch function mode sees both, whatever the module is called.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whence.models.hooks import here

SOFTMAX = "softmax"
PRODUCTS = {"matmul", "bmm"}


@contextmanager
def overheard(model: nn.Module, heard: Callable[..., Tensor | None]) -> Iterator[None]:
    """Inside, heard(module, weights, values, scores, head outputs) is called for every attention of this thread.

    What it gives back, if anything, replaces the weights.
    """
    mode = _Products(heard)
    with ExitStack() as hooks:
        for module in model.modules():
            hooks.callback(module.register_forward_pre_hook(here(mode.entered)).remove)
            hooks.callback(module.register_forward_hook(here(mode.left)).remove)
        with mode:
            yield


class _Products(TorchFunctionMode):
    """Waits for the product that follows a softmax; knows which module is being computed."""

    def __init__(self, heard: Callable[..., Tensor | None]) -> None:
        super().__init__()
        self.heard = heard
        self.modules: list[nn.Module] = []
        self.scores: Tensor | None = None

    def entered(self, module: nn.Module, args: tuple) -> None:
        self.modules.append(module)

    def left(self, module: nn.Module, args: tuple, output: Any) -> None:
        self.modules.pop()

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name == SOFTMAX and args and output.ndim == 4:
            self.scores = args[0]
        elif name in PRODUCTS and self._follows(args):
            return self._attended(func, args, output)
        return output

    def _follows(self, args: tuple) -> bool:
        """Whether what is multiplied is as large as what the softmax read."""
        return self.scores is not None and len(args) == 2 and args[0].numel() == self.scores.numel()

    def _attended(self, func: Any, args: tuple, output: Tensor) -> Tensor:
        """Weights and values may have batch and heads in one dimension; heads that share values have them once."""
        scores, self.scores = self.scores, None
        assert scores is not None
        weights, values = args
        values_of, heads = (part.reshape(len(scores), -1, *part.shape[-2:]) for part in (values, output))
        attention = (weights.reshape(scores.shape), values_of, scores, heads.transpose(1, 2))
        replaced = self.heard(self.modules[-1], *attention)
        return output if replaced is None else func(replaced.reshape(weights.shape), values)
