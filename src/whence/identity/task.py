"""Which vector is to give back which: hidden states of a layer, and the vectors of their sentence to be found."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whence.identity.states import States
from whence.models.batching import batches

CHUNK = 8192  # tokens in memory at a time


@dataclass(frozen=True)
class Piece:
    """A few sentences side by side. `asked` marks the tokens whose goal lies inside the sentence."""

    hidden: Float[Tensor, "b s m"]
    candidates: Float[Tensor, "b s m"]
    real: Bool[Tensor, "b s"]
    tested: Bool[Tensor, "b s"]
    goal: Int[Tensor, "b s"]
    ids: Int[Tensor, "b s"]
    places: Int[Tensor, "b s"]

    @property
    def wanted(self) -> Float[Tensor, "b s m"]:
        """The vector each token should give back."""
        return self.candidates.gather(1, self.goal[..., None].expand_as(self.candidates))


@dataclass(frozen=True)
class Task:
    """From token i of `layer` to token i + `offset` of `goal_layer` (0: the input embedding)."""

    states: States
    layer: int
    goal_layer: int = 0
    offset: int = 0

    @property
    def width(self) -> int:
        return self.states.width

    def places(self, sentences: Sequence[int] | np.ndarray) -> np.ndarray:
        """The rows of those sentences' tokens that have a goal."""
        ranges = []
        for number in sentences:
            start, length = self.states.starts[number], self.states.lengths[number]
            ranges.append(np.arange(start + max(0, -self.offset), start + length - max(0, self.offset)))
        return np.concatenate(ranges) if ranges else np.empty(0, dtype=np.int64)

    def rows(self, places: np.ndarray) -> tuple[Float[Tensor, "n m"], Float[Tensor, "n m"]]:
        """Hidden vectors and the vectors they should give back."""
        hidden, target = self.states.layer(self.layer)[places], self.states.layer(self.goal_layer)[places + self.offset]
        return torch.from_numpy(hidden), torch.from_numpy(target)

    def chunks(self, sentences: np.ndarray) -> Iterator[tuple[Float[Tensor, "n m"], Float[Tensor, "n m"]]]:
        """The same for whole sentences, a bounded number of rows at a time."""
        places = self.places(sentences)
        for start in range(0, len(places), CHUNK):
            yield self.rows(places[start : start + CHUNK])

    def pieces(self, sentences: np.ndarray) -> Iterator[Piece]:
        """The sentences, those of like length together."""
        for places in batches(self.states.lengths[sentences].tolist(), lambda longest: CHUNK // longest):
            yield self._piece(sentences[places])

    def _piece(self, sentences: np.ndarray) -> Piece:
        lengths = torch.from_numpy(self.states.lengths[sentences])
        position = torch.arange(int(lengths.max())).expand(len(lengths), -1)
        real = position < lengths[:, None]
        goal = position + self.offset
        tested = real & (goal >= 0) & (goal < lengths[:, None])
        places = torch.where(real, torch.from_numpy(self.states.starts[sentences])[:, None] + position, 0)
        return Piece(
            hidden=torch.from_numpy(self.states.layer(self.layer)[places.numpy()]),
            candidates=torch.from_numpy(self.states.layer(self.goal_layer)[places.numpy()]),
            real=real,
            tested=tested,
            goal=torch.where(tested, goal, 0),
            ids=torch.from_numpy(self.states.ids[places.numpy()]),
            places=places,
        )
