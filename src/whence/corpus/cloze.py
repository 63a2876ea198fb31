"""A cloze corpus: where every step of the LM head puts the right answer, and how alike the steps are."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import xarray
from jaxtyping import Float
from torch import Tensor

from whence._arguments import whole
from whence.corpus.answers import Columns, answers, column
from whence.corpus.questions import FIRST, SCORED, Question, answer_of, question_of
from whence.corpus.resume import Progress
from whence.measures.lm_head.ranks import pearson, place, spearman
from whence.measures.lm_head.stages import Stages, scores, stages_of, states_at
from whence.models.batching import batches, padded, padding_id
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.text.sentence import Sentence

HITS = 100
PART = 256
BATCH = 32
ROOM = 2**26  # bytes of scores at once


def cloze(
    model: Model,
    corpus: Iterable[object],
    *,
    out: str | Path | None = None,
    part_size: int = PART,
    progress: Progress | None = None,
) -> xarray.Dataset:
    """Where each stage of the LM head puts the answers of a cloze corpus, and how alike the stages are.

    Args:
        model: a loaded model with an LM head
        corpus: any iterable of sentences with a mask and labels["answer"], such as whence.read("lama:FILE")
        out: a folder in which finished parts are kept, so that the same call resumes where it stopped
        part_size: sentences per part
        progress: progress(done, total) is called during the work, and may end it by raising

    Returns:
        A Dataset with `place(sentence, stage)`, the rank of the answer, NaN where there is none to look for (`outcome`
        says why); `hits(stage, k)`, the share of answers among the best k; `spearman` and `pearson` between stages,
        also where the answer is not one token.

    After Podkorytov et al. (2021).

    Examples:
        >>> from whence.text.sentence import Sentence
        >>> sentence = Sentence("Paris is the capital of [MASK].", labels={"answer": "France"})
        >>> ranks = whence.cloze(whence.load(), [sentence])
        >>> ranks.place.dims, ranks.hits.dims
        (('sentence', 'stage'), ('stage', 'k'))
    """
    stages = stages_of(loaded(model).anatomy)
    settings = {"stages": stages.names}
    compute = partial(_columns, model, stages)
    table = answers("cloze", model, settings, corpus, compute, out, whole("part_size", part_size, 1), progress)
    return _dataset(table, stages.names).assign_attrs(provenance(model, ["cloze"], {}) | counted(table))


def together(stages: Stages, questions: Sequence[Question]) -> list[list[int]]:
    """Batches of questions by index: of similar length, and as many as there is room for their scores."""
    row = 4 * len(stages.names) * stages.embeddings.shape[1]
    return batches([len(question.ids) for question in questions], lambda longest: min(BATCH, ROOM // row))


def answered(model: Model, stages: Stages, questions: Sequence[Question]) -> Float[Tensor, "n g v"]:
    """The scores of every stage at the position each question asks about."""
    batch = padded([question.batch for question in questions], padding_id(model.anatomy, model.tokenizer))
    last = [model.anatomy.layers]
    states = states_at(model.anatomy, batch, range(len(questions)), [question.position for question in questions], last)
    return scores(stages, states[0])


def places(values: Float[Tensor, "n g v"], questions: Sequence[Question]) -> Float[np.ndarray, "n g"]:
    """The rank of every answer at every stage; NaN where there is none."""
    tokens = [-1 if question.answer is None else question.answer for question in questions]
    token = torch.tensor(tokens, device=values.device)
    ranks = place(values, token.clamp(min=0)[:, None].expand(values.shape[:2])).cpu().numpy().astype(np.float32)
    ranks[token.cpu().numpy() < 0] = np.nan
    return ranks


def described(part: Sequence[Sentence], outcomes: list[str], questions: Sequence[Question | None]) -> dict[str, Any]:
    """The columns that every sentence has, whatever is measured."""
    return {
        "id": [sentence.id for sentence in part],
        "text": [sentence.text for sentence in part],
        "answer": [answer_of(sentence) for sentence in part],
        "outcome": outcomes,
        "position": np.array([-1 if question is None else question.position for question in questions], dtype=np.int32),
    }


def coordinates(table: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    words = ("id", "text", "answer", "outcome")
    return {
        "sentence": np.arange(len(table)),
        **{name: ("sentence", np.array(table[name].to_pylist(), dtype=object)) for name in words},
        "position": ("sentence", column(table, "position")),
        "stage": list(names),
        "k": np.arange(1, HITS + 1),
    }


def hits(ranks: Float[np.ndarray, "*b n g"]) -> np.ndarray:
    """How many answers are among the top k, for k from 1 to 100: "*b g k"."""
    return np.stack([(ranks <= k).sum(axis=-2) for k in range(1, HITS + 1)], axis=-1)


def counted(table: pa.Table) -> dict[str, Any]:
    """How many sentences there were, and what became of them."""
    outcomes = Counter(table["outcome"].to_pylist())
    scored = sum(outcomes[name] for name in (SCORED, FIRST))
    return {"sentences": len(table), "scored": scored, "outcomes": json.dumps(outcomes)}


def _columns(model: Model, stages: Stages, part: Sequence[Sentence]) -> Columns:
    """One part as columns, one row per sentence."""
    parsed = [question_of(model, sentence) for sentence in part]
    questions = [question for question, _ in parsed]
    number = len(stages.names)
    ranks = np.full((len(part), number), np.nan, dtype=np.float32)
    alike = {name: np.full((len(part), number, number), np.nan, dtype=np.float32) for name in ("spearman", "pearson")}
    masked = [(row, question) for row, question in enumerate(questions) if question is not None]
    for batch in together(stages, [question for _, question in masked]):
        rows, batched = [masked[index][0] for index in batch], [masked[index][1] for index in batch]
        stage_scores = answered(model, stages, batched)
        ranks[rows] = places(stage_scores, batched)
        alike["spearman"][rows] = spearman(stage_scores).float().cpu().numpy()
        alike["pearson"][rows] = pearson(stage_scores).float().cpu().numpy()
    return described(part, [outcome for _, outcome in parsed], questions) | {"place": ranks, **alike}


def _dataset(table: pa.Table, names: Sequence[str]) -> xarray.Dataset:
    size = len(names)
    ranks = column(table, "place", size)
    data: dict[str, Any] = {"place": (("sentence", "stage"), ranks), "hits": (("stage", "k"), hits(ranks))}
    for name in ("spearman", "pearson"):
        data[name] = (("sentence", "stage", "other_stage"), column(table, name, size, size))
    return xarray.Dataset(data, coordinates(table, names) | {"other_stage": list(names)})
