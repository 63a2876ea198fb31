"""The labels of an explained prediction: which token is predicted, of which tokens and layers its parts are."""

from typing import Any

from whence.measures.flow.prediction import Predicted
from whence.models.given_pair import STACKS
from whence.models.load import Model
from whence.sentence.label import said, tokens_of
from whence.sentence.question import Question
from whence.sentence.reading import SIMILARITY, Reading
from whence.sentence.spans import Spans


def of_predictions(query: Question, reading: Reading, predicted: list[Predicted], together: bool) -> dict[str, Any]:
    """Where each prediction stands, of which token it is, and against which other one."""
    numbers = [prediction.token for prediction in predicted]
    other = [prediction.against for prediction in predicted if prediction.against is not None]
    places, tokens = query.positions, reading.names(numbers)
    if reading.kind == SIMILARITY:  # the other text is no entry of a vocabulary
        numbers = [-1]
    if together:
        places, tokens, numbers, other = places[-1:], [_in_one(query, tokens)], [-1], other[:1]
    coordinates: dict[str, Any] = {
        "predicted": places,
        "predicted_token": ("predicted", tokens),
        "predicted_token_id": ("predicted", numbers),
    }
    if other:
        names = reading.names(other)
        coordinates |= {"against_token": ("predicted", names), "against_token_id": ("predicted", other)}
    return coordinates


def _in_one(query: Question, tokens: list[str]) -> str:
    """The predicted tokens as one text: of an answer as it stands behind the prompt."""
    first = next((span for span in query.encoded.spans[query.positions[0] + 1 :] if span is not None), None)
    return "".join(tokens) if first is None or query.answer is None else query.encoded.continued[first[0] :].strip()


def of_sources(model: Model, query: Question) -> dict[str, Any]:
    """Tokens and layers; of an encoder-decoder which stack each is of, the decoder's layers behind the encoder's."""
    anatomy, encoded = model.anatomy, query.encoded
    sources, layers = range(len(encoded.tokens)), range(anatomy.chained + 1)
    coordinates: dict[str, Any] = {"layer": layers, "source": sources}
    if query.answer is not None:
        coordinates["source_is_answer"] = "source", [source >= query.answer for source in sources]
    if anatomy.encoder is not None:
        border = encoded.batch.split or 0
        coordinates["source_stack"] = "source", [STACKS[source >= border] for source in sources]
        coordinates["layer_stack"] = "layer", [STACKS[layer > anatomy.chained - anatomy.layers] for layer in layers]
    return coordinates | {f"source_{name}": ("source", values) for name, values in tokens_of(encoded).items()}


def of_spans(spans: Spans) -> dict[str, Any]:
    names = {"span": range(len(spans.names)), "span_text": ("span", spans.names)}
    return names | {"source_span": ("source", spans.of_source)}


def of_components(count: int, layers: int) -> dict[str, Any]:
    """The stream itself, the heads and the feed-forward of every block."""
    heads = [f"head {number}" for number in range(count - 2)]
    return {"component": ["residual", *heads, "feed-forward"], "block": range(1, layers + 1)}


def texts(query: Question) -> dict[str, str]:
    """The whole text, and of it the answer."""
    encoded = query.encoded
    if query.answer is None:
        return said(encoded)
    text = encoded.continued
    start = next((span[0] for span in encoded.spans[query.answer :] if span is not None), len(text))
    return said(encoded) | {"answer": text[start:]}
