"""Which part of the LM head makes the prediction: the head one step at a time, and the scores after each.

The state before a step is a vector; its scores are its inner products with the output embeddings (Podkorytov, Bis & Liu
2021). The steps of a masked LM are dense layer, activation, norm and bias; those of a decoder, final norm and
unembedding, with the factor and the soft cap that some families put on their logits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whence.errors import Unsupported
from whence.models.anatomy import Anatomy, Head
from whence.models.block import Batch, Block
from whence.models.capture import walk
from whence.models.weights import Affine, Norm

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Stage:
    """A step of the head, and how wide the vector behind it is."""

    name: str
    step: Step
    width: int


@dataclass(frozen=True)
class Stages:
    """The head taken apart: steps on the state, then, past the embeddings, steps on the scores."""

    inner: tuple[Stage, ...]
    outer: tuple[Stage, ...]
    embeddings: Float[Tensor, "m v"]
    arrays: dict[str, Float[Tensor, "..."]]
    "Weights and biases of the head by name."

    @property
    def scored(self) -> tuple[Stage, ...]:
        """The states that are as wide as the embeddings; ALBERT, ELECTRA and small OPT narrow theirs on the way."""
        return tuple(stage for stage in self.inner if stage.width == len(self.embeddings))

    @property
    def names(self) -> list[str]:
        return [stage.name for stage in (*self.scored, *self.outer)]


def stages_of(anatomy: Anatomy) -> Stages:
    """The steps from the last block's output to the logits; refuses a model that has no head."""
    head = _head(anatomy)
    inner = tuple(_inner(anatomy, head))
    return Stages(inner, tuple(_outer(head)), head.decoder.weight, _arrays(anatomy, head))


def scores(stages: Stages, states: Float[Tensor, "n m"]) -> Float[Tensor, "n g v"]:
    """What every stage says about every token of the vocabulary; the last stage's are the model's logits."""
    scorable = []
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    for stage in stages.inner:
        states = stage.step(states)
        if stage.width == len(stages.embeddings):
            scorable.append(states)
    early = torch.stack(scorable, dim=1).to(stages.embeddings.dtype) @ stages.embeddings
    late = [early[:, -1]]
    for stage in stages.outer:
        late.append(stage.step(late[-1]))
    return torch.cat([early, *(values[:, None] for values in late[1:])], dim=1).to(states.dtype)


def states_at(
    anatomy: Anatomy, batch: Batch, rows: Sequence[int], places: Sequence[int], layers: Sequence[int]
) -> Float[Tensor, "l n m"]:
    """The output of each layer (0 is the embedding) at these places of these sequences, before any final norm."""

    def visit(block: Block) -> Tensor | None:
        return block.output[list(rows), list(places)] if block.layer in layers else None

    captured = walk(anatomy, batch, visit)
    by_layer = dict(enumerate((captured.embedding[list(rows), list(places)], *captured.blocks)))
    return torch.stack([state for layer in layers if (state := by_layer[layer]) is not None])


def top(values: Float[Tensor, "*b v"], count: int) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """The best scores and their tokens, best first."""
    best = values.topk(min(count, values.shape[-1]), dim=-1)
    return best.values, best.indices


def _head(anatomy: Anatomy) -> Head:
    head = anatomy.head
    if head is not None:
        return head
    model = type(anatomy.model).__name__
    if anatomy.row is None:
        raise Unsupported(f"Where the head of the family {anatomy.family!r} has its parts is not known to whence.")
    raise Unsupported(
        f"{model} has no language-model head to take apart; load the model as {anatomy.class_with_head}"
        " (a checkpoint without weights for its head is read without it)."
    )


def _inner(anatomy: Anatomy, head: Head) -> Iterator[Stage]:
    width = anatomy.width
    yield Stage("trf-out", lambda states: states, width)
    if anatomy.final_norm is not None:
        yield from _norm("norm", anatomy.final_norm)
    for name, affine in (("project", anatomy.narrowing), ("dense", head.dense)):
        if affine is not None:
            width = affine.weight.shape[1]
            yield from _affine(name, affine)
    if head.activation is not None:
        yield Stage(activation_name(head.activation), head.activation, width)
    if head.norm is not None:
        yield from _norm("lnorm", head.norm)


def _outer(head: Head) -> Iterator[Stage]:
    size, bias = head.decoder.weight.shape[1], head.decoder.bias
    name = "unembed" if head.dense is None else "lmhead-out"
    yield Stage(name, lambda logits: logits if bias is None else logits + bias, size)
    if head.factor != 1:
        yield Stage("scale", lambda logits: logits * head.factor, size)
    cap = head.softcap
    if cap is not None:
        yield Stage("softcap", lambda logits: cap * torch.tanh(logits / cap), size)


def _affine(name: str, affine: Affine) -> Iterator[Stage]:
    width, bias = affine.weight.shape[1], affine.bias
    yield Stage(f"{name}-w", lambda states: (states.to(affine.weight.dtype) @ affine.weight).to(states.dtype), width)
    if bias is not None:
        yield Stage(f"{name}-b", lambda states: states + bias, width)


def _norm(name: str, norm: Norm) -> Iterator[Stage]:
    width, bias = len(norm.weight), norm.bias
    bare = replace(norm, weight=torch.ones_like(norm.weight), bias=None)
    yield Stage(f"{name}-n", bare, width)
    yield Stage(f"{name}-w", lambda states: states * norm.weight, width)
    if bias is not None:
        yield Stage(f"{name}-b", lambda states: states + bias, width)


def activation_name(activation: Step) -> str:
    """gelu, silu, relu …, of a function or of transformers' classes for them."""
    name = getattr(activation, "__name__", type(activation).__name__)
    return name.lower().removesuffix("activation")


def _arrays(anatomy: Anatomy, head: Head) -> dict[str, Tensor]:
    """The last norm before the embeddings is `norm`; a final norm that a dense layer follows is `final_norm`."""
    last = anatomy.final_norm if head.norm is None else head.norm
    first = None if head.norm is None else anatomy.final_norm
    steps = {"final_norm": first, "norm": last, "project": anatomy.narrowing, "dense": head.dense}
    arrays = {f"{name}_weight": step.weight for name, step in steps.items() if step is not None}
    arrays |= {f"{name}_bias": step.bias for name, step in steps.items() if step is not None and step.bias is not None}
    return arrays if head.decoder.bias is None else arrays | {"decoder_bias": head.decoder.bias}
