"""How vectors are made of a text's or a picture's last states: the weight of every token in each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Tokens:
    """The ids without padding, the id that pads, how many tokens stand before the patches of a picture, and the id
    that ends a text.
    """

    ids: Int[Tensor, " t"]
    padding: int | None = None
    before: int = 0
    end: int | None = None


def _first(tokens: Tokens) -> Float[Tensor, "1 t"]:
    return _only(tokens, [0])


def _two(tokens: Tokens) -> Float[Tensor, "2 t"]:
    return _only(tokens, [0, 1])


def _end(tokens: Tokens) -> Float[Tensor, "1 t"]:
    return _only(tokens, [len(tokens.ids) - 1])


def _last(tokens: Tokens) -> Float[Tensor, "1 t"]:
    """The last token that is not the padding: transformers looks for its id, in which a text may also end."""
    ids, padding = tokens.ids, tokens.padding
    if padding is None:
        return _end(tokens)
    return _only(tokens, [int((torch.arange(len(ids), device=ids.device) * (ids != padding)).argmax())])


def _end_token(tokens: Tokens) -> Float[Tensor, "1 t"]:
    """The first of them; where the configuration names 2, as old ones wrongly do, CLIP takes the largest id."""
    ids = tokens.ids
    return _only(tokens, [int((ids if tokens.end in (None, 2) else (ids == tokens.end).int()).argmax())])


def _mean(tokens: Tokens) -> Float[Tensor, "1 t"]:
    return torch.full((1, len(tokens.ids)), 1 / len(tokens.ids), device=tokens.ids.device)


def _patches(tokens: Tokens) -> Float[Tensor, "1 t"]:
    inside = torch.arange(len(tokens.ids), device=tokens.ids.device) >= tokens.before
    return (inside / inside.sum())[None]


def _first_and_patches(tokens: Tokens) -> Float[Tensor, "2 t"]:
    return torch.cat([_first(tokens), _patches(tokens)])


def _only(tokens: Tokens, places: list[int]) -> Float[Tensor, "n t"]:
    return torch.nn.functional.one_hot(torch.tensor(places), len(tokens.ids)).float().to(tokens.ids.device)


# by the names that configurations have for them; several vectors stand one behind the other
POOLED: dict[str, Callable[[Tokens], Float[Tensor, "n t"]]] = {
    "first": _first,
    "cls": _first,
    "bos": _first,
    "last": _last,
    "end": _end,
    "end token": _end_token,
    "mean": _mean,
    "patches": _patches,
    "first and patches": _first_and_patches,
    "first two": _two,
}
