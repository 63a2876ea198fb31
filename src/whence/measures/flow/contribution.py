"""Where each hidden token came from: the size of the derivative of every token's state by every token's embedding.

J^l_ij = d h^l_i / d h^0_j is a matrix; its size is its Frobenius norm (Hidden Token Attribution, Brunner et al. 2020),
its spectral norm, or the length of 1^T J_ij, the gradient of the sum of the state's components (G*, Westera 2019).
Local derivatives are those of one block alone, d h^l_i / d h^(l-1)_j.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput
from whence.linear.local import local_frobenius
from whence.linear.propagate import Progress, Propagator
from whence.measures.flow.rows import Cells, Rows, Selection
from whence.measures.flow.sketch import sketched
from whence.measures.flow.summaries import shares
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.frozen import FrozenBlocks
from whence.models.linearise import linearised

NORMS = ("frobenius", "spectral", "ones")
MODES = ("auto", "exact", "sketch")
STARTS = ("embedding", "sum")
MEMORY = 2**31


@dataclass(frozen=True, eq=False)
class Flow:
    """Norms of J_ij at the layers, targets and sources asked for; their standard errors when they were sketched.

    `probes` is how many directions were tried of each source, or of each target if they were pulled: all of them when
    exact. `misplaced` is the share of a contribution that is expected at the wrong source, averaged over the rows.
    """

    norms: Float[Tensor, "layer target source"]
    probes: int
    layers: tuple[int, ...]
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    tokens: int
    standard_error: Float[Tensor, "layer target source"] | None = None
    share_error: Float[Tensor, "layer target source"] | None = None
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
        return self.share_error

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
    `mode="sketch"` tries random directions until `error` is reached (see `sketch`); `auto` does so where exact is slow.
    """
    for name, value, known in (("norm", norm, NORMS), ("mode", mode, MODES), ("start", start, STARTS)):
        _check_known(name, value, known)
    if mode == "sketch" and norm != "frobenius":
        raise BadInput(f"Only the frobenius norm can be sketched, and {norm!r} was asked for; use mode='exact'.")
    selection = Selection.of(anatomy, batch, layers, targets, sources)
    pulled = norm == "ones" or selection.pulls
    with linearised(anatomy, batch, embedding_sum=start == "sum", depth=selection.depth) as chain:
        rows = Rows(selection, Propagator(chain, memory, pulled, progress))
        if norm == "frobenius" and (mode == "sketch" or (mode == "auto" and not selection.quick(anatomy.width))):
            return _estimated(rows, error, seed)
        return _flow(rows, _exact(rows, norm), 1 if norm == "ones" else rows.width)


def _estimated(rows: Rows, error: float, seed: int) -> Flow:
    sketch = sketched(rows, error, seed)
    standard, share = (rows.selected(part) for part in (sketch.errors, sketch.share_errors))
    flow = _flow(rows, sketch.norms, sketch.probes)
    return replace(flow, standard_error=standard, share_error=share, misplaced=sketch.misplaced)


def _flow(rows: Rows, norms: Float[Tensor, "layer target source"], probes: int) -> Flow:
    selection = rows.selection
    return Flow(rows.selected(norms), probes, selection.layers, selection.targets, selection.sources, selection.tokens)


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
    selection = Selection.of(anatomy, batch, layers, targets, sources)
    with linearised(anatomy, batch, depth=selection.depth) as chain:
        maps = []
        for done, layer in enumerate(selection.layers):
            alone = FrozenBlocks(chain.steps[layer - 1 : layer], chain.causal, None)
            maps.append(_local(alone, replace(selection, layers=(1,)), norm, memory).to(chain.states.device))
            if progress is not None:
                progress(done + 1, len(selection.layers))
    return Flow(
        torch.stack(maps), anatomy.width, selection.layers, selection.targets, selection.sources, selection.tokens
    )


def gradient(
    anatomy: Anatomy,
    batch: Batch,
    start: str = "embedding",
    layers: Iterable[int] | None = None,
    targets: Iterable[int] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """G*: |1^T d h^l_i / d h^0_j|, one backward pass per layer and target (Westera 2019), without dropout."""
    return jacobian(anatomy, batch, "ones", "exact", start, layers, targets, memory=memory, progress=progress)


def gradient_local(
    anatomy: Anatomy,
    batch: Batch,
    layers: Iterable[int] | None = None,
    targets: Iterable[int] | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Flow:
    """G: |1^T d h^l_i / d h^(l-1)_j|, one backward pass through one block per target (Westera 2019)."""
    return jacobian_local(anatomy, batch, "ones", layers, targets, memory=memory, progress=progress)


def _check_known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadInput(f"There is no {name} {value!r}; there are: {', '.join(known)}.")


def _exact(rows: Rows, norm: str) -> Float[Tensor, "layer target source"]:
    """Every unit vector of every start, or the sum of all of them."""
    basis = torch.eye(rows.width, dtype=rows.states.dtype, device=rows.states.device)
    vectors = basis.sum(dim=0, keepdim=True) if norm == "ones" else basis
    size = len(vectors) if norm == "spectral" else rows.propagator.portion()
    squares = rows.states.new_zeros(rows.shape)

    def take(place: int, cells: Cells, arrived: Float[Tensor, "k u m"]) -> None:
        squares[cells] += _SIZES[norm](arrived).to(squares.device)

    rows.send([(place, part) for place in range(len(rows.starts)) for part in vectors.split(size)], take)
    return squares.sqrt()


def _squares(vectors: Float[Tensor, "k u m"]) -> Float[Tensor, " u"]:
    return torch.linalg.vector_norm(vectors, dim=(0, 2)).square()


def _largest(vectors: Float[Tensor, "k u m"]) -> Float[Tensor, " u"]:
    """The largest singular value, squared: the largest eigenvalue of J J^T."""
    across = vectors.transpose(0, 1)
    return torch.linalg.eigvalsh(across @ across.mT)[:, -1].clamp(min=0)


_SIZES = {"frobenius": _squares, "ones": _squares, "spectral": _largest}


def _local(chain: FrozenBlocks, selection: Selection, norm: str, memory: int) -> Float[Tensor, "target source"]:
    """Of a chain of one block; frobenius norms without any vectors where the block multiplies out."""
    rows = Rows(selection, Propagator(chain, memory, norm == "ones" or selection.pulls))
    norms = local_frobenius(chain.steps[0], rows.propagator.portion(), memory) if norm == "frobenius" else None
    if norms is None:
        return rows.selected(_exact(rows, norm))[0]
    return norms[list(selection.targets)][:, list(selection.sources)]
