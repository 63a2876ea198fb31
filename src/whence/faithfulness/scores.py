"""What an intervention says of a ranking: arrays only, no model.

With lost(S) the log-probability that is lost when the sources S are taken away, r a ranking of n sources:

comprehensiveness  mean over k of lost(first k % of r): large when the ranking's first sources matter
sufficiency        mean over k of lost(all but the first k % of r): small when they are enough (DeYoung et al. 2020)
leave-one-out      Spearman's correlation of r with lost({j}), source by source
"""

import numpy as np
from jaxtyping import Float

SHARES = (0.1, 0.2, 0.5)  # k: less than a tenth is less than a token of most sentences


def ranked(scores: Float[np.ndarray, " n"], seed: int) -> list[int]:
    """Places from the highest score to the lowest; ties in an order of chance, not by their place in the text."""
    chance = np.random.default_rng(seed).permutation(len(scores))
    return np.lexsort((chance, -scores)).tolist()


def midranks(values: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b n"]:
    """Ranks from 1 along the last axis, equal values at the mean of theirs."""
    below = (values[..., None] > values[..., None, :]).sum(axis=-1)
    equal = (values[..., None] == values[..., None, :]).sum(axis=-1)
    return below + (equal + 1) / 2


def rank_correlation(first: Float[np.ndarray, "*b n"], second: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, " *b"]:
    """Spearman's coefficient along the last axis; NaN where a row does not vary or is not all numbers."""
    return _pearson(_checked(first), _checked(second))


def partial(
    first: Float[np.ndarray, "*b n"], second: Float[np.ndarray, "*b n"], held: Float[np.ndarray, "*b n"]
) -> Float[np.ndarray, " *b"]:
    """Spearman's coefficient of the first two with the third held constant.

    (r_12 - r_13 r_23) / sqrt((1 - r_13^2) (1 - r_23^2)); NaN where one of them follows the third exactly.
    """
    both, with_first, with_second = (
        rank_correlation(*pair) for pair in ((first, second), (first, held), (second, held))
    )
    rest = (1 - with_first**2) * (1 - with_second**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rest > 1e-9, (both - with_first * with_second) / np.sqrt(rest), np.nan)


def _checked(values: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b n"]:
    """Ranks, NaN throughout a row that is not all numbers."""
    return np.where(np.isfinite(values).all(axis=-1, keepdims=True), midranks(values), np.nan)


def _pearson(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    first, second = (values - values.mean(axis=-1, keepdims=True) for values in (first, second))
    spread = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, (first * second).sum(axis=-1) / spread, np.nan)
