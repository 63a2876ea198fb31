"""Where each hidden token came from: the size of the derivative of every token's state by every token's embedding.

J^l_ij = d h^l_i / d h^0_j is a matrix; its size is its Frobenius norm (Hidden Token Attribution, Brunner et al. 2020),
its spectral norm, or the length of 1^T J_ij, the gradient of the sum of the state's components (G*, Westera 2019).
Local derivatives are those of one block alone, d h^l_i / d h^(l-1)_j.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from whence._arguments import numbers
from whence.errors import BadInput
from whence.linear.local import frobenius, local_frobenius, multiplies_out
from whence.linear.sketch import First, shares_error, sketched
from whence.linear.travel import Bundle, Progress, Road, Sizes, portion, travel
from whence.measures.flow.summaries import shares
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.linearise import linearised
from whence.models.stack import Stack
from whence.models.tangent import Chain

NORMS = ("frobenius", "spectral", "ones")
MODES = ("auto", "exact", "sketch")
STARTS = ("embedding", "sum")
FEW = 4  # source tokens up to which `auto` is exact
MEMORY = 2**31


@dataclass(frozen=True, eq=False)
class Flow:
    """Norms of J_ij at the layers, targets and sources asked for; their standard errors when they were sketched.

    `probes` is how many directions of each source token were tried: all of them when exact. `misplaced` is the share of
    a contribution that is expected at the wrong source, the mean over all targets and the layers down to the last.
    """

    norms: Float[Tensor, "layer target source"]
    probes: int
    layers: tuple[int, ...]
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    tokens: int
    standard_error: Float[Tensor, "layer target source"] | None = None
    misplaced: float = 0.0

    @property
    def contribution(self) -> Float[Tensor, "layer target source"]:
        """c_ij = |J_ij| / sum_k |J_ik|: rows sum to one (Hidden Token Attribution, Brunner et al. 2020)."""
        self._check_complete()
        return shares(self.norms)

    @property
    def contribution_error(self) -> Float[Tensor, "layer target source"] | None:
        """Standard errors of the contributions when they were sketched."""
        self._check_complete()
        return None if self.standard_error is None else shares_error(self.norms, self.standard_error)

    def _check_complete(self) -> None:
        if sorted(self.sources) != list(range(self.tokens)):
            raise BadInput(
                f"A contribution is a share of all {self.tokens} sources, and {len(self.sources)} were measured;"
                " measure all, or use the norms."
            )


def jacobian(
    anatomy: Anatomy,
    batch: Batch,
    norm: str = "frobenius",
    mode: str = "auto",
    start: str = "embedding",
    layers: Iterable[int] | None = None,
    targets: Iterable[int] | None = None,
    sources: Iterable[int] | None = None,
    error: float = 0.02,
    seed: int = 0,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """The norm of d h^l_i / d h^0_j for every layer, target and source of one sentence (Brunner et al. 2020).

    `start="sum"` differentiates by the sum of the embeddings before their norm; without such a norm it is layer 0.
    `mode="sketch"` tries random directions until `error` is reached (see `sketch`), `auto` does so past a few sources.
    """
    for name, value, known in (("norm", norm, NORMS), ("mode", mode, MODES), ("start", start, STARTS)):
        _check_known(name, value, known)
    if mode == "sketch" and norm != "frobenius":
        raise BadInput(f"Only the frobenius norm can be sketched, and {norm!r} was asked for; use mode='exact'.")
    found = _Asked.of(anatomy, batch, layers, targets, sources)
    with linearised(anatomy, batch, embedding_sum=start == "sum", depth=found.depth) as chain:
        if norm == "ones":
            ones = _ones(chain, found.depth, memory, progress)[..., list(found.sources)]
            return found.flow(ones, probes=1)
        if norm == "frobenius" and sketches(mode, len(found.sources)):
            road = Road.of(chain, found.depth, memory, progress)
            sketch = sketched(road, found.sources, error, seed, lambda road: _first(road, found))
            return found.flow(sketch.norms, sketch.probes, sketch.errors, sketch.misplaced)
        return found.flow(_exact(chain, found, norm, memory, progress), chain.width)


def sketches(mode: str, sources: int) -> bool:
    """Whether directions are tried at random."""
    return mode == "sketch" or (mode == "auto" and sources > FEW)


def jacobian_local(
    anatomy: Anatomy,
    batch: Batch,
    norm: str = "frobenius",
    layers: Iterable[int] | None = None,
    targets: Iterable[int] | None = None,
    sources: Iterable[int] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """The norm of d h^l_i / d h^(l-1)_j, of one block alone, exact."""
    _check_known("norm", norm, NORMS)
    found = _Asked.of(anatomy, batch, layers, targets, sources)
    with linearised(anatomy, batch, depth=found.depth) as chain:
        rows = []
        for done, layer in enumerate(found.layers):
            rows.append(_LOCAL[norm](Chain(chain.steps[layer - 1 : layer], chain.causal, None), memory))
            if progress is not None:
                progress(done + 1, len(found.layers))
    norms = torch.stack(rows)[:, list(found.targets)][..., list(found.sources)]
    return Flow(norms, anatomy.width, found.layers, found.targets, found.sources, found.tokens)


def gradient(
    anatomy: Anatomy,
    batch: Batch,
    start: str = "embedding",
    layers: Iterable[int] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """G*: |1^T d h^l_i / d h^0_j|, one backward pass per layer and target (Westera 2019), without dropout."""
    return jacobian(anatomy, batch, norm="ones", start=start, layers=layers, memory=memory, progress=progress)


def gradient_local(
    anatomy: Anatomy,
    batch: Batch,
    layers: Iterable[int] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """G: |1^T d h^l_i / d h^(l-1)_j|, one backward pass through one block per target (Westera 2019)."""
    return jacobian_local(anatomy, batch, norm="ones", layers=layers, memory=memory, progress=progress)


@dataclass(frozen=True)
class _Asked:
    """The layers (from 1), targets and sources (from 0) of the answer, checked."""

    layers: tuple[int, ...]
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    tokens: int

    @classmethod
    def of(cls, anatomy: Anatomy, batch: Batch, layers, targets, sources) -> "_Asked":
        tokens = batch.ids.shape[1]
        return cls(
            _within("layer", layers, 1, anatomy.layers),
            _within("target", targets, 0, tokens - 1),
            _within("source", sources, 0, tokens - 1),
            tokens,
        )

    @property
    def depth(self) -> int:
        return max(self.layers)

    def flow(self, norms: Tensor, probes: int, errors: Tensor | None = None, misplaced: float = 0.0) -> Flow:
        """The rows asked for, out of all layers up to the depth and all targets."""
        places = torch.tensor([layer - 1 for layer in self.layers])
        norms, *rest = (part[places][:, list(self.targets)] for part in (norms, errors) if part is not None)
        error = rest[0] if rest else None
        return Flow(norms, probes, self.layers, self.targets, self.sources, self.tokens, error, misplaced)


def _within(name: str, asked: Iterable[int] | None, lowest: int, highest: int) -> tuple[int, ...]:
    if asked is None:
        return tuple(range(lowest, highest + 1))
    found = tuple(dict.fromkeys(numbers(name, asked)))
    wrong = [number for number in found if not lowest <= number <= highest]
    if wrong or not found:
        raise BadInput(f"There are {name}s {lowest} to {highest}, and {wrong[0] if wrong else 'none'} was asked for.")
    return found


def _check_known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadInput(f"There is no {name} {value!r}; there are: {', '.join(known)}.")


def _exact(
    chain: Chain, asked: _Asked, norm: str, memory: int, progress: Progress | None
) -> Float[Tensor, "layer target source"]:
    """All unit changes pushed once for all layers and targets."""
    places = {source: place for place, source in enumerate(asked.sources)}
    size = portion(chain, memory) if norm == "frobenius" else chain.width
    units = chain.directions(0)  # without a start of its own every token has the same, and they are there once
    given = {source: units if chain.start is None else chain.directions(source) for source in places}
    bundles = [Bundle(source, part) for source, vectors in given.items() for part in vectors.split(size)]
    found = chain.states.new_zeros(asked.depth, asked.tokens, len(places))

    def visit(layer: int, sizes: Sizes, tangents: Float[Tensor, "u k m"]) -> None:
        for which, own in zip(sizes, tangents.split(list(sizes.values()), dim=1), strict=True):
            row = found[layer, asked.tokens - len(tangents) :, places[bundles[which].source]]
            row += _SIZES[norm](own)

    travel(Road.of(chain, asked.depth, memory, progress), bundles, visit)
    return found.sqrt()


def _squares(tangents: Float[Tensor, "u k m"]) -> Float[Tensor, " u"]:
    return torch.linalg.vector_norm(tangents, dim=(1, 2)).square()


def _largest(tangents: Float[Tensor, "u k m"]) -> Float[Tensor, " u"]:
    """The largest singular value, squared: the largest eigenvalue of J J^T."""
    return torch.linalg.eigvalsh(tangents @ tangents.mT)[:, -1].clamp(min=0)


_SIZES = {"frobenius": _squares, "spectral": _largest}


def _ones(
    chain: Chain, depth: int, memory: int, progress: Progress | None = None
) -> Float[Tensor, "layer target source"]:
    """|1^T J_ij| of every layer, as many targets at a time as the memory holds."""
    tokens = len(chain.states)
    each = 3 * depth * chain.states.numel() * chain.states.element_size()
    together = max(1, memory // 2 // each)  # the other half is for what goes through a block
    rows = []
    for targets in torch.arange(tokens, device=chain.states.device).split(together):
        rows.append(_arrived(chain, _pulled(chain, depth, targets, portion(chain, memory))).norm(dim=-1))
        if progress is not None:
            progress(int(targets[-1]) + 1, tokens)
    return torch.cat(rows, dim=1)


def _pulled(
    chain: Chain, depth: int, targets: Int[Tensor, " target"], size: int
) -> Float[Tensor, "layer target source m"]:
    """Cotangents of ones go down, and those of the next layer join them on the way: the last layer's come first."""
    ones = chain.states.new_zeros(len(targets), *chain.states.shape)
    ones[torch.arange(len(targets)), targets] = 1
    if chain.stack is not None:
        return torch.stack([_pulled_whole(chain.stack, ones, layer, size) for layer in range(1, depth + 1)])
    pulled = ones[:0]
    for step in reversed(chain.steps[:depth]):
        pulled = torch.cat([pulled, ones])
        for part in pulled.split(size):
            part.copy_(step.pull(part))  # in place: pieces that stay between those that go would tear the memory apart
    return rearrange(pulled, "(l t) s m -> l t s m", l=depth).flip(0)


def _pulled_whole(
    stack: Stack, ones: Float[Tensor, "target s m"], layer: int, size: int
) -> Float[Tensor, "target source m"]:
    """By the model's own code from one layer."""
    nothing = ones.new_zeros(len(ones), layer - 1, *ones.shape[1:])
    return torch.cat([stack.pull(part) for part in torch.cat([nothing, ones[:, None]], dim=1).split(size)])


def _arrived(chain: Chain, cotangents: Float[Tensor, "layer target s m"]) -> Float[Tensor, "layer target s w"]:
    return cotangents if chain.start is None else torch.einsum("ltsm,swm->ltsw", cotangents, chain.start)


def _first(road: Road, asked: _Asked) -> First | None:
    """Layer 1 where its exact norms are cheap; whether they are depends on model and text alone."""
    chain, step = road.chain, road.chain.steps[0]
    if chain.stack is not None or not multiplies_out(step, MEMORY):
        return None
    if not multiplies_out(step, road.memory):
        return First(_exact(chain, replace(asked, layers=(1,)), "frobenius", road.memory, None)[0].square(), None)
    folded = road.fold(0, portion(chain, road.memory))
    if folded is None:
        return None
    norms = frobenius(folded, chain.start, road.memory)
    return First(norms[:, list(asked.sources)].square(), folded)


def _local_frobenius(chain: Chain, memory: int) -> Float[Tensor, "target source"]:
    found = local_frobenius(chain.steps[0], portion(chain, memory), memory)
    return _local_exact("frobenius", chain, memory) if found is None else found


def _local_exact(norm: str, chain: Chain, memory: int) -> Float[Tensor, "target source"]:
    tokens = tuple(range(len(chain.states)))
    return _exact(chain, _Asked((1,), tokens, tokens, len(tokens)), norm, memory, None)[0]


_LOCAL = {
    "frobenius": _local_frobenius,
    "spectral": lambda chain, memory: _local_exact("spectral", chain, memory),
    "ones": lambda chain, memory: _ones(chain, 1, memory)[0],
}
