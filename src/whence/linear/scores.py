"""How what the heads of an attention give moves with keys, values and queries."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.models.tangent import Attended


def heads_tangent(
    attended: Attended, seen: slice, keys: Float[Tensor, "u k p"], values: Float[Tensor, "u k q"]
) -> Float[Tensor, "u k n"]:
    """sum_j A_ij dv_j + sum_j g_ij (q_i dk_j) (v_j - c_i), the tangent of what the heads give but for the queries.

    Every product is one large one per group: targets and the heads that share keys are its rows. Sources stand last in
    the scores, so that they are summed over as they lie.
    """
    groups, tangents = len(attended.key), keys.shape[1]
    keys = rearrange(keys, "u k (g d) -> g d (k u)", g=groups)
    values = rearrange(values, "u k (g e) -> g u (k e)", g=groups)
    query = rearrange(attended.query[:, :, seen], "g r t d -> g (r t) d")
    scores = rearrange(torch.bmm(query, keys), "g x (k s) -> g x k s", k=tangents)
    scores.mul_(rearrange(attended.gain[:, :, seen, seen], "g r t s -> g (r t) 1 s"))
    weights = rearrange(attended.weights[:, :, seen, seen], "g r t s -> g (r t) s")
    heads = rearrange(torch.bmm(weights, values), "g x (k e) -> g (x k) e", k=tangents)
    heads.baddbmm_(rearrange(scores, "g x k s -> g (x k) s"), attended.value[:, seen])
    heads = rearrange(heads, "g (x k) e -> g x k e", k=tangents)
    mixed = rearrange(attended.mixed[:, :, seen], "g r t e -> g (r t) 1 e")
    heads.addcmul_(scores.sum(dim=-1, keepdim=True), mixed, value=-1)
    return rearrange(heads, "g (r u) k e -> u k (g r e)", u=weights.shape[-1])


def scores_spread(attended: Attended) -> Float[Tensor, "g r t d e"]:
    """C_i = sum_j g_ij k_j (v_j - c_i)^T for every head."""
    pairs = rearrange(attended.key[..., None] * attended.value[:, :, None], "g s d e -> g 1 s (d e)")
    spread = rearrange(attended.gain @ pairs, "g r t (d e) -> g r t d e", d=attended.key.shape[-1])
    middle = attended.gain @ attended.key[:, None]
    return spread.sub_(middle[..., None] * attended.mixed[..., None, :])
