"""The tables of a run about predictions: one row per predicted token, and one per predicted token, layer and source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whence.corpus.annotate import Coded
from whence.corpus.plan import Plan
from whence.corpus.run_tables import sentence_table
from whence.models.given_pair import STACKS
from whence.models.load import Model
from whence.models.vocabulary import pieces
from whence.sentence.question import Question

Answered = tuple[Coded, Question, dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Prediction:
    """One predicted token: of which sentence, where it was predicted, and the arrays of its question."""

    sentence: Coded
    question: Question
    arrays: dict[str, np.ndarray]
    number: int
    token: int
    text: str
    is_given: bool
    visible: int
    "Sources that the position can see: those up to it in a decoder."

    @property
    def position(self) -> int:
        return self.question.positions[self.number]

    def value(self, name: str) -> float | int | None:
        return self.arrays[name][self.number].item() if name in self.arrays else None

    def best(self, name: str) -> object:
        return self.arrays[f"alternative_{name}"][self.number, 0].item()

    def stack(self, source: int) -> str | None:
        """Which of two stacks reads it."""
        border = self.question.encoded.batch.split
        return None if border is None else STACKS[source >= border]

    def in_answer(self, source: int) -> bool:
        return self.question.answer is not None and source >= self.question.answer


TOKENS: dict[str, tuple[pa.DataType, Callable[[Prediction], object]]] = {
    "sentence": (pa.int64(), lambda prediction: prediction.sentence.number),
    "document": (pa.string(), lambda prediction: prediction.sentence.sentence.document),
    "position": (pa.int32(), lambda prediction: prediction.position),
    "token": (pa.string(), lambda prediction: prediction.text),
    "token_id": (pa.int32(), lambda prediction: prediction.token),
    "is_given": (pa.bool_(), lambda prediction: prediction.is_given),
    "logit": (pa.float32(), lambda prediction: prediction.value("logit")),
    "probability": (pa.float32(), lambda prediction: prediction.value("probability")),
    "place": (pa.int32(), lambda prediction: prediction.value("place")),
    "best_token": (pa.string(), lambda prediction: prediction.best("token")),
    "best_probability": (pa.float32(), lambda prediction: prediction.best("probability")),
}
SOURCES: dict[str, tuple[pa.DataType, Callable[[Prediction, int], object]]] = {
    "sentence": (pa.int64(), lambda prediction, source: prediction.sentence.number),
    "document": (pa.string(), lambda prediction, source: prediction.sentence.sentence.document),
    "position": (pa.int32(), lambda prediction, source: prediction.position),
    "token": (pa.string(), lambda prediction, source: prediction.text),
    "source": (pa.int32(), lambda prediction, source: source),
    "distance": (pa.int32(), lambda prediction, source: source - prediction.position),
    "source_token": (pa.string(), lambda prediction, source: prediction.sentence.encoded.tokens[source]),
    "source_token_id": (pa.int32(), lambda prediction, source: int(prediction.sentence.encoded.batch.ids[0, source])),
    "source_word": (pa.string(), lambda prediction, source: prediction.sentence.encoded.words[source]),
    "source_is_special": (pa.bool_(), lambda prediction, source: prediction.sentence.encoded.special[source]),
    "source_stack": (pa.string(), lambda prediction, source: prediction.stack(source)),
    "source_is_answer": (pa.bool_(), lambda prediction, source: prediction.in_answer(source)),
}


def tables(model: Model, answers: Sequence[Answered], plan: Plan) -> dict[str, pa.Table]:
    predictions = [prediction for answered in answers for prediction in _predictions(model, *answered)]
    return {
        "sentences": sentence_table([sentence for sentence, _, _ in answers]),
        "tokens": _tokens(predictions, plan),
        "pairs": _pairs(predictions, plan),
    }


def _predictions(
    model: Model, sentence: Coded, question: Question, arrays: dict[str, np.ndarray]
) -> Iterator[Prediction]:
    is_given = question.tokens is not None
    tokens = question.tokens or arrays["alternative_token_id"][:, 0].tolist()
    for number, (token, text) in enumerate(zip(tokens, pieces(model.tokenizer, tokens), strict=True)):
        visible = question.positions[number] + 1 if model.anatomy.causal else len(sentence)
        yield Prediction(sentence, question, arrays, number, token, text, is_given, visible)


def _tokens(predictions: Sequence[Prediction], plan: Plan) -> pa.Table:
    """One row per predicted token; what belongs to no source, by layer: bias_0 and so on."""
    columns = {
        name: pa.array([of(prediction) for prediction in predictions], type=kind) for name, (kind, of) in TOKENS.items()
    }
    for layer in plan.layers if "share" in plan.variables else ():
        values = [prediction.arrays["bias"][prediction.number, layer].item() for prediction in predictions]
        columns[f"bias_{layer}"] = pa.array(values, type=pa.float32())
    return pa.table(columns)


def _pairs(predictions: Sequence[Prediction], plan: Plan) -> pa.Table:
    """One row per predicted token, layer and source that it can see, in this order."""
    rows = [
        (prediction, layer, source)
        for prediction in predictions
        for layer in plan.layers
        for source in range(prediction.visible)
    ]
    columns = {
        name: pa.array([of(prediction, source) for prediction, _, source in rows], type=kind)
        for name, (kind, of) in SOURCES.items()
    }
    columns["layer"] = pa.array([layer for _, layer, _ in rows], type=pa.int16())
    for name in plan.variables:
        values = [
            prediction.arrays[name][prediction.number, layer, source].item() for prediction, layer, source in rows
        ]
        columns[name] = pa.array(values, type=pa.float32())
    return pa.table(columns)
