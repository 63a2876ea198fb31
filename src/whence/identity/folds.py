"""Which sentences train, which stop the training, which are tested; no sentence is in two of them."""

from dataclasses import dataclass

import numpy as np

from whence._arguments import whole
from whence.errors import BadInput

HELD_OUT = 0.15  # for validation, and as much again for the test (Brunner et al. 2020)


@dataclass(frozen=True)
class Fold:
    """Numbers of sentences; `number` tells the folds apart, from 1 on."""

    number: int
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def folds_of(sentences: int, count: int, seed: int, train_share: float = 1.0) -> tuple[Fold, ...]:
    """`count` splits of the sentences, 70/15/15.

    The sentences are shuffled once into a ring; fold k starts k/count of the way round it. With ten folds every
    sentence is tested once or twice, and neighbouring folds share most of their training data, which the solver uses.
    """
    _check(sentences, count, train_share)
    held = max(1, round(HELD_OUT * sentences))
    order = np.random.default_rng(seed).permutation(sentences)
    starts = [round(fold * sentences / count) for fold in range(count)]
    return tuple(_cut(fold, np.roll(order, -start), held, train_share) for fold, start in enumerate(starts, start=1))


def _cut(number: int, order: np.ndarray, held: int, train_share: float) -> Fold:
    train, validation, test = np.split(order, [len(order) - 2 * held, len(order) - held])
    return Fold(number, train[: max(1, round(train_share * len(train)))], validation, test)


def _check(sentences: int, count: int, train_share: float) -> None:
    whole("folds", count, 1)
    if not 0 < train_share <= 1:
        raise BadInput(f"The share of the training sentences is above 0 and at most 1, and {train_share} was given.")
    needed = max(count, 3)
    if sentences < needed:
        raise BadInput(
            f"{count} fold{'s' * (count > 1)} need at least {needed} sentences, and the corpus has {sentences};"
            " give more text or ask for fewer folds."
        )
