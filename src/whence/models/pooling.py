"""How one vector is made of a text's last states: the weight of every token in it."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor


def _first(ids: Int[Tensor, " t"], padding: int | None) -> Float[Tensor, " t"]:
    return _only(ids, 0)


def _end(ids: Int[Tensor, " t"], padding: int | None) -> Float[Tensor, " t"]:
    return _only(ids, len(ids) - 1)


def _last(ids: Int[Tensor, " t"], padding: int | None) -> Float[Tensor, " t"]:
    """The last token that is not the padding: transformers looks for its id, in which a text may also end."""
    kept = torch.arange(len(ids), device=ids.device) * (ids != padding) if padding is not None else None
    return _only(ids, len(ids) - 1 if kept is None else int(kept.argmax()))


def _mean(ids: Int[Tensor, " t"], padding: int | None) -> Float[Tensor, " t"]:
    return torch.full((len(ids),), 1 / len(ids), device=ids.device)


def _only(ids: Int[Tensor, " t"], place: int) -> Float[Tensor, " t"]:
    return torch.nn.functional.one_hot(torch.tensor(place), len(ids)).float().to(ids.device)


# by the names that configurations have for them; each is given a text's ids without padding
POOLED: dict[str, Callable[[Int[Tensor, " t"], int | None], Float[Tensor, " t"]]] = {
    "first": _first,
    "cls": _first,
    "bos": _first,
    "last": _last,
    "end": _end,
    "mean": _mean,
}
