"""The probability distribution of smallest norm with the same head output: a quadratic programme for every row.

minimise |x|^2 / 2 over x with x U = a U and x >= 0, where the columns of U span those of [T, 1]. For any prices y,
x = max(0, U y) is the smallest of all x >= 0 with *its* output, so what has to be found is the y for which that is the
output of a: as many equations as U has columns. Their corner at zero is rounded off, x_j z_j = mu with x - z = U y, and
Newton's method follows the solution as mu goes to zero (Chen & Mangasarian 1996), many rows at once.
"""

from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.attention.spaces import Cut, basis, cut_of, outputs
from whence.measures.attention.supports import need_rows_of_one, support
from whence.models.block import Block
from whence.models.precision import single

STEPS = 100
# how far |x|^2 / 2 may be above the smallest: where Newton's method ends, and at most in a row that is returned
SOLVED, CERTIFIED = 1e-12, 1e-10
# mu shrinks to a tenth where the rounded equations are met up to so much of sqrt(mu), and far more where nearly exact
NEAR, EXACT, SHRINK, LEAP = 0.2, 0.03, 0.1, 1e-3
LEAST = 1e-32
# share of the diagonal added to it: little slows no row down, more regularises equations that are not independent
LIFTS = (1e-13, 1e-11, 1e-15)
# the line search ends where the slope has fallen to half, and tries at most so many places
TURNED, PLACES = 0.5, 20


@dataclass(frozen=True)
class Rows:
    """Rows that share a basis: a, the required x U, and which entries a row may use (1) or not (0)."""

    columns: Float[Tensor, "s e"]
    pairs: Float[Tensor, "s e*e"]
    original: Float[Tensor, "r s"]
    required: Float[Tensor, "r e"]
    allowed: Float[Tensor, "r s"]

    def residual(self, weights: Float[Tensor, "r s"]) -> Float[Tensor, "r e"]:
        return self.required - (weights * self.allowed) @ self.columns

    def __getitem__(self, selected: Bool[Tensor, " r"]) -> "Rows":
        return Rows(self.columns, self.pairs, self.original[selected], self.required[selected], self.allowed[selected])


def minimum_norm_simplex(
    block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None
) -> Float[Tensor, "b h t s"]:
    """The probability distribution of smallest norm with the same head output, over what each row sees.

    argmin |a'|^2 with a' T = a T, sum a' = 1, a' >= 0 (left open by Brunner et al. 2020, section 3.4). NaN in rows
    whose solution is not certified.
    """
    need_rows_of_one(block, mask)
    weights, values, seen = single(block.attention), outputs(block), support(block, mask)
    if seen.shape[1] > 1:
        values = repeat(values, "b g s d -> b (g k) s d", k=weights.shape[1] // values.shape[1])
    columns = rearrange(basis_with_ones(values, mask, cut_of(block, tolerance)), "b g s e -> (b g) s e")
    shared = weights.shape[1] // values.shape[1]
    grouped = rearrange(weights.double(), "b (g k) t s -> (b g) (k t) s", k=shared)
    allowed = repeat(seen.expand(-1, values.shape[1], -1, -1), "b g t s -> (b g) (k t) s", k=shared)
    solved = torch.stack([smallest(*group) for group in zip(grouped, columns, allowed, strict=True)])
    return rearrange(solved, "(b g) (k t) s -> b (g k) t s", b=len(weights), k=shared).to(weights.dtype)


def basis_with_ones(values: Float[Tensor, "b g s d"], mask: Bool[Tensor, "b s"], cut: Cut) -> Float[Tensor, "b g s e"]:
    """Orthonormal columns that span those of [T, 1] over the real tokens."""
    columns = basis(values, mask[:, None], cut)
    ones, counts = mask[:, None, :, None].to(columns.dtype), mask.sum(dim=-1)
    for _ in range(2):
        ones = ones - columns @ (columns.mT @ ones)
    squared = ones.square().sum(dim=-2, keepdim=True)
    adds = squared > (cut.limits(counts, values).square() * counts)[:, None, None, None]
    return torch.cat([columns, torch.where(adds, ones / squared.sqrt(), 0)], dim=-1)


def smallest(
    weights: Float[Tensor, "r s"], columns: Float[Tensor, "s e"], seen: Bool[Tensor, "r s"]
) -> Float[Tensor, "r s"]:
    """The smallest distribution for each row, NaN where it is not certified."""
    solved, gap = solve(weights, columns, seen)
    return solved.masked_fill((gap > CERTIFIED)[:, None], torch.nan)


def solve(
    weights: Float[Tensor, "r s"], columns: Float[Tensor, "s e"], seen: Bool[Tensor, "r s"]
) -> tuple[Float[Tensor, "r s"], Float[Tensor, " r"]]:
    """The rows of smallest norm, and how far each is from its proof."""
    columns, allowed = columns[:, columns.any(dim=0)], seen.to(weights.dtype)
    pairs = (columns[:, :, None] * columns[:, None, :]).flatten(1)
    rows = Rows(columns, pairs, weights * allowed, (weights * allowed) @ columns, allowed)
    solved, gap = _followed(rows, LIFTS[0])
    for lift in LIFTS[1:]:
        again = gap > CERTIFIED
        if bool(again.any()):
            solved[again], gap[again] = _followed(rows[again], lift)
    return solved, gap


def _followed(rows: Rows, lift: float) -> tuple[Float[Tensor, "r s"], Float[Tensor, " r"]]:
    """The same with one lift of the diagonal; solved rows drop out of the iteration."""
    prices, rounding = rows.required, rows.allowed.sum(dim=-1, keepdim=True).clamp(min=1) ** -2
    solved, gap = torch.zeros_like(rows.allowed), torch.full_like(rows.allowed[:, 0], torch.inf)
    active = torch.arange(len(gap), device=gap.device)
    for step in range(STEPS + 1):
        candidate, remaining = _proved(prices @ rows.columns.T, prices, rows)
        better = remaining < gap[active]
        solved[active[better]], gap[active[better]] = candidate[better], remaining[better]
        unsolved = remaining > SOLVED
        if step == STEPS or not bool(unsolved.any()):
            break
        active, rows = active[unsolved], rows[unsolved]
        prices, rounding = _step(prices[unsolved], rounding[unsolved], rows, lift)
    return solved, gap


def _proved(
    scores: Float[Tensor, "r s"], prices: Float[Tensor, "r e"], rows: Rows
) -> tuple[Float[Tensor, "r s"], Float[Tensor, " r"]]:
    """The better of two answers and its gap: x = max(0, U y), whose output may differ, or a, which may be longer.

    |a|^2 / 2 is at most |a - x|^2 / 2 + a max(0, -U y) above the smallest, whatever y is. Where nearly all weight is on
    one token no y of a usable size makes the outputs equal, and a itself is the answer.
    """
    solution = scores.clamp(min=0) * rows.allowed
    own_gap = (rows.original - solution).square().sum(dim=-1) / 2 + (rows.original * (-scores).clamp(min=0)).sum(dim=-1)
    gap = rows.residual(solution).norm(dim=-1) * prices.norm(dim=-1).clamp(min=1)
    better = torch.where((own_gap < gap)[:, None], rows.original, solution)
    return better, torch.minimum(own_gap, gap).nan_to_num(torch.inf)


def _step(
    prices: Float[Tensor, "r e"], rounding: Float[Tensor, "r 1"], rows: Rows, lift: float
) -> tuple[Float[Tensor, "r e"], Float[Tensor, "r 1"]]:
    """A Newton step on the rounded equations, and the rounding of the next one."""
    scores = prices @ rows.columns.T
    residual = rows.residual(_rounded(scores, rounding)[0]).norm(dim=-1, keepdim=True) / rounding.sqrt()
    factor = torch.where(residual < EXACT, LEAP, torch.where(residual < NEAR, SHRINK, 1.0))
    rounding = (factor * rounding).clamp(min=LEAST)
    weights, slopes = _rounded(scores, rounding)
    residual = rows.residual(weights)
    matrix = ((slopes * rows.allowed) @ rows.pairs).unflatten(1, (residual.shape[1], -1))
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    diagonal += lift * diagonal.mean(dim=-1, keepdim=True) + 1e-18
    change = torch.cholesky_solve(residual[..., None], torch.linalg.cholesky_ex(matrix).L)[..., 0]
    length = _length(scores, change, residual, rounding, rows)
    return prices + length * change, rounding


def _rounded(
    scores: Float[Tensor, "r s"], rounding: Float[Tensor, "r 1"]
) -> tuple[Float[Tensor, "r s"], Float[Tensor, "r s"]]:
    """max(0, u) with its corner rounded off, x with x (x - u) = mu, and its derivative x / (2 x - u)."""
    root = (scores.square() + 4 * rounding).sqrt()
    larger = (scores.abs() + root) / 2  # of x and z; the other from their product, which loses no digits
    weights = torch.where(scores > 0, larger, rounding / larger)
    return weights, weights / root


def _length(
    scores: Float[Tensor, "r s"],
    change: Float[Tensor, "r e"],
    residual: Float[Tensor, "r e"],
    rounding: Float[Tensor, "r 1"],
    rows: Rows,
) -> Float[Tensor, "r 1"]:
    """Line search: 1, or where the slope along the step has turned; by Newton's method between bounds."""
    moves = (change @ rows.columns.T) * rows.allowed
    initial, goal = (residual * change).sum(dim=-1), (rows.required * change).sum(dim=-1)
    length, low, high = torch.ones_like(initial), torch.zeros_like(initial), torch.full_like(initial, torch.inf)
    active = torch.arange(len(initial), device=initial.device)
    for _ in range(PLACES):
        weights, slopes = _rounded(scores[active] + length[active, None] * moves[active], rounding[active])
        slope = goal[active] - (moves[active] * weights).sum(dim=-1)
        steep = slope.abs() > TURNED * initial[active]
        if not bool(steep.any()):
            break
        active, slope, bend = active[steep], slope[steep], (moves[active[steep]].square() * slopes[steep]).sum(dim=-1)
        low[active] = torch.where(slope > 0, length[active], low[active])
        high[active] = torch.where(slope > 0, high[active], length[active])
        length[active] = _between(length[active] + slope / bend, length[active], low[active], high[active])
    return length[:, None]


def _between(
    guess: Float[Tensor, " r"], current: Float[Tensor, " r"], low: Float[Tensor, " r"], high: Float[Tensor, " r"]
) -> Float[Tensor, " r"]:
    """The guess if it lies between the bounds; else their middle, or twice the current one without an upper bound."""
    middle = torch.where(high.isinf(), 2 * current, (low + high) / 2)
    return torch.where((guess > low) & (guess < high), guess, middle)
