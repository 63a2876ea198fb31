"""Which tokens, at which layers, a prediction was made of, and which it depends on.

share       the secant: from every layer a logit is a sum of signed parts, one for each token's state there, and a part
            that belongs to no token (the constants of all that follows); both add up to the logit.
dependence  the tangent: the length of the derivative of the log-probability by each token's state, at every layer.
Each is one covector pulled from the logit back to the embeddings, and read off at every layer on its way. Several
predictions go together through each block; as many at a time as there is room for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vjp, vmap

from whence.errors import VerificationFailed
from whence.linear.steps import Branches
from whence.linear.two_stacks import Made, Passed
from whence.measures.flow.components import components
from whence.measures.flow.readout import Readout, of_tokens
from whence.models.anatomy import Anatomy
from whence.models.frozen import FrozenBlock, FrozenBlocks

# how far the parts' sum may be from the logit, of the size of the parts: rounding over as many layers
CLOSE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
Progress = Callable[[], None]


@dataclass(frozen=True)
class Predicted:
    """One of the scores of a prediction, perhaps against another one of them: a token's or a class's number."""

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
    """Parts of the logit, or of the difference of two; with `bias` they add up to `logit` at every layer, from 0.

    `components` are those of each block's residual stream, heads and feed-forward, where they were asked for.
    """

    share: Float[Tensor, "p layer source"]
    bias: Float[Tensor, "p layer"]
    logit: Float[Tensor, " p"]
    components: Float[Tensor, "p block component source"] | None = None
    component_bias: Float[Tensor, "p block"] | None = None


@dataclass(frozen=True)
class Pulls:
    """How predictions are pulled: each by itself or as one sum, so many at a time, with or without components."""

    together: bool = False
    portion: int = 1
    components: bool = False
    progress: Progress = lambda: None


def shares(passed: Passed, readout: Readout, predicted: Sequence[Predicted], pulls: Pulls) -> Shares:
    """What each token's state at each layer gave to these predictions, exact; checked to add up at every layer.

    There is one of the `predicted` for every prediction of the readout.
    """
    last = passed.states[-1]
    with torch.no_grad():
        logit, covectors, bias = _started(readout, last, predicted)
        if pulls.together:
            logit, covectors, bias = (values.sum(dim=0, keepdim=True) for values in (logit, covectors, bias))
        parts, biases, blocks = [_part(covectors, last)], [bias.clone()], []
        for block, states in passed:
            covectors, bias = covectors.to(states.device), bias.to(states.device)
            if pulls.components:
                assert isinstance(block, Branches), "checked where they are asked for"
                blocks.append(_by_component(block, states, covectors, bias, pulls.portion))
            covectors = _pulled(block, covectors, bias, pulls.portion)
            parts.append(_part(covectors, states))
            biases.append(bias.clone())
            pulls.progress()
    shared = Shares(_by_layer(parts, last), _by_layer(biases, last), logit, *_stacked(blocks))
    _check(passed.anatomy, shared)
    return shared


def dependence(
    readout: Readout, chain: FrozenBlocks, predicted: Sequence[Predicted], pulls: Pulls
) -> Float[Tensor, "p layer source"]:
    """|d log p / d h^l_j| for every layer from 0 and every token; of log p - log q where it is against another, and of
    the score itself where there is no probability.

    Where predictions are taken as one, it is the derivative of the log-probability of all of them.
    """
    covectors = _gradients(readout, chain.steps[-1].output, predicted)
    covectors = covectors.sum(dim=0, keepdim=True) if pulls.together else covectors
    lengths = [covectors.norm(dim=-1)]
    for step in reversed(chain.steps):
        covectors = _derived(step, covectors.to(step.states.device), pulls.portion)
        lengths.append(covectors.norm(dim=-1))
        pulls.progress()
    return _by_layer(lengths, lengths[0])


def _by_layer(backwards: Sequence[Tensor], like: Tensor) -> Float[Tensor, "p layer *source"]:
    """What was read off from the last layer to the first, each on its block's device."""
    return torch.stack([values.to(like.device) for values in reversed(backwards)], dim=1)


def logits(anatomy: Anatomy, states: Float[Tensor, "*p m"]) -> Float[Tensor, "*p v"]:
    """All that the LM head, as it was checked against the model, makes of states of the last layer."""
    return of_tokens(anatomy, [0], 1).of_states(states)


def _started(
    readout: Readout, last: Float[Tensor, "t m"], predicted: Sequence[Predicted]
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p t m"], Float[Tensor, " p"]]:
    """Each score, its covector at the last layer, and what the constants of the readout gave to it."""
    logit, bias = (last.new_zeros(len(predicted)) for _ in range(2))
    covectors = last.new_zeros(len(predicted), *last.shape)
    for place, prediction in enumerate(predicted):
        tokens = readout.tokens(place).to(last.device)
        states, signs = last[tokens], last.new_tensor(prediction.signs, device=readout.device)
        logit[place] = (readout.scored_at(place, states)[prediction.tokens] @ signs).to(last.device)
        constants = bias.new_zeros(1, device=readout.device)
        pulled = readout.chain(place, states, prediction.tokens).pull(signs[None, None], constants)[0]
        covectors[place, tokens] = pulled.to(last.device)
        bias[place] = constants[0].to(last.device)
    return logit, covectors, bias


def _part(covectors: Float[Tensor, "p t m"], states: Float[Tensor, "t m"]) -> Float[Tensor, "p t"]:
    return torch.einsum("ptm,tm->pt", covectors, states)


def _pulled(block: Made, covectors: Float[Tensor, "p t m"], bias: Float[Tensor, " p"], portion: int) -> Tensor:
    parts = zip(covectors.split(portion), bias.split(portion), strict=True)
    return torch.cat([block.pull(part, sums) for part, sums in parts])


def _derived(step: FrozenBlock, covectors: Float[Tensor, "p t m"], portion: int) -> Float[Tensor, "p t m"]:
    """Through the block's own code, which is run once for all portions."""
    back = vjp(step.block, step.states)[1]
    if len(covectors) == 1:
        return back(covectors[0])[0][None]
    return torch.cat([vmap(lambda covector: back(covector)[0])(part) for part in covectors.split(portion)])


def _by_component(
    block: Branches, states: Float[Tensor, "t m"], covectors: Float[Tensor, "p t m"], bias: Tensor, portion: int
) -> tuple[Float[Tensor, "p component source"], Float[Tensor, " p"]]:
    bias = bias.clone()
    parts = zip(covectors.split(portion), bias.split(portion), strict=True)
    return torch.cat([components(block, states, part, sums) for part, sums in parts]), bias


def _stacked(blocks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | tuple[()]:
    if not blocks:
        return ()
    parts, biases = zip(*reversed(blocks), strict=True)
    return torch.stack(parts, dim=1), torch.stack(biases, dim=1)


def _gradients(readout: Readout, last: Float[Tensor, "t m"], predicted: Sequence[Predicted]) -> Float[Tensor, "p t m"]:
    """d log p of each prediction by the states of the last layer."""
    gradients = last.new_zeros(len(predicted), *last.shape)
    for place, prediction in enumerate(predicted):
        tokens = readout.tokens(place).to(last.device)
        with torch.enable_grad():
            states = last[tokens].detach().requires_grad_()
            logs = readout.logs(readout.scored_at(place, states))
            value = logs[prediction.tokens] @ logs.new_tensor(prediction.signs)
            gradients[place, tokens] = torch.autograd.grad(value, states)[0]
    return gradients


def _check(anatomy: Anatomy, parts: Shares) -> None:
    """Against the head itself, not against the map that the parts come from."""
    sums = [(parts.share.sum(dim=-1) + parts.bias, parts.share.abs().sum(dim=-1) + parts.bias.abs())]
    if parts.components is not None and parts.component_bias is not None:
        sizes = parts.components.abs().sum(dim=(-1, -2)) + parts.component_bias.abs()
        sums.append((parts.components.sum(dim=(-1, -2)) + parts.component_bias, sizes))
    error = max(float(((total - parts.logit[:, None]).abs() / size).max()) for total, size in sums)
    if not error <= CLOSE[anatomy.model.dtype]:
        raise VerificationFailed(
            f"The parts of a logit of {type(anatomy.model).__name__} do not add up to it (error {error:.2g}), so they"
            " are not given; load the model in float32, and report it if it is."
        )
