"""The norm-based measures as one would write them down: every vector of every pair, in loops, in float64."""

import dataclasses

import numpy
import torch
from torch import Tensor
from torch.func import jacrev

from tests.families import batch, build
from whence.models.block import Batch, Block
from whence.models.capture import trace
from whence.models.locate import locate
from whence.models.weights import Norm


def captured(name: str, dtype: torch.dtype, lengths=(5, 3), side: str = "right") -> tuple[list[Block], Batch]:
    """The blocks of one pass of the named tiny model over a padded batch."""
    rows = batch(list(lengths), side)
    return list(trace(locate(build(name).to(dtype)), rows).blocks), rows


def double(found):
    """The same block or parts, every tensor in float64."""
    if isinstance(found, Tensor):
        return found.double() if found.is_floating_point() else found
    if not dataclasses.is_dataclass(found):
        return found
    fields = {field.name: double(getattr(found, field.name)) for field in dataclasses.fields(found)}
    return dataclasses.replace(found, **fields)


def apart(found: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest entry."""
    return float((found.double() - expected.double()).abs().max() / expected.double().abs().max())


def derivatives(chain, layers: int) -> tuple[Tensor, Tensor]:
    """By reverse mode, l x t x s x m x m: of each block's output by its own input, and by the input of the first."""
    states, own, whole = chain.states, [], []
    for step in chain.steps[:layers]:
        own.append(jacrev(step.block)(states))
        whole.append(torch.tensordot(own[-1], whole[-1], dims=2) if whole else own[-1])
        states = step.block(states)
    return torch.stack(own).transpose(2, 3), torch.stack(whole).transpose(2, 3)


def attention_vectors(block: Block, mask: Tensor, name: str) -> Tensor:
    """z_ij of an analysis with vectors, b x t x s x m, zero at padding."""
    block, rows = double(block), range(len(mask))
    vectors = torch.zeros(*mask.shape, mask.shape[1], block.input.shape[-1], dtype=torch.float64)
    for b in rows:
        for i in mask[b].nonzero()[:, 0]:
            for j in mask[b].nonzero()[:, 0]:
                vectors[b, i, j] = _vector(block, b, int(i), int(j), name)
    return vectors


def _vector(block: Block, b: int, i: int, j: int, name: str) -> Tensor:
    weight = block.parts.projection.weight
    z = sum(block.attention[b, h, i, j] * (block.values[b, h, j] @ weight[h]) for h in range(len(weight)))
    if name == "attn_n":
        return z
    norms = block.parts.attention_norms
    if norms.inside is not None:
        z = fixed(norms.inside, z) / spread(norms.inside, block.projected[b, i])
    z = z * block.parts.residual_scale + (block.input[b, i] if i == j else 0)
    if name == "attnres_n" or norms.after is None:
        return z
    return fixed(norms.after, z) / spread(norms.after, block.before_norm[b, i])


def fixed(norm: Norm, vector: Tensor) -> Tensor:
    return (vector - vector.mean() if norm.centred else vector) * norm.weight


def spread(norm: Norm, state: Tensor) -> Tensor:
    return (state.var(correction=0) if norm.centred else state.square().mean()).add(norm.eps).sqrt()


def ratios(vectors: Tensor) -> Tensor:
    """|sum_{j != i} z_ij| / (|sum_{j != i} z_ij| + |z_ii|), zero where nothing is."""
    own = vectors.diagonal(dim1=1, dim2=2).mT
    others = (vectors.sum(dim=2) - own).norm(dim=-1)
    whole = others + own.norm(dim=-1)
    return others / whole.where(whole > 0, 1)


def block_vectors(block: Block, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Past the feed-forward: what each source gives each target, b x t x s x m, and what biases give, b x t x m."""
    vectors, block = attention_vectors(block, mask, "attnresln_n"), double(block)
    found, biases = torch.zeros_like(vectors), torch.zeros_like(block.input)
    for b in range(len(mask)):
        for i in mask[b].nonzero()[:, 0]:
            middle = block.middle[b, i]
            shares = torch.cat([vectors[b, i], (middle - vectors[b, i].sum(dim=0))[None]])
            past = _past(block, b, int(i), shares)
            found[b, i], biases[b, i] = past[:-1], past[-1]
    return found, biases


def _past(block: Block, b: int, i: int, shares: Tensor) -> Tensor:
    """Shares of the state between attention and feed-forward (the last one: biases) -> shares of the block's output."""
    parts, norms = block.parts, block.parts.feed_forward_norms
    read, state = shares, block.middle[b, i]
    if parts.parallel:
        state = block.input[b, i]
        read = torch.zeros_like(shares)
        read[i] = state
    if norms.before is not None:
        read = torch.stack([fixed(norms.before, share) for share in read]) / spread(norms.before, state)
        read[-1] += 0 if norms.before.bias is None else norms.before.bias
    branch = _fed(parts.feed_forward, read)
    if norms.inside is not None:
        scale = spread(norms.inside, branch.sum(dim=0))
        branch = torch.stack([fixed(norms.inside, share) for share in branch]) / scale
        branch[-1] += 0 if norms.inside.bias is None else norms.inside.bias
    total = shares + branch * parts.residual_scale
    if norms.after is None:
        return total
    out = torch.stack([fixed(norms.after, share) for share in total]) / spread(norms.after, total.sum(dim=0))
    out[-1] += 0 if norms.after.bias is None else norms.after.bias
    return out


def _fed(forward, read: Tensor) -> Tensor:
    """Integrated gradients from zero of the hidden layer, by automatic differentiation at 120 points of the path."""
    before = [_affine(affine, read) for affine in (forward.activated, forward.linear) if affine is not None]
    nodes, weights = numpy.polynomial.legendre.leggauss(120)
    path, weights = torch.tensor((nodes + 1) / 2)[:, None], torch.tensor(weights / 2)
    points = [(share.sum(dim=0) * path).requires_grad_() for share in before]
    active = forward.activation(points[0]) * (1 if len(points) == 1 else points[1])
    gradients = torch.autograd.grad(active.sum(), points)
    hidden = sum(share * (weights @ gradient) for share, gradient in zip(before, gradients, strict=True))
    hidden[-1] += forward.activation(torch.zeros_like(hidden[-1])) if forward.linear is None else 0
    return _affine(forward.down, hidden)


def _affine(affine, shares: Tensor) -> Tensor:
    """Each share alone; the bias goes to the last."""
    out = shares @ affine.weight
    out[-1] += 0 if affine.bias is None else affine.bias
    return out
