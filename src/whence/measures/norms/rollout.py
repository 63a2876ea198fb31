"""How the maps of single blocks add up over layers, and ALTI, a map whose rows are shares by construction."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whence.measures.norms.vectors import (
    BUDGET,
    anatomy_of,
    arrival_scale,
    arrival_weight,
    by_sequence,
    pairs,
    settled,
)
from whence.models.block import Block
from whence.models.precision import single


def rollout(maps: Float[Tensor, "layer b t s"]) -> Float[Tensor, "layer b t s"]:
    """Share of every input token in every token of each layer, as if maps were all there is (Abnar & Zuidema 2020).

    R_l = M_l R_(l-1), R_0 the identity, rows of M_l divided by their sums; rows of padding stay zero.

    Read it with care: rolled-out attnresln_n (the first norm without the second) correlates *negatively* with saliency
    on fine-tuned BERT (-.21 on SST-2), where norms of whole blocks (`block_n`) give +.77.
    """
    rolled = list(shares(maps))
    for layer in range(1, len(rolled)):
        rolled[layer] = rolled[layer] @ rolled[layer - 1]
    return torch.stack(rolled)


def shares(maps: Float[Tensor, "*_ t s"]) -> Float[Tensor, "*_ t s"]:
    """Rows divided by their sums; a row of zeros stays zero."""
    sums = maps.sum(dim=-1, keepdim=True)
    return maps / torch.where(sums == 0, 1, sums)


def alti(block: Block, mask: Bool[Tensor, "b s"], budget: int = BUDGET) -> Float[Tensor, "b t s"]:
    """Share of each source in the state between attention and feed-forward, zero at padding (Ferrando et al. 2022).

    c_ij = max(0, |y_i|_1 - |y_i - z_ij|_1), rows normalised: how much nearer to the real state y_i, biases and all, its
    vector z_ij (that of attnresln_n) brings the target.
    """
    return by_sequence(single(block), mask, lambda alone: shares(_nearer(alone, budget)))


def _nearer(block: Block, budget: int) -> Float[Tensor, "t s"]:
    state, residual = block.middle[0], settled(block, block.input)[0]
    weight, scale = arrival_weight(anatomy_of(block)), arrival_scale(block)[0]
    whole = state.norm(p=1, dim=-1, keepdim=True)
    distances = whole.repeat(1, block.attention.shape[-1])
    for targets, sources, vectors in pairs(block, weight, budget):
        vectors.mul_(scale[targets])
        places = block.places[targets]
        both = ((places >= sources.start) & (places < sources.stop)).nonzero()[:, 0]  # targets that are sources here
        vectors[places[both] - sources.start, both] += residual[targets][both]
        distances[targets, sources] = vectors.sub_(state[targets]).norm(p=1, dim=-1).T
    return (whole - distances).clamp(min=0)
