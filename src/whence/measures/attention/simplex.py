"""The probability distribution of smallest norm with the same head output: a quadratic programme for every row.

minimise |x|^2 / 2 over x with x U = a U and x >= 0, where the columns of U span those of [T, 1]. Solved for many rows
at once by the primal-dual interior point method of Mehrotra (1992), which also hands out its own proof of optimality:
x - U y - z = 0, x U = a U, x, z >= 0 and x_j z_j = 0.
"""

from dataclasses import dataclass

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor

from whence.errors import VerificationFailed
from whence.measures.attention.spaces import basis, inverse_factor, limits, readable
from whence.measures.attention.supports import need_rows_of_one, support
from whence.models.block import Block
from whence.models.precision import single

STEPS = 80
# an optimality condition is met up to this, and a row that misses by more than that is an error
SOLVED, CERTIFIED = 1e-10, 1e-6
# rows solved together: their matrices stay near the cache
CHUNK = 128


@dataclass(frozen=True)
class Rows:
    """Rows with one basis: what x U has to be, and which entries a row may use (1) or not (0)."""

    columns: Float[Tensor, "s e"]
    wanted: Float[Tensor, "r e"]
    allowed: Float[Tensor, "r s"]


@dataclass(frozen=True)
class Point:
    """Where the method is: the distribution, the multipliers of the equations, and those of the signs."""

    weights: Float[Tensor, "r s"]
    prices: Float[Tensor, "r e"]
    slack: Float[Tensor, "r s"]

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.weights, self.prices, self.slack

    def moved(self, step: "Point", length: Float[Tensor, "r 1"]) -> "Point":
        return Point(*(here + length * change for here, change in zip(self.parts, step.parts, strict=True)))


def minimum_norm_simplex(
    block: Block, mask: Bool[Tensor, "b s"], tolerance: float | None = None
) -> Float[Tensor, "b h t s"]:
    """The probability distribution of smallest norm with the same head output, over what each row sees.

    argmin |a'|^2 with a' T = a T, sum a' = 1, a' >= 0 (left open by Brunner et al. 2020, section 3.4).
    """
    need_rows_of_one(block, mask)
    weights, values, seen = single(block.attention), readable(block), support(block, mask)
    if seen.shape[1] > 1:
        values = repeat(values, "b g s d -> b (g k) s d", k=weights.shape[1] // values.shape[1])
    columns = rearrange(basis_with_ones(values, mask, tolerance), "b g s e -> (b g) s e")
    shared = weights.shape[1] // values.shape[1]
    grouped = rearrange(weights.double(), "b (g k) t s -> (b g) (k t) s", k=shared)
    allowed = repeat(seen.expand(-1, values.shape[1], -1, -1), "b g t s -> (b g) (k t) s", k=shared)
    solved = torch.stack([smallest(*parts) for parts in zip(grouped, columns, allowed, strict=True)])
    return rearrange(solved, "(b g) (k t) s -> b (g k) t s", b=len(weights), k=shared).to(weights.dtype)


def basis_with_ones(
    values: Float[Tensor, "b g s d"], mask: Bool[Tensor, "b s"], tolerance: float | None
) -> Float[Tensor, "b g s e"]:
    """Orthonormal columns that span those of [T, 1] over the real tokens."""
    columns = basis(values, mask[:, None], tolerance)
    ones, counts = mask[:, None, :, None].to(columns.dtype), mask.sum(dim=-1)
    for _ in range(2):
        ones = ones - columns @ (columns.mT @ ones)
    squared = ones.square().sum(dim=-2, keepdim=True)
    adds = squared > (limits(tolerance, counts, values).square() * counts)[:, None, None, None]
    return torch.cat([columns, torch.where(adds, ones / squared.sqrt(), 0)], dim=-1)


def smallest(
    weights: Float[Tensor, "r s"], columns: Float[Tensor, "s e"], seen: Bool[Tensor, "r s"]
) -> Float[Tensor, "r s"]:
    """The smallest distribution for each row, or VerificationFailed where its proof fails."""
    parts = zip(weights.split(CHUNK), seen.split(CHUNK), strict=True)
    solved, missed = zip(*(solve(part, columns, sees) for part, sees in parts), strict=True)
    worst = float(torch.cat(missed).max())
    if worst > CERTIFIED:
        raise VerificationFailed(
            f"The smallest distribution was not found: its optimality conditions miss by {worst:.2g}, allowed is"
            f" {CERTIFIED:.0e}; nothing was measured, try a larger tolerance."
        )
    return torch.cat(solved)


def solve(
    weights: Float[Tensor, "r s"], columns: Float[Tensor, "s e"], seen: Bool[Tensor, "r s"]
) -> tuple[Float[Tensor, "r s"], Float[Tensor, " r"]]:
    """The rows of smallest norm and by how much each misses its optimality conditions."""
    allowed = seen.to(weights.dtype)
    rows = Rows(columns, (weights * allowed) @ columns, allowed)
    point = _start(weights, rows)
    for _ in range(STEPS):
        missing = _missing(point, rows)
        if bool((missing < SOLVED).all()):
            break
        point = point.moved(*_step(point, rows, missing))
    return point.weights * allowed, _missing(point, rows)


def _start(weights: Float[Tensor, "r s"], rows: Rows) -> Point:
    """Inside the positive numbers, near the given weights; what a row may not use rests at one."""
    share = 1 / rows.allowed.sum(dim=-1, keepdim=True).clamp(min=1)
    inside = torch.where(rows.allowed > 0, torch.maximum(weights, 0.1 * share), 1)
    return Point(inside, torch.zeros_like(rows.wanted), torch.where(rows.allowed > 0, share, 1))


def _residuals(point: Point, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """x - U y - z, x U - a U and x z."""
    gradient = (point.weights - point.prices @ rows.columns.T - point.slack) * rows.allowed
    output = (point.weights * rows.allowed) @ rows.columns - rows.wanted
    return gradient, output, point.weights * point.slack * rows.allowed


def _missing(point: Point, rows: Rows) -> Float[Tensor, " r"]:
    return torch.cat([residual.abs() for residual in _residuals(point, rows)], dim=1).amax(dim=1)


def _step(point: Point, rows: Rows, missing: Float[Tensor, " r"]) -> tuple[Point, Float[Tensor, "r 1"]]:
    """Mehrotra's step, and how far to go; rows already solved stay.

    His corrector can go round in circles (Cartis 2009): a row it does not bring nearer takes a plain centring step.
    """
    solve_for = _newton(point, rows)
    together = _residuals(point, rows)[2]
    before = _mean(together, rows)
    predicted = solve_for(together)
    after = _mean(_residuals(point.moved(predicted, _room(point, predicted)), rows)[2], rows)
    corrector, centre = predicted.weights * predicted.slack, (after / before).nan_to_num(0) ** 3 * before
    bold = solve_for((together + corrector - centre) * rows.allowed)
    plain = solve_for((together - 0.3 * before) * rows.allowed)
    nearer = _mean(_residuals(point.moved(bold, 0.995 * _room(point, bold)), rows)[2], rows) < 0.9 * before
    step = Point(*(torch.where(nearer, *pair) for pair in zip(bold.parts, plain.parts, strict=True)))
    return step, torch.where(missing[:, None] < SOLVED, 0, 0.995 * _room(point, step))


def _mean(products: Float[Tensor, "r s"], rows: Rows) -> Float[Tensor, "r 1"]:
    return products.sum(dim=-1, keepdim=True) / rows.allowed.sum(dim=-1, keepdim=True).clamp(min=1)


def _newton(point: Point, rows: Rows):
    """Solves the linearised conditions for any right side of x z: one e x e matrix U^T D U per row, D = x / (x + z)."""
    gradient, output, _ = _residuals(point, rows)
    scale = point.weights / (point.weights + point.slack) * rows.allowed
    pairs = einsum(rows.columns, rows.columns, "s e, s f -> s e f")
    matrix = einsum(scale, pairs, "r s, s e f -> r e f")
    lift = 1e-14 * matrix.diagonal(dim1=1, dim2=2).mean(dim=-1) + 1e-16
    matrix = matrix + lift[:, None, None] * torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    factor, _ = inverse_factor(matrix)

    def solve_for(together: Float[Tensor, "r s"]) -> Point:
        pull = gradient + together / point.weights
        right = (scale * pull) @ rows.columns - output
        prices = torch.zeros_like(right)
        for _ in range(2):  # once more for what the lift and rounding left
            left = right - (scale * (prices @ rows.columns.T)) @ rows.columns
            prices = prices + einsum(left, factor, factor, "r e, r f e, r f g -> r g")
        weights = scale * (prices @ rows.columns.T - pull)
        return Point(weights, prices, -(together + point.slack * weights) / point.weights * rows.allowed)

    return solve_for


def _room(point: Point, step: Point) -> Float[Tensor, "r 1"]:
    """How far the step can go, at most once, before an entry turns negative."""
    pairs = ((point.weights, step.weights), (point.slack, step.slack))
    rooms = [torch.where(change < 0, -here / change, torch.inf).amin(dim=-1, keepdim=True) for here, change in pairs]
    return torch.minimum(*rooms).clamp(max=1)
