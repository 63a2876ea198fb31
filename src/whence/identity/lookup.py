"""Which vector of the sentence lies nearest, and was it the right one: nearest neighbours, ties counted honestly.

When k candidates are equally near, as are the embeddings of a repeated token where no position is added to them, the
look-up is right with probability 1/k if the right one is among them, and that is what is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from whence.identity.probes import LOSSES, PROBES, Weights
from whence.identity.task import Piece, Task

# scores this near each other, relative to the lengths of the vectors, are equal as far as float32 can tell
TIE = 2e-6


@dataclass(frozen=True)
class Outcome:
    """Of every token tested: its row, whether its vector was found (a share for ties), whether one with the same token
    id was, the position taken for it; and the mean loss.
    """

    places: np.ndarray
    found: np.ndarray
    type_found: np.ndarray
    answer: np.ndarray
    loss: float

    @property
    def rate(self) -> float:
        return float(self.found.mean())

    @property
    def type_rate(self) -> float:
        return float(self.type_found.mean())


def evaluate(probe: str, weights: Sequence[Weights], loss: str, task: Task, sentences: np.ndarray) -> list[Outcome]:
    """The outcome of each set of weights on the same sentences, which are read once."""
    parts: list[list[Outcome]] = [[] for _ in weights]
    for piece in task.pieces(sentences):
        target = piece.wanted
        for probe_weights, outcomes in zip(weights, parts, strict=True):
            predicted = PROBES[probe].apply(probe_weights, piece.hidden)
            losses = LOSSES[loss](predicted, target)[piece.tested]
            outcomes.append(look_up(predicted, piece, loss, float(losses.mean())))
    return [_joined(outcomes) for outcomes in parts]


def look_up(predicted: Float[Tensor, "b s m"], piece: Piece, loss: str, mean_loss: float = np.nan) -> Outcome:
    """Every token's nearest candidate within its sentence."""
    scores, scale = _SCORES[loss](predicted, piece.candidates)
    scores = scores.masked_fill(~piece.real[:, None, :], -torch.inf)
    best = scores.max(dim=-1, keepdim=True)
    scale = scale.expand_as(scores)
    tied = scores >= best.values - TIE * (scale + scale.gather(-1, best.indices)) / 2
    count = tied.sum(dim=-1)
    found = tied.gather(2, piece.goal[..., None])[..., 0] / count
    same_type = piece.ids[:, None, :] == piece.ids.gather(1, piece.goal)[:, :, None]
    type_found = (tied & same_type).sum(dim=-1) / count
    columns = (piece.places, found, type_found, best.indices[..., 0])
    places, found, type_found, answer = (column[piece.tested] for column in columns)
    return Outcome(places.numpy(), found.numpy(), type_found.numpy(), answer.numpy(), mean_loss)


def _cosine(predicted: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    return normalize(predicted, dim=-1) @ normalize(candidates, dim=-1).mT, predicted.new_ones(())


def _l2(predicted: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """2 <p, c> - |c|^2, which orders candidates as -|p - c|^2 does but is more exact where p is long."""
    squares = candidates.square().sum(dim=-1)[:, None, :]
    return 2 * predicted @ candidates.mT - squares, squares + predicted.norm(dim=-1, keepdim=True) * squares.sqrt()


# candidates' scores, the nearest highest, and the scale that their rounding errors have: a candidate's own, so that a
# huge one does not make ties of the others
_SCORES = {"cosine": _cosine, "l2": _l2}


def _joined(parts: list[Outcome]) -> Outcome:
    sizes = [len(part.places) for part in parts]
    return Outcome(
        places=np.concatenate([part.places for part in parts]),
        found=np.concatenate([part.found for part in parts]),
        type_found=np.concatenate([part.type_found for part in parts]),
        answer=np.concatenate([part.answer for part in parts]),
        loss=float(np.average([part.loss for part in parts], weights=sizes)),
    )


def chance(task: Task, sentences: np.ndarray) -> float:
    """What guessing gives: the mean of one over the sentence's length; 1 / mean length when every token is asked."""
    lengths = task.states.lengths[sentences]
    counts = np.maximum(lengths - abs(task.offset), 0)
    return float((counts / lengths).sum() / counts.sum())
