"""From the Jacobian's norms to the variables of a measure, of the layers asked for."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from whence.measures.flow import summaries as summaries
from whence.measures.flow.contribution import Flow, gradient, gradient_local, jacobian, jacobian_local
from whence.measures.registry import Settings

Found = dict[str, Tensor]


def flow(settings: Settings) -> Found:
    """Norms and contributions with their standard errors, which are zero when exact."""
    found = jacobian(settings.anatomy, settings.batch, **_asked(settings, _FLOW), layers=settings.layers)
    maps: dict[str, Callable[[], Tensor | None]] = {
        "jacobian": lambda: found.norms,
        "jacobian_se": lambda: found.standard_error,
        "contribution": lambda: found.contribution,
        "contribution_se": lambda: found.contribution_se,
    }
    values = {name: _placed(value(), found) for name, value in maps.items() if name in settings.wanted}
    about = {"probes": found.probes, "misplaced": found.misplaced}
    totals = {f"{name}_{what}": torch.tensor(value) for name in _OF_FLOW for what, value in about.items()}
    if settings.wanted & set(_SUMMARIES):
        whole = _placed(found.contribution, found)
        totals |= {name: summary(whole).float() for name, summary in _SUMMARIES.items()}
    return values | {name: value for name, value in totals.items() if name in settings.wanted}


_OF_FLOW = ("jacobian", "contribution")
_SUMMARIES: dict[str, Callable[[Tensor], Tensor]] = {
    "self_contribution": summaries.own,
    "own_largest": summaries.own_is_largest,
    "by_distance": summaries.by_distance,
    "by_neighbour": summaries.by_neighbour,
}


def local(settings: Settings) -> Found:
    found = jacobian_local(settings.anatomy, settings.batch, **_asked(settings, _LOCAL), layers=settings.layers)
    return {"jacobian_local": _placed(found.norms, found)}


def gradients(settings: Settings) -> Found:
    found = gradient(settings.anatomy, settings.batch, **_asked(settings, _GRADIENT), layers=settings.layers)
    return {"gradient": _placed(found.norms, found)}


def gradients_local(settings: Settings) -> Found:
    found = gradient_local(settings.anatomy, settings.batch, **_asked(settings, ("memory",)), layers=settings.layers)
    return {"gradient_local": _placed(found.norms, found)}


_FLOW = ("norm", "mode", "start", "targets", "sources", "error", "seed", "memory")
_LOCAL = ("norm", "targets", "sources", "memory")
_GRADIENT = ("start", "memory")


def _asked(settings: Settings, names: tuple[str, ...]) -> Mapping[str, Any]:
    """What was asked, but for what was not: those functions have defaults of their own."""
    given = {name: settings.options[name] for name in names if settings.options[name] is not None}
    return given | {"progress": settings.progress}


def _placed(values: Tensor | None, found: Flow) -> Tensor:
    """All targets and sources; NaN where none was asked for."""
    filled = torch.zeros_like(found.norms) if values is None else values
    everywhere = tuple(range(found.tokens))
    if found.targets == everywhere and found.sources == everywhere:
        return filled
    whole = filled.new_full((len(found.layers), found.tokens, found.tokens), torch.nan)
    whole[:, torch.tensor(found.targets)[:, None], torch.tensor(found.sources)] = filled
    return whole
