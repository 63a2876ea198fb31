"""From the Jacobian's norms to the variables of a measure, of the layers asked for."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whence.measures.flow import summaries as summaries
from whence.measures.flow.contribution import Flow, gradient, gradient_local, jacobian, jacobian_local
from whence.measures.flow.decomposition import decomposition
from whence.measures.registry import Settings

Found = dict[str, Tensor]


def flow(settings: Settings) -> Found:
    """Norms and contributions with their standard errors, which are zero when exact."""
    rows = None if settings.wanted & _SUMMARIES.keys() else settings.targets  # those are about all targets
    flow = jacobian(settings.anatomy, settings.batch, **_asked(settings, targets=rows))
    maps: dict[str, Callable[[], Tensor | None]] = {
        "jacobian": lambda: flow.norms,
        "jacobian_se": lambda: flow.standard_error,
        "contribution": lambda: flow.contribution,
        "contribution_se": lambda: flow.contribution_error,
    }
    values = {name: _placed(value(), flow) for name, value in maps.items() if name in settings.wanted}
    about = {"probes": flow.probes, "misplaced": flow.misplaced, "estimate": int(flow.standard_error is not None)}
    attributes = {f"{name}.{what}": torch.tensor(value) for name in values for what, value in about.items()}
    if settings.wanted & set(_SUMMARIES):
        whole = _placed(flow.contribution, flow)
        values |= {name: _SUMMARIES[name](whole).float() for name in _SUMMARIES.keys() & settings.wanted}
    return values | attributes


_SUMMARIES: dict[str, Callable[[Tensor], Tensor]] = {
    "self_contribution": summaries.own,
    "own_largest": summaries.own_is_largest,
    "by_distance": summaries.by_distance,
    "by_neighbour": summaries.by_neighbour,
}


def local(settings: Settings) -> Found:
    flow = jacobian_local(settings.anatomy, settings.batch, **_asked(settings, targets=settings.targets))
    return {"jacobian_local": _placed(flow.norms, flow)}


def gradients(settings: Settings) -> Found:
    flow = gradient(settings.anatomy, settings.batch, **_asked(settings, targets=settings.targets))
    return {"gradient": _placed(flow.norms, flow)}


def gradients_local(settings: Settings) -> Found:
    flow = gradient_local(settings.anatomy, settings.batch, **_asked(settings, targets=settings.targets))
    return {"gradient_local": _placed(flow.norms, flow)}


def decompositions(settings: Settings) -> Found:
    flow = decomposition(settings.anatomy, settings.batch, **_asked(settings))
    return {
        "decomposition": flow.length,
        "decomposition_share": flow.share,
        "decomposition_signed": flow.signed,
        "decomposition_bias": flow.bias,
        "decomposition_bias_signed": flow.bias_signed,
    }


def _asked(settings: Settings, **more: Any) -> dict[str, Any]:
    """What was asked, but for what was not: those functions have defaults of their own."""
    always = {"layers": settings.layers, "memory": settings.memory, "progress": settings.progress}
    return {name: value for name, value in {**settings.options, **always, **more}.items() if value is not None}


def _placed(values: Tensor | None, flow: Flow) -> Tensor:
    """All targets and sources; NaN where none was asked for."""
    filled = torch.zeros_like(flow.norms) if values is None else values
    everywhere = tuple(range(flow.tokens))
    if flow.targets == everywhere and flow.sources == everywhere:
        return filled
    whole = filled.new_full((len(flow.layers), flow.tokens, flow.tokens), torch.nan)
    whole[:, torch.tensor(flow.targets)[:, None], torch.tensor(flow.sources)] = filled
    return whole
