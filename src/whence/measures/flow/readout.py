"""What reads predictions off the states of the last layer: the LM head at some positions, the head of a classifier, the
similarity to another text; and each of them as the affine map that it was.

Every state goes through the final norm; some of them, by weights, make the vector of each prediction; steps lead from
there to scores. Nothing here knows what the states stand for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from whence.linear.steps import Activated, Beside, Chain, Linear, Normed, Pooled, Step, feed_forward
from whence.models.anatomy import Anatomy
from whence.models.precision import single
from whence.models.towers import Ending, Layer, Weighing
from whence.models.weights import Affine, Fed, Norm

# what scores say of probability: log p of them, or nothing
SOFTMAX, SIGMOID, NONE = "softmax", "sigmoid", "none"
LOGS: dict[str, Callable[[Tensor], Tensor]] = {
    SOFTMAX: lambda scores: scores.log_softmax(dim=-1),
    SIGMOID: logsigmoid,
    NONE: lambda scores: scores,
}


@dataclass(frozen=True, eq=False)
class Readout:
    """The states of all tokens to the scores of predictions: factor * scores(steps(pooled(every(states)))), capped.

    `pooled` has for every prediction the weights of the tokens; several rows of them make one long vector. With
    `weighing` the weights follow from the states. `odds` says how probabilities come of scores.
    """

    every: tuple[Layer, ...]
    pooled: Float[Tensor, "p n t"]
    steps: tuple[Layer, ...]
    scores: Affine
    factor: float = 1.0
    softcap: float | None = None
    odds: str = SOFTMAX
    weighing: Weighing | None = None

    def logs(self, scores: Float[Tensor, "*p v"]) -> Float[Tensor, "*p v"]:
        """Log-probabilities; the scores themselves where there are none."""
        return LOGS[self.odds](scores)

    def tokens(self, place: int) -> Int[Tensor, " n"]:
        """Those that the vector of a prediction is made of."""
        return self.pooled[place].any(dim=0).nonzero()[:, 0]

    def scored(self, states: Float[Tensor, "t m"]) -> Float[Tensor, "p v"]:
        """All scores of all predictions."""
        read = [states[self.tokens(place).to(states.device)] for place in range(len(self.pooled))]
        vectors = torch.cat([self._vector(place, number) for place, number in enumerate(read)])
        return self.of_vectors(vectors).to(states.device)

    def scored_at(self, place: int, states: Float[Tensor, "n m"]) -> Float[Tensor, " v"]:
        """All scores of one prediction, of the states that it is made of."""
        return self.of_vectors(self._vector(place, states))[0]

    def of_states(self, states: Float[Tensor, "*p m"]) -> Float[Tensor, "*p v"]:
        """All scores of states that are each read by itself."""
        return self.of_vectors(_through(self.every, states.to(self.device))).to(states.device)

    def of_vectors(self, vectors: Float[Tensor, "*p m"]) -> Float[Tensor, "*p v"]:
        """What the steps make of vectors, on the device of their weights."""
        scores = self.scores(_through(self.steps, vectors.to(self.device))) * self.factor
        return scores if self.softcap is None else self.softcap * torch.tanh(scores / self.softcap)

    def chain(self, place: int, states: Float[Tensor, "n m"], chosen: Sequence[int]) -> Chain:
        """From the states that a prediction is made of to some of its scores: norms and slopes as they were."""
        states = states.to(self.device)
        steps, states = _held(self.every, states)
        pooled = Pooled(self._weights(place, states))
        held, vector = _held(self.steps, pooled.push(states[None])[0])
        scores = self._rows(chosen)
        steps = [*steps, pooled, *held, Linear(scores)]
        cap = self.softcap
        if cap is not None:
            steps.append(Activated.of(lambda logits: cap * torch.tanh(logits / cap), scores(vector)))
        return Chain(tuple(steps))

    @property
    def device(self) -> torch.device:
        return self.scores.weight.device

    def _vector(self, place: int, states: Float[Tensor, "n m"]) -> Float[Tensor, "1 w"]:
        states = _through(self.every, states.to(self.device))
        return Pooled(self._weights(place, states)).push(states[None])[0]

    def _weights(self, place: int, like: Tensor) -> Float[Tensor, "n t"]:
        return self.pooled[place][:, self.tokens(place)].to(like) if self.weighing is None else self.weighing(like)

    def _rows(self, chosen: Sequence[int]) -> Affine:
        """The last step to these scores alone, the factor multiplied in."""
        columns = torch.as_tensor(list(chosen), device=self.device)
        weight, bias = single(self.scores.weight[:, columns]), self.scores.bias
        return Affine(weight * self.factor, None if bias is None else single(bias[columns]) * self.factor)


def of_tokens(anatomy: Anatomy, positions: Sequence[int], count: int) -> Readout:
    """The LM head at positions of a text of so many tokens; its large last matrix is widened only as it is used."""
    head = anatomy.head
    assert head is not None, "checked by the measure's needs"
    steps = tuple(single(step) for step in (head.dense, head.activation, head.norm) if step is not None)
    return Readout(finished(anatomy), at(positions, count), steps, head.decoder, head.factor, head.softcap)


def of_classes(anatomy: Anatomy, ids: Int[Tensor, " t"], positions: Sequence[int], odds: str) -> Readout:
    """The head of a classifier: of the whole text, or at the positions where every token has classes."""
    head = anatomy.class_head
    assert head is not None, "checked by the measure's needs"
    weights = head.weights(ids)
    pooled = at(positions, len(ids)) if weights is None else weights[None]
    return Readout(finished(anatomy), pooled, tuple(map(single, head.steps[:-1])), single(head.scores), odds=odds)


def of_similarity(anatomy: Anatomy, ending: Ending, other: Float[Tensor, " w"]) -> Readout:
    """The cosine of the vector that the states end in to another one, which is held; so is this one's length."""
    unit = length_one(len(other), other)
    direction = Affine(unit(other)[:, None], None)
    steps: tuple[Layer, ...] = (*map(single, ending.steps), unit)
    return Readout(finished(anatomy), ending.pooled[None], steps, direction, odds=NONE, weighing=ending.weighing)


def embedded(anatomy: Anatomy, ending: Ending, last: Float[Tensor, "t m"]) -> Float[Tensor, " w"]:
    """The vector of a text's last states."""
    return ending(_through(finished(anatomy), last))


def finished(anatomy: Anatomy) -> tuple[Layer, ...]:
    """What stands between the last block and any head: the final norm, and OPT's narrowing."""
    return tuple(single(step) for step in (anatomy.final_norm, anatomy.narrowing) if step is not None)


def at(positions: Sequence[int], count: int) -> Float[Tensor, "p 1 t"]:
    """Each of these positions alone."""
    return torch.nn.functional.one_hot(torch.tensor(list(positions)), count).float()[:, None]


def length_one(width: int, like: Tensor) -> Norm:
    """x / |x|, a norm without weights: of root mean square one and divided by the root of the width."""
    return Norm(torch.full((width,), width**-0.5, dtype=like.dtype, device=like.device), None, False, 0.0)


def _through(layers: Iterable[Layer], states: Tensor) -> Tensor:
    for layer in layers:
        states = layer(states)
    return states


def _held(layers: Iterable[Layer], states: Float[Tensor, "n _"]) -> tuple[list[Step], Float[Tensor, "n _"]]:
    """Every layer as it was at these states, and what came out."""
    steps: list[Step] = []
    for layer in layers:
        steps.append(_step(layer, states))
        states = layer(states)
    return steps, states


def _step(layer: Layer, states: Float[Tensor, "n _"]) -> Step:
    if isinstance(layer, Norm):
        return Normed(layer, layer.scale(states))
    if isinstance(layer, Fed):
        read = layer.norm(states)
        fed = feed_forward(layer.forward, read)
        return Beside(Chain((Normed(layer.norm, layer.norm.scale(states)), *fed)))
    return Linear(layer) if isinstance(layer, Affine) else Activated.of(layer, states)
