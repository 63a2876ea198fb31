"""What predictions are about: tokens of the vocabulary, the classes of a classifier, or how similar two texts are."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from whence._arguments import whole
from whence.errors import BadInput, Unsupported
from whence.measures.flow import readout
from whence.measures.flow.readout import NONE, SIGMOID, SOFTMAX, Readout
from whence.measures.lm_head.stages import stages_of, states_at
from whence.models.anatomy import FRAMES, SEQUENCES, TOKENS
from whence.models.capture import borrowed, run
from whence.models.embedding import pooling_of
from whence.models.encode import Encoded
from whence.models.given import encoded_of
from whence.models.inputs import KINDS, TEXT
from whence.models.load import Model
from whence.models.pooling import POOLED
from whence.models.pooling import Tokens as Pooling
from whence.models.precision import single
from whence.models.towers import Ending, ending
from whence.models.verify import CLASSES
from whence.models.vocabulary import pieces
from whence.sentence.lm_head import positions_of
from whence.sentence.question import Question

TOKEN, CLASS, SIMILARITY = "token", "class", "similarity"
NEEDS = {TOKEN: "lm_head", CLASS: CLASSES, SIMILARITY: "norms"}
POSITION, WHOLE = "a position", "the whole text"  # what a prediction is of
NOWHERE = -1  # the position of what is read off several tokens
# what can be asked of each beside the text and the measures, in words for an error
_WORDS = {
    TOKEN: "predicts tokens; name one with token=",
    CLASS: "says classes; name one with label=",
    SIMILARITY: "is asked how similar two texts are, which is one number",
}
_TAKES = {
    TOKEN: {"token", "against", "position", "answer", "generate", "through", "together"},
    CLASS: {"label", "against", "position"},
    SIMILARITY: {"similar_to", "pooling"},
}


@dataclass(frozen=True, eq=False)
class Reading:
    """What makes scores of a text's last states, and what each of the scores is of."""

    kind: str
    readout: Readout
    names: Callable[[Sequence[int]], list[str]]
    of: str = POSITION


def kind_of(model: Model, similar_to: object = None) -> str:
    if similar_to is not None:
        return SIMILARITY
    return CLASS if type(model.model).__name__.endswith((*SEQUENCES, *TOKENS)) else TOKEN


def check_asked(model: Model, kind: str, **options: object) -> None:
    """Refuses what cannot be asked of such a prediction."""
    named = [name for name, value in options.items() if value is not None and value is not False]
    if wrong := [name for name in named if name not in _TAKES[kind]]:
        raise BadInput(f"{type(model.model).__name__} {_WORDS[kind]}, so it goes without {wrong[0]}=.")


def check_given(model: Model, kind: str) -> None:
    """Refuses a model that has no such head, or one that is not known."""
    if kind == TOKEN and model.reads != TEXT and model.encoder is None and model.anatomy.row is not None:
        raise Unsupported(
            f"{type(model.model).__name__} has no head that scores classes; load it as a model for classification"
            f" (AutoModelForImageClassification, AutoModelForAudioClassification), or ask how similar the"
            f" {KINDS[model.reads].name} is to another one (similar_to=)."
        )
    if kind == TOKEN and model.anatomy.head is None and model.anatomy.row is not None:
        raise Unsupported(
            f"{type(model.model).__name__} has no head that predicts; load the model as"
            f" {model.anatomy.class_with_head}, or ask how similar the text is to another one (similar_to=)."
        )
    if kind == TOKEN:
        stages_of(model.anatomy)
    if kind == CLASS and CLASSES not in model.gives:
        raise Unsupported(
            f"How {type(model.model).__name__} scores its classes is not known to whence, or not as it was expected;"
            " the page Models of the documentation lists what is read."
        )


def of_tokens(model: Model, query: Question) -> Reading:
    """Of the vocabulary, by the LM head."""
    head = readout.of_tokens(model.anatomy, query.positions, len(query.encoded.tokens))
    return Reading(TOKEN, head, lambda numbers: pieces(model.tokenizer, numbers))


def of_classes(
    model: Model, text: object, position: int | Iterable[int] | None, label: int | str | None, truncate: bool
) -> tuple[Question, Reading]:
    """The class of the whole text, or those of some of its tokens: of all that stand for text unless given."""
    encoded = encoded_of(model, text, truncate)
    places = _places(model, encoded, position)
    head = readout.of_classes(model.anatomy, encoded.batch.ids[0], places, _odds(model.model.config))
    of = POSITION if places else WHOLE
    places = places or [_place(head.pooled[0])]
    numbers = None if label is None else [class_number(model, label)] * len(places)
    return Question(encoded, places, numbers), Reading(CLASS, head, lambda chosen: labels(model, chosen), of)


def of_similarity(
    model: Model, text: object, facing: Model, other: object, pooling: str | None, truncate: bool
) -> tuple[Question, Reading]:
    """To another text or picture, whose vector is held: that of the same model, or of the tower `facing` it."""
    pooling = _pooling(model, pooling)
    encoded, beside = encoded_of(model, text, truncate), encoded_of(facing, other, truncate)
    head = readout.of_similarity(model.anatomy, _ending(model, encoded, pooling), _embedded(facing, beside, pooling))
    name = beside.sentence.text or f"the other {KINDS[facing.reads].name}"
    reading = Reading(SIMILARITY, head, lambda chosen: [name] * len(chosen), WHOLE)
    return Question(encoded, [_place(head.pooled[0])], [0]), reading


def _places(model: Model, encoded: Encoded, position: int | Iterable[int] | None) -> list[int]:
    if type(model.model).__name__.endswith(TOKENS):
        if position is not None:
            return positions_of(model, encoded, position)
        if type(model.model).__name__.endswith(FRAMES):
            return _spoken(model, encoded)
        return [place for place, special in enumerate(encoded.special) if not special]
    if position is not None:
        raise BadInput("A class is of the whole text, so it goes without position=.")
    return []


def _spoken(model: Model, encoded: Encoded) -> list[int]:
    """The frames that say something else than the blank; all where none does."""
    with borrowed(model.model), torch.no_grad():
        best = run(model.model, encoded.batch)[0].argmax(dim=-1)
    return (best != model.model.config.pad_token_id).nonzero().flatten().tolist() or list(range(len(best)))


def labels(model: Model, numbers: Sequence[int]) -> list[str]:
    """The names that the configuration has for classes; letters by the tokenizer, where there is one."""
    tokenizer = getattr(model.processor, "tokenizer", None)
    if type(model.model).__name__.endswith(FRAMES) and tokenizer is not None:
        return pieces(tokenizer, list(numbers))
    names = model.model.config.id2label or {}
    return [str(names.get(number, f"class {number}")) for number in numbers]


def class_number(model: Model, label: int | str) -> int:
    """A class's number, of its name; refused where there is no such class."""
    head = model.anatomy.class_head
    assert head is not None, "checked before"
    count = head.scores.weight.shape[1]
    if not isinstance(label, str):
        return whole("number of a class", label, 0, count - 1)
    names = labels(model, range(count))
    if label not in names:
        raise BadInput(f"There is no class {label!r}; there are: {', '.join(names)}.")
    return names.index(label)


def _odds(config: Any) -> str:
    """As in transformers' pipelines: a single class, and each of several that may hold at once, by itself."""
    if config.problem_type == "regression":
        return NONE
    return SIGMOID if config.problem_type == "multi_label_classification" or config.num_labels == 1 else SOFTMAX


def _pooling(model: Model, pooling: str | None) -> str | None:
    """A row of `POOLED`; None of towers, which say themselves how they end."""
    if model.tower is not None:
        if pooling is not None:
            raise BadInput("An image–text model makes its vectors in its own way, so it goes without pooling=.")
        return None
    pooling = pooling or pooling_of(model)
    if pooling not in POOLED:
        raise BadInput(f"There is no pooling {pooling!r}; there are: {', '.join(POOLED)}.")
    return pooling


def _ending(model: Model, encoded: Encoded, pooling: str | None) -> Ending:
    """From the last states to the vector."""
    if model.tower is not None and model.around is not None:
        return ending(model.around, model.tower, encoded.batch)
    assert pooling is not None
    padding = getattr(model.model.config.get_text_config(), "pad_token_id", None)
    return Ending(POOLED[pooling](Pooling(encoded.batch.ids[0], padding, sum(encoded.special))), ())


@torch.no_grad()
def _embedded(model: Model, encoded: Encoded, pooling: str | None) -> Float[Tensor, " w"]:
    places = range(len(encoded.tokens))
    last = states_at(model.anatomy, encoded.batch, [0] * len(places), places, [model.anatomy.layers])[0]
    return readout.embedded(model.anatomy, _ending(model, encoded, pooling), single(last))


def _place(weights: Float[Tensor, "n t"]) -> int:
    """Of the one token that is read, if it is one."""
    read = weights.any(dim=0).nonzero()[:, 0].tolist()
    return int(read[0]) if len(read) == 1 else NOWHERE
