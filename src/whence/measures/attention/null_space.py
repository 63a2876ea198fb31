"""Where a row of attention can go without effect: along the left null space of [T, 1], inside the simplex."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whence.errors import Unsupported
from whence.measures.attention.spaces import settled


def along(
    weights: Float[Tensor, "t s"],
    values: Float[Tensor, "s d"],
    seen: Bool[Tensor, "t s"],
    draws: Float[Tensor, "t s"],
    scale: Float[Tensor, "t s"],
) -> Float[Tensor, "t s"]:
    """Every row moved as far as the simplex lets it: A + lambda A~, A~ in the left null space of [T, 1].

    lambda = min over a~_j < 0 of -a_j / a~_j (Brunner et al. 2020, section 3.3). A~ is the draw projected on the null
    space in units of `scale`: ones project plainly; with the weights, tiny weights do not stop the move at once.
    """
    moved = weights.clone()
    for row in seen.any(dim=-1).nonzero().flatten().tolist():
        sources = seen[row]
        step = null_direction(draws[row, sources], values[sources], scale[row, sources])
        moved[row, sources] = furthest(weights[row, sources], step)
    return moved


def unlike(
    weights: Float[Tensor, "t s"], values: Float[Tensor, "s d"], seen: Bool[Tensor, "t s"]
) -> Float[Tensor, "t s"]:
    """Every row replaced by the distribution least like it among those with the same output.

    argmin <a, a'> with a' [T, 1] = a [T, 1], a' >= 0: a linear programme, solved at a corner, where at most d_v + 1
    weights are left.
    """
    replaced = weights.clone()
    for row in seen.any(dim=-1).nonzero().flatten().tolist():
        sources = seen[row]
        replaced[row, sources] = _corner(weights[row, sources], _with_ones(values[sources]))
    return replaced


def null_direction(
    draw: Float[Tensor, " s"], values: Float[Tensor, "s d"], scale: Float[Tensor, " s"]
) -> Float[Tensor, " s"]:
    """scale * w, with w the part of the draw orthogonal to the columns of scale * [T, 1], so (scale w) [T, 1] = 0."""
    columns = _with_ones(values) * scale[:, None]
    smallest = torch.finfo(values.dtype).eps * max(columns.shape) * torch.ones_like(scale[0])
    spanned = settled(columns, smallest)
    if int(spanned.any(dim=0).sum()) == len(draw):  # no null space: what is left of the draw would be rounding
        return torch.zeros_like(draw)
    for _ in range(2):
        draw = draw - spanned @ (spanned.T @ draw)
    return scale * draw


def furthest(weights: Float[Tensor, " s"], step: Float[Tensor, " s"]) -> Float[Tensor, " s"]:
    """weights + lambda step, lambda as large as keeps every entry at zero or above; unchanged without a direction."""
    falling = step < 0
    if not bool(falling.any()):
        return weights
    length = (-weights[falling] / step[falling]).min()
    return (weights + length * step).clamp(min=0)


def _with_ones(values: Float[Tensor, "s d"]) -> Float[Tensor, "s e"]:
    """[V, 1] scaled to one size, so that a tolerance means the same for both."""
    size = values.norm(dim=-1).max().clamp(min=torch.finfo(values.dtype).tiny)
    return torch.cat([values / size, torch.ones_like(values[:, :1])], dim=-1)


def _corner(weights: Float[Tensor, " s"], columns: Float[Tensor, "s e"]) -> Float[Tensor, " s"]:
    try:
        from scipy.optimize import linprog  # optional, because transformers imports it at every start if it is there
    except ImportError as error:
        raise Unsupported('The direction "unlike" needs SciPy: pip install "whence[optimize]".') from error
    costs, equations = weights.cpu().numpy(), columns.T.cpu().numpy()
    solution = linprog(costs, A_eq=equations, b_eq=equations @ costs, bounds=(0, None), method="highs")
    return weights if solution.x is None else torch.from_numpy(solution.x).clamp(min=0).to(weights)
