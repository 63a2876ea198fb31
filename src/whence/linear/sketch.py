"""The norms of Jacobian blocks from a few random directions of every source token, with their standard errors.

For k random directions u_p of length sqrt(w), at right angles to one another, in the w dimensions of source token j,

    |J_ij|_F^2 ~ mean_p |J_ij u_p|^2,    variance (1 - k / w) s^2 / k,

without bias, with s^2 the sample variance of the |J_ij u_p|^2. The directions have one length: Gaussian lengths would
add variance and nothing else. At k = w the answer is exact and the error zero.

`error` is the share of a token's contribution that is put at the wrong source: half the sum over sources of the
expected |error of c_ij|, the total variation distance of a row from the true one, averaged over layers and targets.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.linear.controls import spread, steadied
from whence.linear.fold import FOLDED, PLAIN, Folded, making, pays
from whence.linear.local import measuring
from whence.linear.travel import Bundle, Road, Sizes, travel
from whence.models.memory import gigabytes
from whence.models.tangent import Chain

PILOT, SOME = 4, 12  # probes and sources tried before the number needed is estimated
MARGIN = 1.25  # on the number they foresee, where a second round would make all maps again; else it is one fewer
COPIES = 3  # of what the probes found, while their mean is steadied and its error estimated
USUAL = 10  # probes that progress counts on before it is known how many it takes
PRIOR = 12  # probes that the pooled variance counts for
MEAN_DEVIATION = math.sqrt(2 / math.pi)  # E|x| of a normal x of standard deviation one
SAVED = 0.4  # of the probes, when layer 1 is known


@dataclass(frozen=True, eq=False)
class First:
    """What is known of layer 1: its exact squared norms, and the maps they came from where there is room for them."""

    squares: Float[Tensor, "target source"]
    folded: Folded | None


@dataclass(frozen=True, eq=False)
class Sketch:
    """Norms, their standard errors, what is misplaced on average; how many probes it took."""

    norms: Float[Tensor, "layer target source"]
    errors: Float[Tensor, "layer target source"]
    misplaced: float
    probes: int


def sketched(
    road: Road, sources: Sequence[int], error: float, seed: int, first: Callable[[Road], First | None]
) -> Sketch:
    """As many probes as the error needs.

    A few sources are tried first. When they say that it will take many probes, `first` is asked for layer 1, whose
    exact norms steady those of the others (`controls`), and whose maps take the other probes through it.
    """
    if not 0 < error < 1:
        raise BadInput(f"The error is a share between 0 and 1, and {error} was given.")
    width = road.chain.width
    count = min(PILOT, width)
    trial = _Trial(road, sources, seed)
    trial.reach(count, trial.some, USUAL)
    needed = _needed(count, trial.foreseen(), error, width)
    if needed > count and _steadying_pays(trial.road, needed * len(sources)):
        trial.know(first(trial.road))
        needed = _needed(count, trial.foreseen(), error, width)
    if needed > count:
        folding = pays(needed * len(sources), road.chain.steps[0])
        needed = min(width, math.ceil(MARGIN * needed)) if folding else needed - 1
    everywhere = range(len(sources))
    while True:
        trial.reach(needed, everywhere)
        squares = trial.steady(everywhere)
        reached = misplaced(*estimate(squares, width, careful=False), whole=trial.whole)
        if reached <= error or needed == width:
            return Sketch(*estimate(squares, width, spread=trial.spread()), reached, needed)
        needed = max(needed + 1, _needed(needed, reached, error, width))


def estimate(
    squares: Float[Tensor, "k layer target source"],
    width: int,
    careful: bool = True,
    spread: Float[Tensor, "k layer target source"] | None = None,
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"]]:
    """Norms and standard errors from the squared lengths of k of `width` orthogonal directions.

    The variance is that of the squares, or of what is given as their `spread`. From few probes it is itself uncertain,
    so each is pooled with the mean over the targets of its layer and source: right on average, and too small just where
    the norm came out too small. To be careful, the larger of that and the cell's own is taken. norm ± t error, with
    Student's t of k - 1 degrees of freedom, is an interval for a normal mean; squared lengths are skewed, so it is
    exact only with many probes (what it was measured to hold is in docs/measures/contribution.md). The error of a root
    is that of the square over twice the root.
    """
    count = len(squares)
    mean = squares.mean(dim=0)
    varying = squares if spread is None else spread
    own = (varying / torch.where(mean > 0, mean, 1.0)).var(dim=0)  # a mean that is tiny has no square
    reached = (mean > 0).sum(dim=1, keepdim=True).clamp(min=1)
    pooled = own.sum(dim=1, keepdim=True) / reached
    shrunk = ((count - 1) * own + PRIOR * pooled) / (count - 1 + PRIOR)
    variance = torch.maximum(own, shrunk) if careful else shrunk
    relative = (variance / count * max(0.0, 1 - count / width)).sqrt()
    return mean.sqrt(), mean.sqrt() * relative / 2


def misplaced(
    norms: Float[Tensor, "layer target source"],
    errors: Float[Tensor, "layer target source"],
    counts: Float[Tensor, "target source"] | float = 1.0,
    whole: bool = True,
) -> float:
    """Expected share of a row's contribution put at the wrong source, averaged over layers and targets.

    A cell stands for `counts` sources like it. When the sources are not the whole row, an error is not made up for by
    that of the sum, which is not known.
    """
    found = shares_error(norms, errors, counts) if whole else errors / _total(norms, counts)
    return ((found * counts).sum(dim=-1) * MEAN_DEVIATION / 2).mean().item()


def shares_error(
    norms: Float[Tensor, "layer target source"],
    errors: Float[Tensor, "layer target source"],
    counts: Float[Tensor, "target source"] | float = 1.0,
) -> Float[Tensor, "layer target source"]:
    """Standard errors of c_ij = n_ij / sum_k n_ik; those of the n_ij are independent."""
    total = _total(norms, counts)
    share, squared = norms / total, errors.square()
    others = (squared * counts).sum(dim=-1, keepdim=True) - squared
    return ((1 - share).square() * squared + share.square() * others).sqrt() / total


def _total(
    norms: Float[Tensor, "layer target source"], counts: Float[Tensor, "target source"] | float
) -> Float[Tensor, "layer target 1"]:
    """The sum of a row; one where nothing flows."""
    total = (norms * counts).sum(dim=-1, keepdim=True)
    return torch.where(total > 0, total, 1.0)


def probes(width: int, source: int, count: int, seed: int) -> Float[Tensor, "k w"]:
    """The first `count` random directions of a source token, at right angles and of length sqrt(width).

    They depend on the seed and the source alone; more of them begin with the same ones.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + source) % 2**63)
    drawn = [torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(count)]
    return torch.linalg.qr(torch.stack(drawn, dim=1)).Q.T * math.sqrt(width)


def _needed(count: int, reached: float, error: float, width: int) -> int:
    """How many probes it takes to reach an error, after what `count` of them reached."""
    return min(width, max(count, math.ceil(count * (reached / error) ** 2)))


def _steadying_pays(road: Road, tangents: int) -> bool:
    """Whether the exact norms of layer 1 cost less than they save: tangents, and for the others part of layer 1."""
    step = road.chain.steps[0]
    saved = SAVED * road.depth * PLAIN + (1 - SAVED) * (PLAIN - FOLDED)
    return saved * tangents > (making(step) + measuring(step)) * step.states.shape[-1]


class _Trial:
    """Squared lengths of J_ij times the probes tried so far, and the squared norms of layer 1 where they are known."""

    def __init__(self, road: Road, sources: Sequence[int], seed: int) -> None:
        self.road, self.sources, self.seed = road, sources, seed
        self.squares = road.chain.states.new_zeros(0, road.depth, len(road.chain.states), len(sources))
        self.done, self.spent = [0] * len(sources), 0
        self.first: Float[Tensor, "target source"] | None = None

    def know(self, first: First | None) -> None:
        if first is not None:
            self.first, self.road = first.squares, self.road.keeping(first.folded)

    @property
    def whole(self) -> bool:
        """Whether the sources are all there are."""
        return len(set(self.sources)) == len(self.road.chain.states)

    @property
    def some(self) -> list[int]:
        """Places of a few sources, from the first to the last."""
        return torch.linspace(0, len(self.sources) - 1, min(SOME, len(self.sources))).round().int().tolist()

    def reach(self, count: int, places: Iterable[int], expected: int = 0) -> None:
        """So many probes for the sources at these places, out of those expected in all."""
        chain, squares = self.road.chain, self.squares
        if count > PILOT:
            self._check_room(count)
        squares = torch.cat([squares, squares.new_zeros(max(0, count - len(squares)), *squares.shape[1:])])
        lacking = [(place, range(self.done[place], count)) for place in places if self.done[place] < count]

        def visit(layer: int, sizes: Sizes, tangents: Float[Tensor, "u k m"]) -> None:
            found = torch.linalg.vector_norm(tangents, dim=-1).square().T
            for which, own in zip(sizes, found.split(list(sizes.values())), strict=True):
                place, probed = lacking[which]
                squares[probed.start : probed.stop, layer, len(chain.states) - len(tangents) :, place] = own

        bundles = [
            Bundle(source := self.sources[place], _vectors(chain, source, probed, self.seed))
            for place, probed in lacking
        ]
        if bundles:
            tangents = sum(len(bundle.vectors) for bundle in bundles)
            road = self._telling(tangents, expected)
            travel(replace(road, memory=road.memory - _bytes(squares)), bundles, visit)
            self.spent += tangents
        for place, _ in lacking:
            self.done[place] = count
        self.squares = squares

    def _check_room(self, count: int) -> None:
        """What so many probes find has to fit into the memory too."""
        needed = COPIES * count * _bytes(self.squares.new_empty(1, *self.squares.shape[1:]))
        if needed > self.road.memory:
            raise BadInput(
                f"An error that small takes {count} probes of every token, or {gigabytes(needed)}, and"
                f" {gigabytes(self.road.memory)} may be used; allow a larger error (error=) or more (memory_limit=)."
            )

    def _telling(self, tangents: int, expected: int) -> Road:
        """The road, with progress that goes on where the last round left it."""
        progress, depth, spent = self.road.progress, self.road.depth, self.spent
        if progress is None:
            return self.road
        whole = depth * max(spent + tangents, expected * len(self.sources))
        return replace(self.road, progress=lambda done, _: progress(depth * spent + done, whole))

    def steady(self, places: Sequence[int]) -> Float[Tensor, "k layer target source"]:
        """Squared lengths of the sources at these places, steadied where layer 1 is known."""
        squares = self.squares[..., places]
        if self.first is None:
            return squares
        return steadied(squares, self.first[:, places], [self.sources[place] for place in places])

    def spread(self) -> Float[Tensor, "k layer target source"]:
        """How far the steadied lengths of all sources may be off, by leaving out each probe in turn."""
        return self.squares if self.first is None else spread(self.squares, self.first, self.sources)

    def foreseen(self) -> float:
        """What is misplaced when the other sources are like the few, seen at the targets that are those sources."""
        sources = [self.sources[place] for place in self.some]
        norms, errors = estimate(self.steady(self.some), self.road.chain.width, careful=False)
        counts = norms.new_full((len(sources), len(sources)), (len(self.sources) - 1) / max(1, len(sources) - 1))
        return misplaced(norms[:, sources], errors[:, sources], counts.fill_diagonal_(1), self.whole)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _vectors(chain: Chain, source: int, which: range, seed: int) -> Float[Tensor, "k m"]:
    vectors = probes(chain.width, source, which.stop, seed)[which.start :].to(chain.states)
    return vectors if chain.start is None else vectors @ chain.start[source]
