"""What an answer rests on in the prompt when part of it rests on tokens that were generated on the way."""

import numpy as np
from jaxtyping import Float


def through(
    shares: Float[np.ndarray, "predicted source"], positions: list[int], first: int
) -> tuple[Float[np.ndarray, "predicted source"], Float[np.ndarray, " predicted"]]:
    """The prompt's part in each prediction, handed on from generated tokens to what those were predicted from.

    `shares` are signed parts of each logit; here they count by their size, in rows that sum to one. With P the columns
    of the prompt and G those of the answer's own tokens, which stand behind what they were predicted from,

        T = P + G T = (I - G)^-1 P,

    which ends because an answer's token rests on earlier ones alone. Rows of T sum to one. The second result is how
    much of each row came through generated tokens.
    """
    sizes = np.abs(shares)
    rows = sizes / np.where(sizes.sum(axis=1, keepdims=True) > 0, sizes.sum(axis=1, keepdims=True), 1)
    handed = np.zeros_like(rows)
    carried = np.zeros(len(rows), dtype=rows.dtype)
    explained = {position + 1: row for row, position in enumerate(positions)}  # the token each row predicted
    for row in range(len(rows)):
        handed[row, :first] = rows[row, :first]
        for source in range(first, positions[row] + 1):
            handed[row] += rows[row, source] * handed[explained[source]]
            carried[row] += rows[row, source]
    return handed, carried
