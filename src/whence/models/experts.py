"""A mixture of experts at one sentence's states, its routing held: which expert had which tokens, and with what weight.

The module is watched while it runs: its routed experts are called with the tokens' choice, shared ones as ordinary
gated layers. What each token's experts are multiplied with is then the factor that gives the module's own output;
where no factors do, the module is not of this kind.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whence.models.agreement import apart
from whence.models.hooks import here
from whence.models.precision import single
from whence.models.weights import Affine, FeedForward, Opaque

CLOSE = 1e-4  # of a token's output, that rounding explains


@dataclass(frozen=True, eq=False)
class Route:
    """An expert, the tokens that it had, ascending, and the factor on what it gave each."""

    expert: FeedForward
    tokens: Int[Tensor, " n"]
    factor: Float[Tensor, "n 1"]


@dataclass(frozen=True, eq=False)
class _Call:
    module: Any
    args: tuple[Any, ...]


def routes(mixture: Opaque, states: Float[Tensor, "t m"]) -> tuple[Route, ...] | None:
    """The experts of a feed-forward at what it read; None where they do not give its output."""
    calls: list[_Call] = []
    with ExitStack() as hooks, torch.no_grad():
        for part in mixture.module.modules():
            if _is_gated(part) or _is_routed(part):
                note = here(lambda module, args, kwargs: calls.append(_Call(module, (*args, *kwargs.values()))))
                hooks.callback(part.register_forward_pre_hook(note, with_kwargs=True).remove)
        output = mixture(states)
        groups = [group for call in calls if (group := tuple(_routes_of(call, len(states))))]
        if len(groups) != len(calls) or not groups:
            return None
        made = torch.stack([_sum(group, states) for group in groups], dim=-1)
        factors = torch.linalg.lstsq(made, output[..., None]).solution[..., 0]
        if apart((made * factors[:, None]).sum(dim=-1), output) > CLOSE:
            return None
    return tuple(_scaled(route, factors[:, number]) for number, group in enumerate(groups) for route in group)


def _is_gated(module: nn.Module) -> bool:
    """An expert that all tokens share, or the whole feed-forward of a layer without a mixture."""
    layers = (getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
    return all(type(layer) is nn.Linear for layer in layers) and hasattr(module, "act_fn")


def _is_routed(module: nn.Module) -> bool:
    """Experts as transformers stacks them: weights of three axes, expert first."""
    weights = (getattr(module, name, None) for name in ("gate_up_proj", "down_proj"))
    return all(isinstance(weight, Tensor) and weight.ndim == 3 for weight in weights) and hasattr(module, "act_fn")


def _routes_of(call: _Call, tokens: int) -> Iterator[Route]:
    module = call.module
    if _is_gated(module):
        gate, up, down = (single(_affine(layer)) for layer in (module.gate_proj, module.up_proj, module.down_proj))
        everywhere = torch.arange(tokens, device=gate.weight.device)
        yield Route(FeedForward(gate, up, module.act_fn, down), everywhere, gate.weight.new_ones(tokens, 1))
        return
    if len(call.args) != 3 or call.args[1].shape != call.args[2].shape or len(call.args[1]) != tokens:
        return
    read, chosen, weights = call.args
    if not _fits(module, read.shape[-1]):
        return
    for number in chosen.unique().tolist():
        token, place = torch.where(chosen == number)
        order = token.argsort()
        factor = weights[token[order], place[order]][:, None]
        yield Route(_stacked(module, number), token[order], single(factor.detach()))


def _fits(module: Any, width: int) -> bool:
    """Gate and up side by side, each as wide as what they read, and down the other way; Aria's are transposed."""
    both, down = module.gate_up_proj.shape[1:], module.down_proj.shape[1:]
    return both == (2 * down[1], width) and down[0] == width


def _stacked(module: Any, number: int) -> FeedForward:
    both, down = (single(weight[number].detach()) for weight in (module.gate_up_proj, module.down_proj))
    gate, up = both.chunk(2, dim=0)
    return FeedForward(Affine(gate.T, None), Affine(up.T, None), module.act_fn, Affine(down.T, None))


def _affine(layer: nn.Linear) -> Affine:
    return Affine(layer.weight.detach().T, None if layer.bias is None else layer.bias.detach())


def _sum(group: tuple[Route, ...], states: Float[Tensor, "t m"]) -> Float[Tensor, "t m"]:
    total = torch.zeros_like(states)
    for route in group:
        total.index_add_(0, route.tokens, route.expert(states[route.tokens]) * route.factor)
    return total


def _scaled(route: Route, factor: Float[Tensor, " t"]) -> Route:
    return Route(route.expert, route.tokens, route.factor * factor[route.tokens, None])
