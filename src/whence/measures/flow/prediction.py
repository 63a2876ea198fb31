"""Which tokens, at which layers, a prediction was made of, and which it depends on.

share       the secant: from every layer a logit is a sum of signed parts, one for each token's state there, and a part
            that belongs to no token (the constants of all that follows); both add up to the logit.
dependence  the tangent: the length of the derivative of the log-probability by each token's state, at every layer.
Each is one covector pulled from the logit back to the embeddings, and read off at every layer on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whence.errors import VerificationFailed
from whence.linear.secant import Secants, head_at, secants
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.linearise import linearised
from whence.models.precision import single

# how far the parts' sum may be from the logit, of the size of the parts: rounding over as many layers
CLOSE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Predicted:
    """A token of the vocabulary at a position of the text, perhaps against another token."""

    position: int
    token: int
    against: int | None = None

    @property
    def tokens(self) -> list[int]:
        return [self.token] if self.against is None else [self.token, self.against]

    @property
    def signs(self) -> list[float]:
        return [1.0, -1.0][: len(self.tokens)]


@dataclass(frozen=True, eq=False)
class Shares:
    """Parts of the logit, or of the difference of two; with `bias` they add up to `logit` at every layer, from 0."""

    share: Float[Tensor, "p layer source"]
    bias: Float[Tensor, "p layer"]
    logit: Float[Tensor, " p"]


def shares(anatomy: Anatomy, batch: Batch, predicted: Sequence[Predicted]) -> Shares:
    """What each token's state at each layer gave to these predictions, exact; checked to add up at every layer."""
    with torch.no_grad():
        chain = secants(anatomy, batch)
        logit, covectors, bias = _started(anatomy, chain, predicted)
        parts, biases = [_part(covectors, chain.last)], [bias.clone()]
        for block, states in zip(reversed(chain.blocks), reversed(chain.states[:-1]), strict=True):
            covectors = block.pull(covectors, bias)
            parts.append(_part(covectors, states))
            biases.append(bias.clone())
    shared = Shares(torch.stack(parts[::-1], dim=1), torch.stack(biases[::-1], dim=1), logit)
    _check(anatomy, shared)
    return shared


def dependence(anatomy: Anatomy, batch: Batch, predicted: Sequence[Predicted]) -> Float[Tensor, "p layer source"]:
    """|d log p / d h^l_j| for every layer from 0 and every token; of log p - log q where it is against another."""
    with linearised(anatomy, batch) as chain:
        covectors = _gradients(anatomy, chain.steps[-1].output, predicted)
        lengths = [covectors.norm(dim=-1)]
        for step in reversed(chain.steps):
            covectors = step.pull(covectors)
            lengths.append(covectors.norm(dim=-1))
    return torch.stack(lengths[::-1], dim=1)


def _started(
    anatomy: Anatomy, chain: Secants, predicted: Sequence[Predicted]
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p t m"], Float[Tensor, " p"]]:
    """Each logit, its covector at the last layer, and what the head's constants gave to it."""
    logit, bias = (chain.last.new_zeros(len(predicted)) for _ in range(2))
    covectors = chain.last.new_zeros(len(predicted), *chain.last.shape)
    for place, each in enumerate(predicted):
        state = chain.last[each.position][None]
        head, signs = head_at(anatomy, state, each.tokens), chain.last.new_tensor(each.signs)
        logit[place] = _logits(anatomy, state[0])[each.tokens] @ signs
        covectors[place, each.position] = head.pull(signs[None, None], bias[place : place + 1])[0, 0]
    return logit, covectors, bias


def _part(covectors: Float[Tensor, "p t m"], states: Float[Tensor, "t m"]) -> Float[Tensor, "p t"]:
    return (covectors * states).sum(dim=-1)


def _gradients(anatomy: Anatomy, last: Float[Tensor, "t m"], predicted: Sequence[Predicted]) -> Float[Tensor, "p t m"]:
    """d log p of each prediction by the states of the last layer."""
    gradients = last.new_zeros(len(predicted), *last.shape)
    for place, each in enumerate(predicted):
        with torch.enable_grad():
            state = last[each.position].detach().requires_grad_()
            logs = _logits(anatomy, state).log_softmax(dim=-1)
            value = logs[each.tokens] @ logs.new_tensor(each.signs)
            gradients[place, each.position] = torch.autograd.grad(value, state)[0]
    return gradients


def _logits(anatomy: Anatomy, state: Float[Tensor, " m"]) -> Float[Tensor, " v"]:
    """All that the head, as it was checked against the model, makes of one state of the last layer."""
    for step in (anatomy.final_norm, anatomy.narrowing, anatomy.head):
        state = state if step is None else single(step)(state)
    return state


def _check(anatomy: Anatomy, parts: Shares) -> None:
    """Against the head itself, not against the map that the parts come from."""
    total = parts.share.sum(dim=-1) + parts.bias
    size = parts.share.abs().sum(dim=-1) + parts.bias.abs()
    error = float(((total - parts.logit[:, None]).abs() / size).max())
    if not error <= CLOSE[anatomy.model.dtype]:
        raise VerificationFailed(
            f"The parts of a logit of {type(anatomy.model).__name__} do not add up to it (error {error:.2g}), so they"
            " are not given; load the model in float32, and report it if it is."
        )
