"""Predictions that rankings of sources are judged by: a hidden word, the next word, a planted fact, a class.

What may be taken away is every token of the text but special ones and the one in whose place is predicted. Where a fact
is planted, it is only what stands before the question: the place of a token then says nothing about its part.
"""

import random
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from whence.corpus.questions import question_of
from whence.errors import BadInput
from whence.faithfulness.edits import Subject
from whence.models.intervene import classifies
from whence.models.load import Model
from whence.sentence.question import Answer, Question, question
from whence.text.align import words
from whence.text.sentence import MASK, Sentence

HIDDEN, NEXT, PLANTED, CLASS = "hidden word", "next word", "planted fact", "class"
LEAST = 4  # tokens that may be taken away; an order of fewer says nothing
# where the question of a planted fact begins, among the labels of its sentence
QUESTION = "question"
POOL = 20  # texts that are looked at for each that is chosen
AROUND = 2  # sentences around a fact
PLACES = ("library", "harbour", "museum", "station", "garden", "tower", "bakery", "castle", "school", "theatre")
NAMES = ("John", "Mary", "James", "Anna", "Peter", "Paul", "George", "David", "Sarah", "Thomas", "William", "Robert")
FACTS = (
    "The keys of the {place} are kept by {name}.",
    "The director of the {place} is {name}.",
    "The painting in the {place} was made by {name}.",
)
_PLAIN = re.compile(r"(?:^|(?<=[.!?] ))[A-Z][^.!?:;\"()\n]+[a-z]{3}\.(?= |$)")
_ANY = re.compile(r"[^.!?\n]+[.!?]")


@dataclass(frozen=True)
class Prediction:
    """A subject with the question that explains it; a classifier has no question of a token."""

    subject: Subject
    question: Question
    sentence: Sentence


def tasks(model: Model) -> tuple[str, ...]:
    """What can be asked of this model."""
    if classifies(model.anatomy):
        return (CLASS,)
    return (NEXT, PLANTED) if model.anatomy.causal else (HIDDEN, PLANTED)


def hidden(sentence: Sentence) -> Sentence | None:
    """The text with one of its words masked, the same one every time; unchanged where a mask is there already."""
    if any(MASK in text for text in sentence.texts):
        return sentence
    spans = [(a, b) for a, b in words(sentence.text) if sentence.text[a:b].isalpha() and b - a > 2]
    if sentence.pair is not None or not spans:
        return None
    start, end = random.Random(zlib.crc32(sentence.text.encode())).choice(spans)
    return Sentence(sentence.text[:start] + MASK + sentence.text[end:], None, sentence.id, sentence.document)


def begun(sentence: Sentence) -> Sentence | None:
    """The text up to its mask, or up to a word in its second half, the same one every time."""
    before, mask, _ = sentence.text.partition(MASK)
    if mask:
        return Sentence(before.rstrip(), None, sentence.id, sentence.document) if before.strip() else None
    spans = words(sentence.text)
    if sentence.pair is not None or len(spans) < 2:
        return None
    last = random.Random(zlib.crc32(sentence.text.encode())).randrange(len(spans) // 2, len(spans))
    text = sentence.text[: spans[last][0]].rstrip()
    return Sentence(text, None, sentence.id, sentence.document) if text else None


def planted(sentences: Iterable[Sentence], count: int, causal: bool) -> Iterator[Sentence]:
    """Facts among sentences of a corpus, with another fact of the same kind beside each; the same ones every time.

    The question is behind them: its mask, or what follows its end, is the name (labels["answer"]). Each text is a
    document of its own.
    """
    around = _pieces(sentences)
    drawn = random.Random(0)
    for number in range(count):
        fact = FACTS[number % len(FACTS)]
        (place, other), (name, second) = drawn.sample(PLACES, 2), drawn.sample(NAMES, 2)
        said = [fact.format(place=place, name=name), fact.format(place=other, name=second)]
        lines = [*drawn.sample(around, min(AROUND, len(around))), *said]
        drawn.shuffle(lines)
        context = " ".join(lines) + " "
        asks = fact.format(place=place, name=MASK)
        text = context + (asks.partition(MASK)[0].rstrip() if causal else asks)
        labels = {"answer": name, QUESTION: str(len(context))}
        yield Sentence(text, None, f"fact {number}", f"fact {number}", labels=labels)


def _pieces(sentences: Iterable[Sentence], least: int = 4, most: int = 10, enough: int = 400) -> list[str]:
    """Sentences of 4 to 10 words from the texts of a corpus: plain ones, or any where there is none of these."""
    plain: list[str] = []
    other: list[str] = []
    for sentence in sentences:
        for pieces, pattern in ((plain, _PLAIN), (other, _ANY)):
            stripped = (piece.strip() for piece in pattern.findall(sentence.text) if MASK not in piece)
            pieces += [piece for piece in stripped if least <= len(words(piece)) <= most]
        if len(plain) >= enough:
            break
    if not plain and not other:
        raise BadInput(f"The corpus has no sentence of {least} to {most} words to plant a fact among.")
    return plain or other


def prediction_of(model: Model, sentence: Sentence) -> Prediction:
    """The sentence as a subject; refused, with the reason, where there is nothing to judge."""
    if classifies(model.anatomy):
        return _checked(_class(model, sentence))
    answered = _planted(model, sentence) if QUESTION in sentence.labels else None
    number, token = answered if answered is not None else (None, None)
    explained = question(model, sentence, number, token, Answer(), True)
    position = explained.positions[0]
    explained = replace(explained, positions=[position], tokens=None if token is None else [token])
    end = int(sentence.labels.get(QUESTION, len(sentence.text)))
    return _checked(Prediction(_subject(explained, position, token, model.anatomy.causal, end), explained, sentence))


def _class(model: Model, sentence: Sentence) -> Prediction:
    """The class is read off the first token, as BERT's is."""
    explained = question(model, sentence, 0, None, Answer(), True)
    return Prediction(_subject(explained, 0, None, False, len(sentence.text)), explained, sentence)


def _planted(model: Model, sentence: Sentence) -> tuple[int, int]:
    """The position of the answer and its first token."""
    if not model.anatomy.causal:
        cloze, outcome = question_of(model, sentence)
        if cloze is None or cloze.answer is None:
            raise BadInput(f"The planted answer cannot be asked for: {outcome}.")
        return cloze.position, cloze.answer
    answer = Answer(f" {sentence.labels['answer']}")
    explained = question(model, Sentence(sentence.text), None, None, answer, True)
    assert explained.tokens is not None
    return explained.positions[0], explained.tokens[0]


def _subject(explained: Question, position: int, token: int | None, causal: bool, end: int) -> Subject:
    """`end` is the first character of the first text that may not be taken away."""
    encoded = explained.encoded
    spans = zip(encoded.special, encoded.spans, encoded.parts, strict=True)
    free = [
        place
        for place, (special, span, part) in enumerate(spans)
        if not special
        and span is not None
        and place != position
        and not (causal and place > position)
        and (part != 0 or span[1] <= end)
    ]
    segments = encoded.batch.segments
    return Subject(
        tuple(encoded.batch.ids[0].tolist()),
        None if segments is None else tuple(segments[0].tolist()),
        position,
        -1 if token is None else token,
        tuple(free),
    )


def _checked(prediction: Prediction) -> Prediction:
    if len(prediction.subject.candidates) < LEAST:
        raise BadInput(f"Only {len(prediction.subject.candidates)} tokens can be taken away.")
    return prediction


def prepared(model: Model, task: str, sentences: Iterable[Sentence], count: int) -> list[Sentence]:
    """`count` texts of a corpus made ready for a task: of as many documents as can be had."""
    if task == PLANTED:
        return list(planted(sentences, count, model.anatomy.causal))
    prepare = {HIDDEN: hidden, NEXT: begun, CLASS: lambda sentence: sentence}[task]
    ready = (prepare(sentence) for sentence in sentences)
    pool = list(islice((sentence for sentence in ready if sentence is not None), POOL * count))
    firsts = {sentence.document or sentence.text: sentence for sentence in reversed(pool)}
    chosen = {id(sentence): sentence for sentence in [*reversed(firsts.values()), *pool]}
    return list(chosen.values())[:count]
