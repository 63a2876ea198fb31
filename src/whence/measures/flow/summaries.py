"""What a map of contributions says in a few numbers: what is left of a token, how far context comes."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# first and last neighbour of a group, by distance (Brunner et al. 2020, figure 4a)
NEIGHBOURS: dict[str, tuple[int, int | None]] = {
    "1": (1, 1),
    "2": (2, 2),
    "3": (3, 3),
    "4-5": (4, 5),
    "6-10": (6, 10),
    "11+": (11, None),
}


def shares(norms: Float[Tensor, "layer target source"]) -> Float[Tensor, "layer target source"]:
    """Hidden Token Attribution: c_ij = |J_ij| / sum_k |J_ik|, over all sources (Brunner et al. 2020)."""
    return norms / norms.sum(dim=-1, keepdim=True)


def own(contribution: Float[Tensor, "layer token token"]) -> Float[Tensor, "layer token"]:
    """c_jj: the share of a token's state that came from the token itself."""
    return contribution.diagonal(dim1=1, dim2=2)


def own_is_largest(contribution: Float[Tensor, "layer token token"]) -> Bool[Tensor, "layer token"]:
    """Whether a token is its own largest contributor."""
    return own(contribution) >= contribution.amax(dim=-1)


def by_distance(contribution: Float[Tensor, "layer token token"]) -> Float[Tensor, "layer distance"]:
    """Total contribution by relative position, source - target, from 1 - s to s - 1 (Brunner et al. 2020, fig. 4b)."""
    reach = contribution.shape[-1] - 1
    sums = [contribution.diagonal(distance, dim1=1, dim2=2).sum(dim=-1) for distance in range(-reach, reach + 1)]
    return torch.stack(sums, dim=-1)


def by_neighbour(contribution: Float[Tensor, "layer token token"]) -> Float[Tensor, "layer token group"]:
    """Mean contribution of each group of neighbours to a token: left and right first, then the distances of the group.

    NaN where a token has no neighbour so far away. Averaged over tokens and divided by its sum over layers it is
    figure 4a.
    """
    farthest = max(contribution.shape[-1] - 1, max(first for first, _ in NEIGHBOURS.values()))
    pairs = torch.stack([_sides(contribution, distance) for distance in range(1, farthest + 1)], dim=-1)
    groups = [pairs[..., first - 1 : last].nanmean(dim=-1) for first, last in NEIGHBOURS.values()]
    return torch.stack(groups, dim=-1)


def _sides(contribution: Float[Tensor, "layer token token"], distance: int) -> Float[Tensor, "layer token"]:
    """The mean of a token's left and right neighbour at a distance, or the one there is."""
    layers, tokens = contribution.shape[:2]
    missing = contribution.new_full((layers, min(distance, tokens)), torch.nan)
    left = torch.cat([missing, contribution.diagonal(-distance, dim1=1, dim2=2)], dim=-1)
    right = torch.cat([contribution.diagonal(distance, dim1=1, dim2=2), missing], dim=-1)
    return torch.stack([left, right]).nanmean(dim=0)
