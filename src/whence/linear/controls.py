"""Less chance in sketched norms, from those that are known exactly.

The norms of layer 1 cost little (`local`), and a direction that moves a token more than others in layer 1 does so in
later layers too. So what the probes find in layer 1 beyond the truth is taken off the later layers, as far as the two
go together (control variates). For every cell there are three such excesses: the cell's own, that of the source at its
own place, and the mean over all targets. Their weights are least squares over the probes and cells of a layer, with
those on the diagonal apart. Many cells share a weight, so the bias of fitting it is small beside the noise.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

ENOUGH = 20  # independent probes, all sources together, from which three weights can be told
MOST = 0.75  # of a square that may be taken off; where it would be more, the cell is left as it is


def steadied(
    squares: Float[Tensor, "k layer target source"], first: Float[Tensor, "target source"], sources: Sequence[int]
) -> Float[Tensor, "k layer target source"]:
    """Squared lengths that vary less around the same mean; in layer 1 they are the true mean, |J_ij|^2 = `first`."""
    free = (len(squares) - 1) * len(sources)
    if free < ENOUGH:
        return squares
    controls = _excesses(squares[:, 0], first, sources)
    spread = controls - controls.mean(dim=1, keepdim=True)
    diagonal = torch.zeros_like(first, dtype=torch.bool)
    diagonal[list(sources), range(len(sources))] = True
    found = squares.clone()
    found[:, 0] = first
    for layer in found[:, 1:].unbind(dim=1):
        mean = layer.mean(dim=0)
        relative = torch.where(mean > 0, layer / mean - 1, 0.0)
        for cells in (diagonal & (mean > 0), ~diagonal & (mean > 0)):
            weights = _weights(spread, relative, cells)
            off = torch.einsum("c,ckts->kts", weights, controls)
            layer -= torch.where(cells & (off.mean(dim=0) < MOST), off * mean, 0.0)
        layer.sub_(mean := layer.mean(dim=0)).mul_(math.sqrt(free / (free - len(controls)))).add_(mean)
    return found


def spread(
    squares: Float[Tensor, "k layer target source"], first: Float[Tensor, "target source"], sources: Sequence[int]
) -> Float[Tensor, "k layer target source"]:
    """Values that vary as much as the steadied mean is uncertain: k times it, less k - 1 times that without one probe.

    The weights come from the same probes that they steady, so what is left over varies too little: in a deep decoder
    one interval in a hundred would miss for that alone. The jackknife fits the weights anew without each probe in turn.
    """
    count, whole = len(squares), steadied(squares, first, sources)
    if (count - 2) * len(sources) < ENOUGH:
        return whole
    others = [torch.arange(count, device=squares.device) != probe for probe in range(count)]
    without = torch.stack([steadied(squares[kept], first, sources).mean(dim=0) for kept in others])
    found = count * whole.mean(dim=0) - (count - 1) * without
    found[:, 0] = first
    return found


def _excesses(
    squares: Float[Tensor, "k target source"], first: Float[Tensor, "target source"], sources: Sequence[int]
) -> Float[Tensor, "control k target source"]:
    """By how much more than on average a probe moves layer 1: the cell, the source's own place, the mean place."""
    reached = first > 0
    own = torch.where(reached, squares / torch.where(reached, first, 1.0) - 1, 0.0)
    source = own[:, list(sources), range(len(sources))][:, None].expand_as(own)
    mean = own.sum(dim=1, keepdim=True) / reached.sum(dim=0).clamp(min=1)
    return torch.stack([own, source, mean.expand_as(own)])


def _weights(
    spread: Float[Tensor, "control k target source"],
    relative: Float[Tensor, "k target source"],
    cells: Bool[Tensor, "target source"],
) -> Float[Tensor, " control"]:
    """Least squares; on the diagonal two controls are one, which then share its weight."""
    given, wanted = spread[..., cells].flatten(1).double(), relative[:, cells].flatten().double()
    return (torch.linalg.pinv(given @ given.T, rtol=1e-6, hermitian=True) @ (given @ wanted)).to(relative)
