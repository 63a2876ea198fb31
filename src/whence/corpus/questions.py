"""A masked sentence as a question to a model: its tokens, the position asked about, the right answer."""

import re
from dataclasses import dataclass
from string import punctuation
from typing import Any

import torch

from whence.errors import BadInput, TooLong
from whence.models.block import Batch
from whence.models.encode import encode
from whence.models.load import Model
from whence.text.sentence import MASK, Sentence

SCORED = "scored"
FIRST = "scored, the first of several masks"  # as LAMA's own evaluation does
NO_MASK = "no mask"
NOT_LAST = "the mask is not last, and a decoder sees only what is before it"
TOO_LONG = "longer than the model takes"
NO_TOKEN = "no token before the mask"
NO_ANSWER = "no answer"
UNKNOWN = "the answer is not in the vocabulary"
NOT_ONE_TOKEN = "the answer is not one token"
OUTCOMES = (SCORED, FIRST, NOT_ONE_TOKEN, UNKNOWN, NO_ANSWER, NO_MASK, NOT_LAST, NO_TOKEN, TOO_LONG)


@dataclass(frozen=True)
class Question:
    """What the model reads, and the position of its prediction; `answer` is the right token where there is one."""

    ids: tuple[int, ...]
    segments: tuple[int, ...] | None
    special: tuple[bool, ...]
    position: int
    answer: int | None

    @property
    def batch(self) -> Batch:
        segments = None if self.segments is None else torch.tensor([self.segments])
        return Batch(torch.tensor([self.ids]), torch.ones(1, len(self.ids), dtype=torch.bool), segments)


def question_of(model: Model, sentence: Sentence) -> tuple[Question | None, str]:
    """The question, or None, and what became of the sentence: one of OUTCOMES."""
    gaps = masks(model, sentence)
    if not gaps:
        return None, NO_MASK
    first, causal = gaps[0], model.anatomy.causal
    if causal and (first.after.strip(punctuation + " ") or sentence.pair is not None):
        return None, NOT_LAST
    prompt = sentence if not causal else Sentence(first.before.rstrip())
    try:
        encoded = encode(model.anatomy, model.tokenizer, prompt)
    except TooLong:
        return None, TOO_LONG
    except BadInput:
        return None, NO_TOKEN
    ids = tuple(encoded.batch.ids[0].tolist())
    position = encoded.last if causal else ids.index(model.tokenizer.mask_token_id)
    answer, outcome = _answer(model, sentence, first, ids, position)
    segments = None if encoded.batch.segments is None else tuple(encoded.batch.segments[0].tolist())
    question = Question(ids, segments, tuple(encoded.special), position, answer)
    return question, FIRST if outcome == SCORED and len(gaps) > 1 else outcome


@dataclass(frozen=True)
class Gap:
    """A mask in one of a sentence's texts, by the text around it."""

    part: int
    before: str
    after: str


def masks(model: Model, sentence: Sentence) -> list[Gap]:
    """Masks in reading order, written as [MASK] or as the model's own."""
    written = re.compile("|".join(re.escape(mask) for mask in {MASK, model.tokenizer.mask_token or MASK}))
    return [
        Gap(part, text[: match.start()], text[match.end() :])
        for part, text in enumerate(sentence.texts)
        for match in written.finditer(text)
        if text[: match.start()].strip() or not model.anatomy.causal
    ]


def _answer(model: Model, sentence: Sentence, gap: Gap, ids: tuple[int, ...], position: int) -> tuple[int | None, str]:
    """The token in the mask's position when the answer is written there, if it is one token and changes no other.

    Encoded in its context because many vocabularies have a word twice, with and without a space in front.
    """
    answer = answer_of(sentence)
    if not answer:
        return None, NO_ANSWER
    causal = model.anatomy.causal
    written = gap.before + answer + ("" if causal else gap.after)
    whole = Sentence(sentence.text, written) if gap.part else Sentence(written, sentence.pair)
    spoken = encode(model.anatomy, model.tokenizer, whole, truncate=True).batch.ids[0].tolist()
    where = position + causal
    if len(spoken) != len(ids) + causal or (*spoken[:where], *spoken[where + 1 :]) != (
        *ids[:where],
        *ids[position + 1 :],
    ):
        return None, NOT_ONE_TOKEN
    token = int(spoken[where])
    return (None, UNKNOWN) if token == _unknown(model.tokenizer) else (token, SCORED)


def answer_of(sentence: Sentence) -> str:
    """The answer, which a table may also have in its column of labels."""
    return (sentence.labels.get("answer") or sentence.labels.get("label") or "").strip()


def _unknown(tokenizer: Any) -> int | None:
    """The unknown token; byte-level vocabularies need none, and name their end of text instead."""
    ends = {tokenizer.eos_token_id, tokenizer.bos_token_id}
    return None if tokenizer.unk_token_id in ends else tokenizer.unk_token_id
