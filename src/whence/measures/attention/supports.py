"""Rows of weights projected on the sources their target sees: the same for all or, under a mask, its own."""

from dataclasses import replace

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.errors import Unsupported
from whence.measures.attention.spaces import (
    Cut,
    basis,
    cut_of,
    independent,
    inverse_factor,
    outputs,
    room,
    settled,
    trusted,
)
from whence.models.block import Block
from whence.models.precision import single
from whence.models.verify import LIMITS

# targets that share one factor: small enough that few sources tell them apart, large enough for few factors
CHUNK = 16


def support(block: Block, mask: Bool[Tensor, "b s"]) -> Bool[Tensor, "b #h t s"]:
    """Which sources each target sees: real tokens the mask lets through; padding sees and is seen by nothing."""
    real = block.of_targets(mask)[:, None, :, None] & mask.to(block.input.device)[:, None, None, :]
    return real if block.allowed is None else block.allowed & real


def need_rows_of_one(block: Block, mask: Bool[Tensor, "b s"]) -> None:
    """Refuses attention with sinks, where rows sum to less than one and are no distributions."""
    sums = single(block.attention).sum(dim=-1).transpose(1, 2)[block.of_targets(mask)]
    worst = sums.flatten()[(sums - 1).abs().argmax()]
    if (worst - 1).abs() > LIMITS[block.attention.dtype]:
        raise Unsupported(
            f"Layer {block.layer} has a row of attention that sums to {worst:.3g} (an attention sink), and this needs"
            " rows that sum to one; use `effective` and `null`, which do not."
        )


def project_block(
    weights: Float[Tensor, "b h t s"], block: Block, seen: Bool[Tensor, "b #h t s"], tolerance: float | None = None
) -> Float[Tensor, "b h t s"]:
    """Each row of weights projected on the column space of the rows of T = V W_O that it sees.

    V spans the same where T certainly has full rank, and heads share it; targets in doubt go by T.
    """
    cut, slack = cut_of(block, tolerance), room(block)
    if slack == torch.inf:
        return project(weights, outputs(block), seen, cut)
    projected = project(weights, single(block.grouped_values), seen, replace(cut, slack=slack))
    doubt = projected.isnan().any(dim=-1).any(dim=1).any(dim=0)
    if bool(doubt.any()):
        projected[:, :, doubt] = project(weights[:, :, doubt], outputs(block), seen[:, :, doubt], cut)
    return projected


def project(
    weights: Float[Tensor, "b h t s"],
    values: Float[Tensor, "b g s d"],
    seen: Bool[Tensor, "b #h t s"],
    cut: Cut,
) -> Float[Tensor, "b h t s"]:
    """Each row of weights projected on the column space of the values it sees, zero on what it does not see.

    a -> a_S V_S V_S^+, S the sources seen; singular values that do not pass the cut count as zero.
    """
    targets, sources = seen.any(dim=-1), seen.any(dim=-2)
    if bool((seen == targets[..., :, None] & sources[..., None, :]).all()):
        return _project_alike(weights, basis(values, sources, cut), targets)
    if seen.shape[1] > 1:
        values = repeat(values, "b g s d -> b (g k) s d", k=weights.shape[1] // values.shape[1])
    smallest = cut.limits(seen.sum(dim=-1), values).expand(-1, values.shape[1], -1)
    rows = _project_rows(
        rearrange(weights.double(), "b (g k) t s -> (b g) k t s", g=values.shape[1]),
        rearrange(values.double(), "b g s d -> (b g) s d"),
        rearrange(seen.expand(-1, values.shape[1], -1, -1), "b g t s -> (b g) t s"),
        rearrange(smallest, "b g t -> (b g) t"),
        cut,
        passes=2 if weights.dtype == torch.float64 else 1,
    )
    return rearrange(rows, "(b g) k t s -> b (g k) t s", b=len(weights)).to(weights.dtype)


def _project_alike(
    weights: Float[Tensor, "b h t s"], columns: Float[Tensor, "b g s d"], targets: Bool[Tensor, "b #h t"]
) -> Float[Tensor, "b h t s"]:
    """All targets see the same sources: A U U^T."""
    columns = columns.to(weights.dtype)
    grouped = rearrange(weights, "b (g k) t s -> b g (k t) s", g=columns.shape[1])
    projected = rearrange((grouped @ columns) @ columns.mT, "b g (k t) s -> b (g k) t s", t=weights.shape[2])
    return projected if bool(targets.all()) else projected * targets[..., None]


def _project_rows(
    weights: Float[Tensor, "n k t s"],
    values: Float[Tensor, "n s d"],
    seen: Bool[Tensor, "n t s"],
    smallest: Float[Tensor, "n t"],
    cut: Cut,
    passes: int,
) -> Float[Tensor, "n k t s"]:
    """Every target sees sources of its own: few distinct values leave the weights as they are, many need a solve."""
    first_equal = _first_equal(values, seen.any(dim=1))
    counts = torch.zeros_like(seen, dtype=values.dtype).scatter_add(2, _like(first_equal, seen), seen.to(values.dtype))
    projected = _averaged(weights * seen[:, None], first_equal, counts) * seen[:, None]
    few = counts.count_nonzero(dim=-1) <= values.shape[-1]
    sure = _independent(values, counts * few[..., None], smallest) & few
    chunks = list((~few).any(dim=0).nonzero().flatten().split(CHUNK))
    while chunks:
        chunk = chunks.pop()
        many = ~few[:, chunk]
        solved, condition = _solved(weights[:, :, chunk], values, seen[:, chunk], many, passes)
        good = many & trusted(condition, smallest[:, chunk])
        projected[:, :, chunk] = torch.where(good[:, None, :, None], solved, projected[:, :, chunk])
        sure[:, chunk] |= good
        if len(chunk) > 1 and not bool((good | ~many).all()):  # too little in common: halve, down to single targets
            chunks += chunk.chunk(2)
    if cut.slack > 1:
        return projected.masked_fill(~sure[:, None, :, None], torch.nan)
    for index, row in (~sure).nonzero().tolist():
        sources = seen[index, row]
        columns = settled(values[index, sources], smallest[index, row])
        projected[index, :, row, sources] = weights[index, :, row, sources] @ columns @ columns.T
    return projected


def _first_equal(values: Float[Tensor, "n s d"], used: Bool[Tensor, "n s"]) -> Int[Tensor, "n s"]:
    """For each source the first with the same value: in layer 1 of a model with rotary positions, the same token."""
    first = torch.arange(values.shape[1], device=values.device).repeat(len(values), 1)
    lengths = values.square().sum(dim=-1).masked_fill(~used, torch.nan).sort(dim=-1).values
    for index in (lengths.diff(dim=-1) == 0).any(dim=-1).nonzero().flatten().tolist():
        equal = values[index].unique(dim=0, return_inverse=True)[1]
        first[index] = (equal[:, None] == equal[None, :]).int().argmax(dim=-1)
    return first


def _like(index: Int[Tensor, "n s"], rows: Tensor) -> Int[Tensor, "n *_ s"]:
    return index.view(len(index), *(1,) * (rows.ndim - 2), -1).expand(rows.shape)


def _averaged(
    weights: Float[Tensor, "n k t s"], first_equal: Int[Tensor, "n s"], counts: Float[Tensor, "n t s"]
) -> Float[Tensor, "n k t s"]:
    """Sources with one value share the mean of their weights: no output can tell them apart."""
    if torch.equal(first_equal, torch.arange(first_equal.shape[1], device=first_equal.device).expand_as(first_equal)):
        return weights
    totals = torch.zeros_like(weights).scatter_add(3, _like(first_equal, weights), weights)
    return (totals / counts.clamp(min=1)[:, None]).gather(3, _like(first_equal, weights))


def _independent(
    values: Float[Tensor, "n s d"], counts: Float[Tensor, "n t s"], smallest: Float[Tensor, "n t"]
) -> Bool[Tensor, "n t"]:
    """Whether the distinct values each target sees are independent. What holds of a union holds of its parts."""
    repeats = counts.amax(dim=(1, 2)).clamp(min=1).sqrt()
    sure = independent(values, counts.any(dim=1), smallest.amax(dim=1) * repeats)
    rows = repeat(sure, "n -> n t", t=counts.shape[1]).clone()
    half = (counts.shape[1] + 1) // 2
    if half < counts.shape[1] and not bool(sure.all()):
        halves = zip(counts[~sure].split(half, dim=1), smallest[~sure].split(half, dim=1), strict=True)
        rows[~sure] = torch.cat([_independent(values[~sure], *piece) for piece in halves], dim=1)
    return rows


def _solved(
    weights: Float[Tensor, "n k t s"],
    values: Float[Tensor, "n s d"],
    seen: Bool[Tensor, "n t s"],
    many: Bool[Tensor, "n t"],
    passes: int,
) -> tuple[Float[Tensor, "n k t s"], Float[Tensor, "n t"]]:
    """a V_S G_S^-1 V_S^T, again for what rounding left, and a bound on the condition number of each V_S.

    G_S = G - V_Z^T V_Z: G of the sources any target sees, factored once, less the few this one does not (Woodbury):
    G_S^-1 = M^T (1 + Z^T (1 - Z Z^T)^-1 Z) M, with G^-1 = M^T M and Z = V_Z M^T. Taking away from the larger matrix
    loses no digits that G_S itself has; adding to a smaller one would.
    """
    seen = seen & many[..., None]
    union = seen.any(dim=1)
    factor, condition = inverse_factor((values * union[..., None]).mT @ values)
    whitened = values @ factor.mT
    unseen, picked = _told_apart(whitened, union[:, None] & ~seen & many[..., None])
    inner = _inverse(
        einsum(unseen, unseen, "n m d, n l d -> n m l")[:, None] * picked[..., None] * picked[..., None, :]
    )
    solution = torch.zeros_like(weights)
    for _ in range(passes):
        coefficients = einsum((weights - solution) * seen[:, None], whitened, "n k t s, n s d -> n k t d")
        correction = einsum(coefficients, unseen, "n k t d, n m d -> n k t m") * picked[:, None]
        correction = einsum(correction, inner, "n k t m, n t m l -> n k t l") * picked[:, None]
        coefficients = coefficients + einsum(correction, unseen, "n k t m, n m d -> n k t d")
        solution = solution + einsum(coefficients, whitened, "n k t d, n s d -> n k t s") * seen[:, None]
    return solution, condition[:, None] * _largest(inner).sqrt()


def _told_apart(
    values: Float[Tensor, "n s d"], unseen: Bool[Tensor, "n t s"]
) -> tuple[Float[Tensor, "n m d"], Float[Tensor, "n t m"]]:
    """The values that some target does not see, moved to the front, and which target lacks which, as 0 and 1."""
    sources = unseen.any(dim=1)
    order = sources.int().argsort(dim=-1, descending=True, stable=True)[:, : int(sources.sum(dim=-1).max())]
    picked = unseen.gather(2, repeat(order, "n m -> n t m", t=unseen.shape[1]))
    return values.gather(1, repeat(order, "n m -> n m d", d=values.shape[-1])), picked.to(values.dtype)


def _inverse(small: Float[Tensor, "n t m m"]) -> Float[Tensor, "n t m m"]:
    """(1 - K)^-1; NaN where there is none."""
    factor, condition = inverse_factor(torch.eye(small.shape[-1], dtype=small.dtype, device=small.device) - small)
    return (factor.mT @ factor).masked_fill(condition.isinf()[..., None, None], torch.nan)


def _largest(inverse: Float[Tensor, "n t m m"]) -> Float[Tensor, "n t"]:
    """An upper bound on the largest eigenvalue of (1 - K)^-1, which is never below one."""
    beyond = inverse - torch.eye(inverse.shape[-1], dtype=inverse.dtype, device=inverse.device)
    return 1 + torch.linalg.matrix_norm(beyond)
