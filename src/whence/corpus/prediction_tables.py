"""The tables of a run about predictions: one row per predicted token, and one per predicted token, layer and source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whence.corpus.annotate import Coded
from whence.corpus.plan import Plan
from whence.corpus.run_tables import sentence_table
from whence.models.load import Model
from whence.models.vocabulary import pieces
from whence.sentence.question import Question

Answered = tuple[Coded, Question, dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Prediction:
    """One predicted token: of which sentence, where it was predicted, and what was found."""

    sentence: Coded
    question: Question
    found: dict[str, np.ndarray]
    number: int
    token: int
    text: str
    given: bool
    visible: int
    "Sources that the position can see: those up to it in a decoder."

    @property
    def position(self) -> int:
        return self.question.positions[self.number]

    def value(self, name: str) -> float | int | None:
        return self.found[name][self.number].item() if name in self.found else None

    def best(self, name: str) -> object:
        return self.found[f"alternative_{name}"][self.number, 0].item()

    def in_answer(self, source: int) -> bool:
        return self.question.answer is not None and source >= self.question.answer


TOKENS: dict[str, tuple[pa.DataType, Callable[[Prediction], object]]] = {
    "sentence": (pa.int64(), lambda each: each.sentence.number),
    "document": (pa.string(), lambda each: each.sentence.sentence.document),
    "position": (pa.int32(), lambda each: each.position),
    "token": (pa.string(), lambda each: each.text),
    "token_id": (pa.int32(), lambda each: each.token),
    "is_given": (pa.bool_(), lambda each: each.given),
    "logit": (pa.float32(), lambda each: each.value("logit")),
    "probability": (pa.float32(), lambda each: each.value("probability")),
    "place": (pa.int32(), lambda each: each.value("place")),
    "best_token": (pa.string(), lambda each: each.best("token")),
    "best_probability": (pa.float32(), lambda each: each.best("probability")),
}
SOURCES: dict[str, tuple[pa.DataType, Callable[[Prediction, int], object]]] = {
    "sentence": (pa.int64(), lambda each, source: each.sentence.number),
    "document": (pa.string(), lambda each, source: each.sentence.sentence.document),
    "position": (pa.int32(), lambda each, source: each.position),
    "token": (pa.string(), lambda each, source: each.text),
    "source": (pa.int32(), lambda each, source: source),
    "distance": (pa.int32(), lambda each, source: source - each.position),
    "source_token": (pa.string(), lambda each, source: each.sentence.encoded.tokens[source]),
    "source_token_id": (pa.int32(), lambda each, source: int(each.sentence.encoded.batch.ids[0, source])),
    "source_word": (pa.string(), lambda each, source: each.sentence.encoded.words[source]),
    "source_is_special": (pa.bool_(), lambda each, source: each.sentence.encoded.special[source]),
    "source_is_answer": (pa.bool_(), lambda each, source: each.in_answer(source)),
}


def tables(model: Model, answers: Sequence[Answered], plan: Plan) -> dict[str, pa.Table]:
    predictions = [each for answered in answers for each in _predictions(model, *answered)]
    return {
        "sentences": sentence_table([sentence for sentence, _, _ in answers]),
        "tokens": _tokens(predictions, plan),
        "pairs": _pairs(predictions, plan),
    }


def _predictions(
    model: Model, sentence: Coded, question: Question, found: dict[str, np.ndarray]
) -> Iterator[Prediction]:
    given = question.tokens is not None
    tokens = question.tokens or found["alternative_token_id"][:, 0].tolist()
    for number, (token, text) in enumerate(zip(tokens, pieces(model.tokenizer, tokens), strict=True)):
        visible = question.positions[number] + 1 if model.anatomy.causal else len(sentence)
        yield Prediction(sentence, question, found, number, token, text, given, visible)


def _tokens(predictions: Sequence[Prediction], plan: Plan) -> pa.Table:
    """One row per predicted token; what belongs to no source, by layer: bias_0 and so on."""
    columns = {name: pa.array([of(each) for each in predictions], type=kind) for name, (kind, of) in TOKENS.items()}
    for layer in plan.layers if "share" in plan.variables else ():
        values = [each.found["bias"][each.number, layer].item() for each in predictions]
        columns[f"bias_{layer}"] = pa.array(values, type=pa.float32())
    return pa.table(columns)


def _pairs(predictions: Sequence[Prediction], plan: Plan) -> pa.Table:
    """One row per predicted token, layer and source that it can see, in this order."""
    rows = [(each, layer, source) for each in predictions for layer in plan.layers for source in range(each.visible)]
    columns = {
        name: pa.array([of(each, source) for each, _, source in rows], type=kind)
        for name, (kind, of) in SOURCES.items()
    }
    columns["layer"] = pa.array([layer for _, layer, _ in rows], type=pa.int16())
    for name in plan.variables:
        values = [each.found[name][each.number, layer, source].item() for each, layer, source in rows]
        columns[name] = pa.array(values, type=pa.float32())
    return pa.table(columns)
