"""Why every token of a corpus's answers was predicted: the part of a run that asks `whence.why` of each sentence.

A sentence is a cloze (its mask is asked about), a prompt with labels["answer"] (every token of it), a source with its
answer (of an encoder-decoder, every token of that), or a prompt alone (the token behind it). Its tables are about
predictions and not about tokens, so that it is no measure among the others but a worker of its own, which every engine
runs in the same way.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whence.corpus import prediction_tables
from whence.corpus.annotate import coded
from whence.corpus.parts import Part
from whence.corpus.plan import Plan
from whence.corpus.questions import NO_MASK, NOT_LAST, answer_of, masks, question_of
from whence.corpus.run_tables import as_parquet
from whence.corpus.store import Store, write_part
from whence.corpus.worker import REMEDY, named, threads
from whence.errors import BadInput
from whence.measures.flow.plan import planned
from whence.models.load import Model
from whence.models.memory import claim, resident
from whence.sentence.accounts import of_next_tokens
from whence.sentence.question import Answer, Question, question, question_of_both
from whence.text.sentence import Sentence

ROOM = 2**62  # no limit: blocks and predictions are then as many at a time everywhere, whatever memory is free
OUTCOMES = {NO_MASK: "it has no [MASK], which says what to predict", NOT_LAST: NOT_LAST}


@dataclass(frozen=True, eq=False)
class Explainer:
    """A model and a plan; parts go in, records come out, tables go to the store."""

    model: Model
    plan: Plan
    store: Store

    def do(self, part: Part) -> dict[str, Any]:
        return self.write(self.measure(self.prepare(part)))

    def prepare(self, part: Part) -> "Prepared":
        """The questions of the part's sentences, and those left out with the reason."""
        kept, skipped = Prepared(part, [], [], []), []
        for number, sentence in enumerate(part.sentences, part.first):
            try:
                kept.questions.append(asked_of(self.model, sentence, self.plan.too_long == "truncate"))
            except BadInput as error:
                if self.plan.too_long != "skip":
                    raise BadInput(named(number, sentence, error)) from error
                skipped.append({"sentence": number, "why": str(error)})
            else:
                kept.numbers.append(number)
        return replace(kept, skipped=skipped)

    def measure(self, prepared: "Prepared") -> "Prepared":
        with threads(self.plan.threads):
            for question in prepared.questions:
                self._claim(question)
                data = of_next_tokens(self.model, question, list(self.plan.variables), ROOM)
                prepared.arrays.append({name: values for name, (_, values) in data.items()})
        return prepared

    def write(self, prepared: "Prepared") -> dict[str, Any]:
        """The record of the part, once its tables are in the store."""
        about = {
            "sha256": prepared.part.sha256,
            "too_long": self.plan.too_long,
            "sentences": len(prepared.numbers),
            "tokens": sum(len(question.positions) for question in prepared.questions),
            "skipped": prepared.skipped,
        }
        sentences = [
            coded(self.model, number, question.encoded)
            for number, question in zip(prepared.numbers, prepared.questions, strict=True)
        ]
        answers = list(zip(sentences, prepared.questions, prepared.arrays, strict=True))
        tables = prediction_tables.tables(self.model, answers, self.plan)
        return write_part(
            self.store, prepared.part.number, {name: as_parquet(table) for name, table in tables.items()}, about
        )

    def _claim(self, question: Question) -> None:
        tokens = len(question.encoded.tokens)
        plan = planned(self.model, tokens, len(question.positions), self.plan.variables, ROOM)
        claim(resident(plan.takes), tokens, self.model.device, None, REMEDY)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part in progress: its questions by number, the arrays of each so far, and what was left out."""

    part: Part
    numbers: list[int]
    questions: list[Question]
    arrays: list[dict[str, np.ndarray]]
    skipped: Iterable[dict[str, Any]] = ()


def asked_of(model: Model, sentence: Sentence, truncate: bool) -> Question:
    """What is to be explained of a sentence: its mask, its answer, or the next token."""
    if model.encoder is not None:
        answer = sentence.labels.get("answer", sentence.pair)
        given = sentence.text if answer is not None else (sentence.text, "")
        asked = question_of_both(model, given, None, None, Answer(answer), truncate)
        texts = replace(sentence, words=asked.encoded.sentence.words, pair=answer or "")
        return replace(asked, encoded=replace(asked.encoded, sentence=texts))
    if not sentence.turns and not sentence.ids and masks(model, sentence):
        return (_behind if model.anatomy.causal else _masked)(model, sentence, truncate)
    if not model.anatomy.causal:
        raise BadInput(f"A masked model predicts at a mask, and {OUTCOMES[NO_MASK]}; put one where it is to predict.")
    return question(model, sentence, None, None, Answer(sentence.labels.get("answer")), truncate)


def _masked(model: Model, sentence: Sentence, truncate: bool) -> Question:
    """The answer at its mask where it is one token, else the model's best at every mask."""
    cloze, _ = question_of(model, sentence)
    known = cloze is not None and cloze.answer is not None
    position, token = (cloze.position, cloze.answer) if cloze is not None and known else (None, None)
    return question(model, sentence, position, token, Answer(), truncate)


def _behind(model: Model, sentence: Sentence, truncate: bool) -> Question:
    """A cloze for a decoder: what stands before the mask is the prompt, and the answer follows it."""
    gap = masks(model, sentence)[0]
    cloze, outcome = question_of(model, sentence)
    if cloze is None and outcome in OUTCOMES:
        raise BadInput(f"This cloze cannot be asked of a decoder: {OUTCOMES[outcome]}.")
    before = gap.before.rstrip()
    prompt = replace(sentence, text=before, pair=None, words=(), mentions=())
    answer = answer_of(sentence)
    written = gap.before[len(before) :] + answer if answer else None
    return question(model, prompt, None, None, Answer(written), truncate)
