"""What vectors of the last layer's basis say, by the model's own final norm and unembedding, and how sure that is."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import jvp

from whence.measures.flow.prediction import logits
from whence.models.anatomy import Anatomy
from whence.models.precision import single


@dataclass(frozen=True, eq=False)
class Readout:
    """The best tokens of every vector, their log-probabilities, those of the model's own answer and its place."""

    best: Int[Tensor, "t k"]
    logs: Float[Tensor, "t k"]
    answer: Float[Tensor, " t"]
    place: Int[Tensor, " t"]
    divergence: Float[Tensor, " t"]
    "Of this prediction from the model's, in nats."
    errors: Float[Tensor, "t k"]
    "Standard errors of the log-probabilities; NaN where there are none."


def final(anatomy: Anatomy, last: Float[Tensor, "t m"]) -> Float[Tensor, "t v"]:
    """The model's own log-probabilities."""
    return logits(anatomy, last).log_softmax(dim=-1)


def readout(
    anatomy: Anatomy,
    vectors: Float[Tensor, "t m"],
    expected: Float[Tensor, "t v"],
    k: int,
    moved: Float[Tensor, "group t m"] | None = None,
) -> Readout:
    """What each vector says; the root of the sum of the squares of `moved`, by group of texts, is its error."""
    logs = final(anatomy, vectors)
    top = logs.topk(min(k, logs.shape[-1]), dim=-1)
    answers = expected.argmax(dim=-1, keepdim=True)
    answer = logs.gather(-1, answers)
    divergence = (expected.exp() * (expected - logs)).sum(dim=-1)
    errors = torch.full_like(top.values, torch.nan)
    if moved is not None:
        errors = _errors(anatomy, vectors, logs, top.indices, moved)
    place = (logs > answer).sum(dim=-1) + 1
    return Readout(top.indices, top.values, answer[:, 0], place, divergence, errors)


def _errors(
    anatomy: Anatomy,
    vectors: Float[Tensor, "t m"],
    logs: Float[Tensor, "t v"],
    tokens: Int[Tensor, "t k"],
    moved: Float[Tensor, "group t m"],
) -> Float[Tensor, "t k"]:
    """To first order: d log p_c = s_c W_c du - sum_v p_v s_v W_v du, with u what is unembedded and s its slope."""
    head = anatomy.head
    assert head is not None
    weight = single(head.decoder).weight  # m x v

    def inner(states: Tensor) -> Tensor:
        for step in (anatomy.final_norm, anatomy.narrowing, head.dense, head.activation, head.norm):
            states = states if step is None else single(step)(states)
        return states

    hidden = torch.stack([jvp(inner, (vectors,), (tangent,))[1] for tangent in moved])
    slope = torch.full_like(logs, head.factor)
    if head.softcap is not None:
        slope = slope * (1 - (logits(anatomy, vectors) / head.softcap).square())
    mean = (logs.exp() * slope) @ weight.T  # t m
    own = weight.T[tokens] * slope.gather(-1, tokens)[..., None]  # t k m
    changes = torch.einsum("gtm,tkm->gtk", hidden, own - mean[:, None])
    return changes.square().sum(dim=0).sqrt()
