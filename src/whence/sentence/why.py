"""Why this token: what every token, at every layer, gave to a prediction, and how much the prediction depends on it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor

from whence._arguments import seed_of, whole
from whence.errors import BadInput, Unsupported
from whence.linear.secant import Backwards
from whence.measures.flow import hops
from whence.measures.flow.plan import planned
from whence.measures.flow.prediction import Predicted, Way, dependence, logits, shares
from whence.measures.lm_head.ranks import place
from whence.measures.lm_head.stages import stages_of
from whence.measures.registry import DERIVATIVES, SECANT
from whence.models.fingerprint import provenance
from whence.models.linearise import linearised
from whence.models.load import Model, loaded
from whence.models.precision import reported
from whence.models.vocabulary import pieces
from whence.sentence.label import tokens_of
from whence.sentence.question import Answer, Question, question, token_number
from whence.sentence.spans import Spans, spans_of

NEEDS = {"share": SECANT, "dependence": DERIVATIVES}
DIMS = ("predicted", "layer", "source")
Arrays = dict[str, tuple[tuple[str, ...], np.ndarray]]


def why(
    model: Model,
    text: object,
    token: int | str | None = None,
    against: int | str | None = None,
    position: int | Iterable[int] | None = None,
    measures: str | Iterable[str] = tuple(NEEDS),
    *,
    answer: object = None,
    generate: int = 0,
    seed: int | None = None,
    spans: str | Iterable[tuple[int, int]] | None = None,
    through: str | None = None,
    components: bool = False,
    together: bool = False,
    alternatives: int = 5,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Why the model predicts a token: at each mask, after a prompt, or each token of an answer.

    Args:
        model: a loaded model with an LM head
        text: a text, a pair, a chat as a list of messages (by the tokenizer's template), or token ids
        token: the predicted token, by its text or number in the vocabulary; the model's best one when None
        against: another token: then all is about the difference of the two
        position: where the prediction stands, unless at every mask or behind the last token
        measures: share, dependence, or both
        answer: a decoder's answer, as it would stand behind the prompt, or its token ids: each token is explained
        generate: let the model answer with so many tokens at most
        seed: sample the answer with this seed; by default the best token is taken each time
        spans: sums by word, line, sentence, paragraph, turn, or by (start, end) characters of the text
        through: "generated": what rests on the answer's earlier tokens is handed on to the prompt
        components: also by the heads and the feed-forward of each layer
        together: the answer as one: the sum of its logits, the log-probability of all of it
        alternatives: how many of the best tokens are named beside the predicted one
        truncate: cut a text that is longer than the model takes, which is an error otherwise
        memory_limit: in bytes; with less, blocks are computed again instead of kept. By default the free memory
        progress: progress(done, total) is called during the work, and may end it by raising

    Returns:
        A Dataset. Layer 0 is the output of the embeddings.

        * `share` (predicted, layer, source): signed part of the logit that the token's state at that layer gave; over
          sources, with `bias` (predicted, layer), they add up to `logit` exactly
        * `dependence` (predicted, layer, source): length of the derivative of the log-probability by that state
        * `logit`, `probability`, `place` (predicted): of the token; `logit` is the difference of two with `against`
        * `span_share`, `span_dependence`: the same by span, with the same sums
        * `component_share` (predicted, block, component, source), `component_bias` (predicted, block)
        * `carried` (predicted, source): what the prompt carries of each prediction `through` generated tokens, rows
          sum to one; `carried_through` (predicted) is how much came by them

        A share says what the prediction was made of, with attention weights, norm scales and activation slopes as they
        were; a dependence how it would change.

    Examples:
        >>> ds = whence.why(whence.load(), "The keys to the cabinet [MASK] on the table.")
        >>> bool(abs(ds.share.sum("source") + ds.bias - ds.logit).max() < 1e-3)
        True
    """
    names = measures_of(loaded(model), measures, components)
    alternatives = whole("alternatives", alternatives, 1)
    memory_limit = None if memory_limit is None else whole("memory_limit", memory_limit, 1)
    given = Answer(answer, whole("generate", generate, 0), None if seed is None else seed_of(seed))
    asked = question(model, text, position, token, given, truncate)
    other = None if against is None else token_number(model, against)
    by_span = None if spans is None else spans_of(asked.encoded, spans, asked.answer)
    _check_through(through, names, asked, together)
    data, predicted = _measured(model, asked, other, names, together, components, memory_limit, progress, alternatives)
    data |= {} if by_span is None else _by_span(data, by_span)
    if through is not None:
        carried, by_them = hops.through(data["share"][1][:, 0], asked.positions, asked.answer or 0)
        data |= {"carried": (("predicted", "source"), carried), "carried_through": (("predicted",), by_them)}
    options = {"against": other, "position": asked.positions, "together": together}
    attributes = provenance(model, names, options) | _texts(asked)
    return xarray.Dataset(data, _coordinates(model, asked, predicted, by_span, data, together), attributes)


def measures_of(model: Model, measures: str | Iterable[str], components: bool = False) -> list[str]:
    """The measures of a prediction that were asked for; refused where the model does not give them."""
    names = [measures] if isinstance(measures, str) else list(measures)
    if unknown := [name for name in names if name not in NEEDS]:
        raise BadInput(f"There is no {unknown[0]!r} of a prediction; there are: {', '.join(NEEDS)}.")
    if not names:
        raise BadInput(f"No measure of the prediction was asked for; there are: {', '.join(NEEDS)}.")
    if components and "share" not in names:
        raise BadInput("Components are those of shares; ask for 'share' as well (measures=).")
    stages_of(model.anatomy)  # refuses a model without a head
    for name in names:
        if lacking := sorted((NEEDS[name] | {"lm_head"}) - model.gives):
            rest = [other for other in NEEDS if NEEDS[other] | {"lm_head"} <= model.gives]
            raise Unsupported(
                f"{name!r} needs {', '.join(lacking)}, which the family {model.anatomy.family!r} does not give; "
                + (f"ask for {rest[0]!r} alone (measures=)." if rest else "take another model.")
            )
    if model.anatomy.side_paths:
        raise Unsupported(
            f"Blocks of {type(model.model).__name__} read more of the embeddings than their states, so a prediction is"
            " not made of the states of a layer alone."
        )
    return names


def _check_through(through: str | None, names: list[str], asked: Question, together: bool) -> None:
    if through is None:
        return
    if through != "generated":
        raise BadInput(f"What a prediction rests on is followed through 'generated' tokens, and not {through!r}.")
    if asked.answer is None or together or "share" not in names:
        raise BadInput(
            "Generated tokens are followed in an answer whose tokens are explained one by one, by shares; ask for an"
            " answer (answer=, generate=) and not for it as one (together=)."
        )


def _measured(
    model: Model,
    asked: Question,
    other: int | None,
    names: list[str],
    together: bool,
    components: bool,
    memory_limit: int | None,
    progress: Callable[[int, int], None] | None,
    alternatives: int,
) -> tuple[Arrays, list[Predicted]]:
    anatomy, batch = model.anatomy, asked.encoded.batch
    plan = planned(model, len(asked.encoded.tokens), 1 if together else len(asked.positions), names, memory_limit)
    way = Way(together, plan.portion, components, _Steps(progress, plan.steps).one)
    data: Arrays = {}
    predicted: list[Predicted] = []

    def predictions(last: Tensor) -> list[Predicted]:
        """Found out from the first pass that is made."""
        if not predicted:
            scored = logits(anatomy, last[asked.positions])
            tokens = asked.tokens or scored.argmax(dim=-1).tolist()
            _check_against(model, tokens, other)
            predicted.extend(Predicted(*pair, other) for pair in zip(asked.positions, tokens, strict=True))
            data.update(_about(model, scored, predicted, together, alternatives))
        return predicted

    with torch.autocast(model.device.type, enabled=False), torch.no_grad():
        if "share" in names:
            passed = Backwards.of(anatomy, batch, plan.kept, way.progress)
            parts = shares(passed, predictions(passed.states[-1]), way)
            data |= {"share": (DIMS, _numpy(parts.share)), "bias": (DIMS[:2], _numpy(parts.bias))}
            if parts.components is not None and parts.component_bias is not None:
                axes = ("predicted", "block", "component", "source")
                data |= {"component_share": (axes, _numpy(parts.components))}
                data |= {"component_bias": (axes[:2], _numpy(parts.component_bias))}
            del passed
        if "dependence" in names:
            with linearised(anatomy, batch, attending=False) as chain:
                way.progress()
                lengths = dependence(anatomy, chain, predictions(chain.steps[-1].output), way)
            data["dependence"] = DIMS, _numpy(lengths)
    return data, predicted


def accounted(
    model: Model, asked: Question, names: list[str], room: int | None = None
) -> tuple[Arrays, list[Predicted]]:
    """The arrays of `why`, each token's best alternative among them; the same room gives the same last digits."""
    return _measured(model, asked, None, names, False, False, room, None, 1)


class _Steps:
    """Counts steps of the work for a progress bar."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def one(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


def _about(
    model: Model, scored: Tensor, predicted: list[Predicted], together: bool, alternatives: int
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The logit, or the difference of two, of the token its probability and place, and the model's best tokens."""
    tokens = torch.tensor([each.token for each in predicted], device=scored.device)
    rows = torch.arange(len(predicted), device=scored.device)
    value = scored[rows, tokens]
    if predicted[0].against is not None:
        value = value - scored[:, predicted[0].against]
    logs = scored.log_softmax(dim=-1)
    if together:
        about = {"logit": value.sum(dim=0, keepdim=True), "probability": logs[rows, tokens].sum(0, True).exp()}
        return {name: (DIMS[:1], _numpy(values)) for name, values in about.items()}
    best = logs.topk(min(alternatives, logs.shape[-1]), dim=-1)
    names = [pieces(model.tokenizer, row) for row in best.indices.tolist()]
    axes = ("predicted", "alternative")
    about = {"logit": value, "probability": logs.exp()[rows, tokens], "place": place(scored, tokens)}
    return {name: (DIMS[:1], _numpy(values)) for name, values in about.items()} | {
        "alternative_probability": (axes, _numpy(best.values.exp())),
        "alternative_token": (axes, np.array(names)),
        "alternative_token_id": (axes, _numpy(best.indices)),
    }


def _by_span(data: Arrays, spans: Spans) -> Arrays:
    """Shares add up; of a span's states taken together the derivative is as long as the root of the sum of squares."""
    axes = ("predicted", "layer", "span")
    sums: Arrays = {"span_share": (axes, spans.sums(data["share"][1]))} if "share" in data else {}
    if "dependence" in data:
        sums["span_dependence"] = axes, np.sqrt(spans.sums(data["dependence"][1] ** 2))
    return sums


def _check_against(model: Model, tokens: list[int], other: int | None) -> None:
    if other in tokens:
        name = pieces(model.tokenizer, [other])[0]
        raise BadInput(f"{name!r} is what is predicted itself; name another token to compare it with.")


def _coordinates(
    model: Model, asked: Question, predicted: list[Predicted], spans: Spans | None, data: Arrays, together: bool
) -> Mapping[str, Any]:
    numbers = [each.token for each in predicted]
    tokens = pieces(model.tokenizer, numbers)
    other = [each.against for each in predicted if each.against is not None]
    if together:
        text = asked.encoded.sentence.text
        first = next((span for span in asked.encoded.spans[asked.positions[0] + 1 :] if span is not None), None)
        tokens = ["".join(tokens) if first is None or asked.answer is None else text[first[0] :].strip()]
        numbers, other = [-1], other[:1]
    coordinates: dict[str, Any] = {
        "predicted": asked.positions[-1:] if together else asked.positions,
        "predicted_token": ("predicted", tokens),
        "predicted_token_id": ("predicted", numbers),
        "layer": range(model.anatomy.layers + 1),
        "source": range(len(asked.encoded.tokens)),
    }
    if other:
        coordinates |= {
            "against_token": ("predicted", pieces(model.tokenizer, other)),
            "against_token_id": ("predicted", other),
        }
    if asked.answer is not None:
        answers = [place >= asked.answer for place in range(len(asked.encoded.tokens))]
        coordinates["source_is_answer"] = "source", answers
    if spans is not None:
        coordinates |= {"span": range(len(spans.names)), "span_text": ("span", spans.names)}
        coordinates["source_span"] = "source", spans.of_source
    if "component_share" in data:
        heads = [f"head {number}" for number in range(data["component_share"][1].shape[2] - 2)]
        coordinates |= {"component": ["residual", *heads, "feed-forward"], "block": range(1, model.anatomy.layers + 1)}
    return coordinates | {f"source_{name}": ("source", values) for name, values in tokens_of(asked.encoded).items()}


def _texts(asked: Question) -> dict[str, str]:
    """The whole text, and of it the answer."""
    encoded = asked.encoded
    texts = {"text": encoded.sentence.text, "pair": encoded.sentence.pair or ""}
    if asked.answer is None:
        return texts
    start = next((span[0] for span in encoded.spans[asked.answer :] if span is not None), len(texts["text"]))
    return texts | {"answer": texts["text"][start:]}


def _numpy(values: Tensor) -> np.ndarray:
    return (values.to(reported(values.dtype)) if values.is_floating_point() else values).cpu().numpy()
