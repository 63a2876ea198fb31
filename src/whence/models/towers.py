"""Image–text models: a tower that reads texts, one that reads pictures, and how each ends in the vector that is
compared with the other's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from whence.models.affine import Affine, read_affine
from whence.models.block import Batch
from whence.models.pooling import POOLED, Tokens
from whence.models.weights import Activation, Fed, FeedForward, Norm, read_norm

Layer = Norm | Affine | Activation | Fed
Weighing = Callable[[Float[Tensor, "t m"]], Float[Tensor, "n t"]]


@dataclass(frozen=True)
class Tower:
    """Where a tower is, what is pooled of its last states, and the steps from there to the vector: paths from the
    whole model, of linear maps and norms. A path that is `attended` pools by attention instead (SigLIP).
    """

    part: str
    pooled: str = ""
    steps: tuple[str, ...] = ()
    attended: str | None = None
    features: str = "get_text_features"
    filled: bool = False  # a text is padded to the greatest length, and the padding is read


@dataclass(frozen=True)
class Towers:
    texts: Tower
    pictures: Tower


@dataclass(frozen=True, eq=False)
class Ending:
    """From a tower's last states to its vector: steps(weights @ states), as numbers.

    The weights are those of what is `pooled`, unless they follow from the states.
    """

    pooled: Float[Tensor, "n t"]
    steps: tuple[Layer, ...]
    weighing: Weighing | None = None

    def __call__(self, states: Float[Tensor, "t m"]) -> Float[Tensor, " w"]:
        weights = self.pooled.to(states) if self.weighing is None else self.weighing(states)
        vector = (weights @ states).flatten()[None]
        for step in self.steps:
            vector = step(vector)
        return vector[0]


@dataclass(frozen=True, eq=False)
class Query:
    """The weights of a learned query's heads, which attends to every state."""

    heads: Float[Tensor, "h d"]
    keys: Affine

    def __call__(self, states: Float[Tensor, "t m"]) -> Float[Tensor, "h t"]:
        keys = rearrange(self.keys(states), "t (h d) -> h t d", h=len(self.heads))
        scores = einsum(self.heads, keys, "h d, h t d -> h t") * self.heads.shape[1] ** -0.5
        return scores.softmax(dim=-1)


_CLIP = Towers(
    Tower("text_model", "end token", ("text_projection",)),
    Tower("vision_model", "first", ("vision_model.post_layernorm", "visual_projection"), features="get_image_features"),
)
TOWERS: dict[str, Towers] = {
    "clip": _CLIP,
    "metaclip_2": _CLIP,
    "siglip": Towers(
        Tower("text_model", "end", ("text_model.head",), filled=True),
        Tower("vision_model", attended="vision_model.head", features="get_image_features"),
    ),
}


def towers_of(model: PreTrainedModel) -> Towers | None:
    """Of a model that has both; None of one tower alone, and of what the table does not have."""
    towers = TOWERS.get(model.config.model_type)
    parts = {name for name, _ in model.named_children()}
    return towers if towers is not None and {towers.texts.part, towers.pictures.part} <= parts else None


def ending(model: PreTrainedModel, tower: Tower, batch: Batch) -> Ending:
    """How this tower ends at this text or picture."""
    if tower.attended is not None:
        return _attending(model.get_submodule(tower.attended), batch.ids.shape[1])
    steps = tuple(_step(model.get_submodule(path)) for path in tower.steps)
    pooled = POOLED[tower.pooled](Tokens(batch.ids[0], end=_end(model.get_submodule(tower.part))))
    return Ending(pooled, steps)


@torch.no_grad()
def features(model: PreTrainedModel, tower: Tower, inputs: Mapping[str, Tensor]) -> Float[Tensor, " w"]:
    """The vector that the model itself makes."""
    return getattr(model, tower.features)(**inputs).pooler_output[0]


def _step(module: nn.Module) -> Layer:
    norm = read_norm(module, 0.0, lambda: torch.ones(0)) if "Norm" in type(module).__name__ else None
    return read_affine(module) if norm is None else norm


def _end(part: nn.Module) -> int | None:
    end: Any = getattr(part.config, "eos_token_id", None)
    return end


def _attending(head: Any, tokens: int) -> Ending:
    """Every head's values through its part of the output projection, then a feed-forward around which they pass."""
    attention = head.attention
    count, width = attention.num_heads, attention.embed_dim
    queries, keys, values = (
        Affine(weight.T, bias)
        for weight, bias in zip(
            attention.in_proj_weight.detach().chunk(3), attention.in_proj_bias.detach().chunk(3), strict=True
        )
    )
    query = rearrange(queries(head.probe.detach()[0, 0]), "(h d) -> h d", h=count)
    out = read_affine(attention.out_proj)
    by_head = einsum(
        rearrange(values.weight, "m (h d) -> h m d", h=count),
        rearrange(out.weight, "(h d) o -> h d o", h=count),
        "h m d, h d o -> h m o",
    )
    bias = attention.in_proj_bias.detach().chunk(3)[2] @ out.weight + (0 if out.bias is None else out.bias)
    norm = _step(head.layernorm)
    assert isinstance(norm, Norm)
    forward = FeedForward(read_affine(head.mlp.fc1), None, head.mlp.activation_fn, read_affine(head.mlp.fc2))
    steps = (Affine(by_head.reshape(count * width, width), bias), Fed(norm, forward))
    return Ending(torch.ones(1, tokens), steps, Query(query, keys))
