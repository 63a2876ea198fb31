"""The norms of the Jacobian from as many random directions as an error takes (`linear.probes`).

`error` is the share of a token's contribution that is put at the wrong source: half the sum over sources of the
expected |error of c_ij|, the total variation distance of a row from the true one, averaged over layers and targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.linear import cost
from whence.linear.probes import directions, estimate, misplaced, needed, share_errors
from whence.linear.propagate import making
from whence.measures.flow.rows import Cells, Rows
from whence.models.memory import gigabytes

PILOT, SOME = 6, 12  # probes and starts tried before the number needed is estimated
COPIES = 3  # of what the probes found, while their errors are estimated
USUAL = 10  # probes that progress counts on before it is known how many it takes


@dataclass(frozen=True, eq=False)
class Sketch:
    """Norms and their standard errors, those of the shares, what is misplaced on average; how many probes it took."""

    norms: Float[Tensor, "layer target source"]
    errors: Float[Tensor, "layer target source"]
    share_errors: Float[Tensor, "layer target source"]
    misplaced: float
    probes: int


def sketched(rows: Rows, error: float, seed: int) -> Sketch:
    """As many probes as the error needs; a few starts are tried first."""
    if not 0 < error < 1:
        raise BadInput(f"The error is a share between 0 and 1, and {error} was given.")
    width, trial = rows.width, _Trial(rows, seed)
    count = min(PILOT, width)
    trial.reach(count, trial.some, USUAL)
    wanted = needed(count, trial.foreseen(), error, width)
    if wanted > count and not trial.multiplies(wanted):  # else a second round would make all matrices again
        wanted -= 1
    while True:
        trial.reach(wanted, range(len(rows.starts)))
        reached = misplaced(share_errors(trial.squares, width, careful=False, whole=rows.whole))
        if reached <= error or wanted == width:
            return trial.sketch(reached)
        wanted = max(wanted + 1, needed(wanted, reached, error, width))


class _Trial:
    """Squared lengths of what the probes tried so far have become."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.squares = rows.states.new_zeros(0, *rows.shape)
        self.done, self.spent = [0] * len(rows.starts), 0

    @property
    def some(self) -> list[int]:
        """Places of a few starts, from the first to the last."""
        count = len(self.rows.starts)
        return torch.linspace(0, count - 1, min(SOME, count)).round().int().tolist()

    def multiplies(self, count: int) -> bool:
        step = self.rows.propagator.chain.steps[0]
        return cost.multiplying_pays(count * len(self.rows.starts), step.states.shape[-1], making(step))

    def reach(self, count: int, places: Sequence[int], expected: int = 0) -> None:
        """So many probes for the starts at these places, out of those expected in all."""
        self._check_room(count)
        squares = self.squares
        squares = torch.cat([squares, squares.new_zeros(max(0, count - len(squares)), *squares.shape[1:])])
        lacking = {place: self.done[place] for place in places if self.done[place] < count}

        def take(place: int, cells: Cells, arrived: Float[Tensor, "k u m"]) -> None:
            arrived = torch.linalg.vector_norm(arrived, dim=-1).square().to(squares.device)
            squares[(slice(lacking[place], count), *cells)] = arrived

        if lacking:
            vectors = [(place, self._probes(place, count)[done:]) for place, done in lacking.items()]
            self.rows.send(vectors, take, self.spent, expected * len(self.done), squares.nbytes)
            self.spent += sum(count - done for done in lacking.values())
        for place in lacking:
            self.done[place] = count
        self.squares = squares

    def _probes(self, place: int, count: int) -> Float[Tensor, "k w"]:
        """They depend on the seed, the token and the layer alone."""
        layer, token = self.rows.starts[place]
        return directions(self.rows.width, count, self.seed * 1_000_003 + (layer << 32) + token).to(self.squares)

    def _check_room(self, count: int) -> None:
        """What so many probes find has to fit into the memory too."""
        taken = COPIES * count * self.squares.new_empty(1, *self.squares.shape[1:]).nbytes
        memory = self.rows.propagator.memory
        if count > PILOT and taken > memory:
            raise BadInput(
                f"An error that small takes {count} probes of every token, or {gigabytes(taken)}, and"
                f" {gigabytes(memory)} may be used; allow a larger error (error=) or more (memory_limit=)."
            )

    def foreseen(self) -> float:
        """What is misplaced when the other starts are like the few."""
        squares, counts = self.rows.among(self.squares, self.some)
        errors = share_errors(squares, self.rows.width, counts, careful=False, whole=self.rows.whole)
        return misplaced(errors, counts)

    def sketch(self, reached: float) -> Sketch:
        width = self.rows.width
        shares = share_errors(self.squares, width)
        return Sketch(*estimate(self.squares, width), shares, reached, len(self.squares))
