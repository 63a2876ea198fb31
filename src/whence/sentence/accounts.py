"""What a prediction is made of and depends on, as arrays, from one pass: the logit, its parts, the best tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.errors import BadInput
from whence.linear.two_stacks import passed_backwards
from whence.measures.flow.plan import planned
from whence.measures.flow.prediction import Predicted, Pulls, dependence, shares
from whence.measures.flow.readout import NONE
from whence.measures.lm_head.ranks import place
from whence.models.linearise import linearised
from whence.models.load import Model
from whence.models.precision import reported
from whence.sentence.question import Question
from whence.sentence.reading import SIMILARITY, Reading, of_tokens

DIMS = ("predicted", "layer", "source")
Arrays = dict[str, tuple[tuple[str, ...], np.ndarray]]
"Name -> its axes and values."


@dataclass(frozen=True)
class Wanted:
    """What is to be known of a prediction, in how much memory."""

    measures: Sequence[str]
    against: int | None = None
    together: bool = False
    components: bool = False
    alternatives: int = 1
    memory_limit: int | None = None
    progress: Callable[[int, int], None] | None = None


def account(model: Model, query: Question, reading: Reading, wanted: Wanted) -> tuple[Arrays, list[Predicted]]:
    """The arrays, and which score each prediction is about; the same memory limit gives the same last digits."""
    anatomy, batch, names = model.anatomy, query.encoded.batch, wanted.measures
    count = 1 if wanted.together else len(query.positions)
    plan = planned(model, len(query.encoded.tokens), count, names, wanted.memory_limit)
    pulls = Pulls(wanted.together, plan.portion, wanted.components, _Steps(wanted.progress, plan.steps).one)
    data: Arrays = {}
    predicted: list[Predicted] = []

    def predictions(last: Tensor) -> list[Predicted]:
        """Which these are is known from the first pass that is made."""
        if not predicted:
            scored = reading.readout.scored(last)
            numbers = query.tokens or scored.argmax(dim=-1).tolist()
            _check_against(reading, numbers, wanted.against)
            predicted.extend(Predicted(number, wanted.against) for number in numbers)
            data.update(_about(reading, scored, predicted, wanted))
        return predicted

    with torch.autocast(model.device.type, enabled=False), torch.no_grad():
        if "share" in names:
            passed = passed_backwards(anatomy, batch, plan.kept, pulls.progress)
            parts = shares(passed, reading.readout, predictions(passed.states[-1]), pulls)
            data |= {"share": (DIMS, _numpy(parts.share)), "bias": (DIMS[:2], _numpy(parts.bias))}
            if parts.components is not None and parts.component_bias is not None:
                axes = ("predicted", "block", "component", "source")
                data |= {"component_share": (axes, _numpy(parts.components))}
                data |= {"component_bias": (axes[:2], _numpy(parts.component_bias))}
            del passed
        if "dependence" in names:
            with linearised(anatomy, batch, attending=False) as chain:
                pulls.progress()
                lengths = dependence(reading.readout, chain, predictions(chain.steps[-1].output), pulls)
            data["dependence"] = DIMS, _numpy(lengths)
    return data, predicted


def of_next_tokens(model: Model, query: Question, measures: Sequence[str], memory_limit: int | None = None) -> Arrays:
    """The arrays of predicted tokens, each token's best alternative among them."""
    return account(model, query, of_tokens(model, query), Wanted(measures, memory_limit=memory_limit))[0]


def _check_against(reading: Reading, numbers: list[int], other: int | None) -> None:
    if other is not None and other in numbers:
        name = reading.names([other])[0]
        raise BadInput(f"{name!r} is what is predicted itself; name another {reading.kind} to compare it with.")


class _Steps:
    """Counts steps of the work for a progress bar."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def one(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


def _about(reading: Reading, scored: Tensor, predicted: list[Predicted], wanted: Wanted) -> Arrays:
    """The logit, or the difference of two, of the token its probability and place, and the model's best tokens; what
    there is of these.
    """
    numbers = torch.tensor([prediction.token for prediction in predicted], device=scored.device)
    rows = torch.arange(len(predicted), device=scored.device)
    value, logs = scored[rows, numbers], reading.readout.logs(scored)
    if wanted.against is not None:
        value = value - scored[:, wanted.against]
    if wanted.together:
        about = {"logit": value.sum(dim=0, keepdim=True), "probability": logs[rows, numbers].sum(0, True).exp()}
        return {name: (DIMS[:1], _numpy(values)) for name, values in about.items()}
    about = {"logit": value}
    if reading.readout.odds != NONE:
        about["probability"] = logs.exp()[rows, numbers]
    if reading.kind != SIMILARITY:
        about["place"] = place(scored, numbers)
    if scored.shape[-1] == 1:
        return {name: (DIMS[:1], _numpy(values)) for name, values in about.items()}
    best = logs.topk(min(wanted.alternatives, logs.shape[-1]), dim=-1)
    axes = ("predicted", "alternative")
    others: Arrays = {
        "alternative_token": (axes, np.array([reading.names(row) for row in best.indices.tolist()])),
        "alternative_token_id": (axes, _numpy(best.indices)),
    }
    if "probability" in about:
        others["alternative_probability"] = axes, _numpy(best.values.exp())
    return {name: (DIMS[:1], _numpy(values)) for name, values in about.items()} | others


def _numpy(values: Tensor) -> np.ndarray:
    return (values.to(reported(values.dtype)) if values.is_floating_point() else values).cpu().numpy()
