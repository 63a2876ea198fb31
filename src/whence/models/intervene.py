"""What a model predicts when some of its tokens are taken away: in the embeddings, or from what others may read.

Nothing is computed otherwise than in the model's own pass: a hook replaces token embeddings on their way in, and the
attention seam replaces weights.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from whence.errors import Unsupported
from whence.models.anatomy import SEQUENCES, Anatomy
from whence.models.block import Batch, Block
from whence.models.capture import arguments_of, borrowed, run, walk
from whence.models.hooks import here


def classifies(anatomy: Anatomy) -> bool:
    """Whether the model says a class of the whole text, as transformers' sequence classifiers do."""
    return type(anatomy.model).__name__.endswith(SEQUENCES)


def last_states(
    anatomy: Anatomy,
    batch: Batch,
    places: Sequence[int],
    unread: Bool[Tensor, "b s"] | None = None,
    blocks: Collection[int] = (),
) -> Float[Tensor, "b m"]:
    """The last block's output at one place of each row; tokens that are `unread` in `blocks` have values of zero there.

    A weight of zero is a value of zero, sum_j A_ij v_j, for all targets (Mohebbi et al. 2023, in the model's own pass).
    """
    rows = list(range(len(places)))

    def visit(block: Block) -> Tensor | None:
        return block.output[rows, list(places)] if block.layer == anatomy.layers else None

    states = walk(anatomy, batch, visit, edit=_silencing(unread, blocks)).blocks[-1]
    assert states is not None
    return states


def class_scores(
    anatomy: Anatomy, batch: Batch, unread: Bool[Tensor, "b s"] | None = None, blocks: Collection[int] = ()
) -> Float[Tensor, "b c"]:
    """A classifier's own scores of its classes, of each row."""
    if anatomy.causal:
        raise Unsupported("A decoder that classifies reads the class off its last token; only encoders are supported.")
    scores = walk(anatomy, batch, lambda block: None, logits=True, edit=_silencing(unread, blocks)).logits
    assert scores is not None
    return scores


def _silencing(unread: Bool[Tensor, "b s"] | None, blocks: Collection[int]) -> Callable[[int, Tensor], Tensor | None]:
    def edit(layer: int, weights: Tensor) -> Tensor | None:
        if unread is None or layer not in blocks:
            return None
        return weights.masked_fill(unread.to(weights.device)[:, None, None, :], 0)

    return edit


@contextmanager
def replaced(anatomy: Anatomy, places: Bool[Tensor, "b s"], vector: Float[Tensor, " m"]) -> Iterator[None]:
    """With this vector in place of the token embeddings at these places; positions and segments are added as ever."""

    def put(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return torch.where(places.to(output.device)[..., None], vector.to(output), output)

    handle = _table(anatomy).register_forward_hook(here(put))
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def mean_embedding(anatomy: Anatomy) -> Float[Tensor, " m"]:
    """The mean of the vocabulary's token embeddings, as the embedding layer gives them."""
    table = _table(anatomy)
    total, count = 0.0, table.num_embeddings
    for ids in torch.arange(count, device=table.weight.device).split(4096):
        total = total + table(ids).double().sum(dim=0)
    return (torch.as_tensor(total) / count).to(table.weight.dtype)


def _table(anatomy: Anatomy) -> nn.Embedding:
    try:
        table = anatomy.stack.get_input_embeddings()
    except NotImplementedError:  # CANINE embeds characters by several hashes
        table = None
    if not isinstance(table, nn.Embedding):
        raise Unsupported(f"{type(anatomy.model).__name__} has no table of token embeddings to take a mean of.")
    return table


def input_gradient(
    anatomy: Anatomy, batch: Batch, read: Callable[[Tensor], Tensor]
) -> tuple[Float[Tensor, "s m"], Float[Tensor, "s m"]]:
    """h^0 of one sentence, and the gradient by it of read(what the model gives first), through the model's own code."""
    leaves: list[Tensor] = []

    def start(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if leaves:  # blocks that are run several times, as ALBERT's
            return args, kwargs
        states = args[0] if args else kwargs["hidden_states"]
        leaves.append(states.detach().requires_grad_())
        return ((leaves[0], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": leaves[0]})

    handle = anatomy.blocks[0].register_forward_pre_hook(here(start), with_kwargs=True)
    try:
        with borrowed(anatomy.model), torch.enable_grad():
            value = read(run(anatomy.model, batch, **arguments_of(anatomy)))
            gradient = torch.autograd.grad(value, leaves[0])[0]
    finally:
        handle.remove()
    width = leaves[0].shape[-1]
    return leaves[0].detach().reshape(-1, width), gradient.reshape(-1, width)
