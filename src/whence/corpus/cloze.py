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
from whence.corpus.questions import FIRST, SCORED, Question, answer_of, question
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
    """Where each stage of the head puts the answers of a cloze corpus, as hits@1..100, and how alike the stages are.

    The corpus is any iterable of sentences with a mask and labels["answer"]; see whence.read("lama:FILE"). With `out`,
    finished parts are kept in that folder, and the same call goes on where it was stopped.
    `place(sentence, stage)` is where the answer stands, NaN where there is none to look for: `outcome` says why. A
    sentence with a mask has `spearman` and `pearson` also when its answer is not one token (Podkorytov et al. 2021).

    >>> from whence.text.sentence import Sentence
    >>> found = whence.cloze(whence.load(), [Sentence("Paris is the capital of [MASK].", labels={"answer": "France"})])
    >>> found.place.dims, found.hits.dims
    (('sentence', 'stage'), ('stage', 'k'))
    """
    stages = stages_of(loaded(model).anatomy)
    settings = {"stages": stages.names}
    compute = partial(_columns, model, stages)
    table = answers("cloze", model, settings, corpus, compute, out, whole("part_size", part_size, 1), progress)
    return _dataset(table, stages.names).assign_attrs(provenance(model, ["cloze"], {}) | counted(table))


def together(stages: Stages, asked: Sequence[Question]) -> list[list[int]]:
    """Places of questions to be read together: of like length, and as many as the scores have room for."""
    row = 4 * len(stages.names) * stages.embeddings.shape[1]
    return batches([len(one.ids) for one in asked], lambda longest: min(BATCH, ROOM // row))


def answered(model: Model, stages: Stages, asked: Sequence[Question]) -> Float[Tensor, "n g v"]:
    """What every stage says at the place each question asks about."""
    batch = padded([one.batch for one in asked], padding_id(model.anatomy, model.tokenizer))
    last = [model.anatomy.layers]
    states = states_at(model.anatomy, batch, range(len(asked)), [one.position for one in asked], last)
    return scores(stages, states[0])


def places(found: Float[Tensor, "n g v"], asked: Sequence[Question]) -> Float[np.ndarray, "n g"]:
    """The place of every answer at every stage; NaN where there is none."""
    token = torch.tensor([one.answer if one.answer is not None else -1 for one in asked], device=found.device)
    ranks = place(found, token.clamp(min=0)[:, None].expand(found.shape[:2])).cpu().numpy().astype(np.float32)
    ranks[token.cpu().numpy() < 0] = np.nan
    return ranks


def described(part: Sequence[Sentence], outcomes: Sequence[str], asked: Sequence[Question | None]) -> dict[str, Any]:
    """What is kept of every sentence whatever is measured."""
    return {
        "id": [given.id for given in part],
        "text": [given.text for given in part],
        "answer": [answer_of(given) for given in part],
        "outcome": list(outcomes),
        "position": np.array([-1 if one is None else one.position for one in asked], dtype=np.int32),
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
    """How many answers are among the k best, for k from 1 to 100: "*b g k"."""
    return np.stack([(ranks <= k).sum(axis=-2) for k in range(1, HITS + 1)], axis=-1)


def counted(table: pa.Table) -> dict[str, Any]:
    """How many sentences there were, and what became of them."""
    outcomes = Counter(table["outcome"].to_pylist())
    scored = sum(outcomes[name] for name in (SCORED, FIRST))
    return {"sentences": len(table), "scored": scored, "outcomes": json.dumps(outcomes)}


def _columns(model: Model, stages: Stages, part: Sequence[Sentence]) -> Columns:
    """One part as columns, a row a sentence."""
    found = [question(model, given) for given in part]
    asked = [one for one, _ in found]
    number = len(stages.names)
    ranks = np.full((len(part), number), np.nan, dtype=np.float32)
    alike = {name: np.full((len(part), number, number), np.nan, dtype=np.float32) for name in ("spearman", "pearson")}
    there = [place for place, one in enumerate(asked) if one is not None]
    questions = [one for one in asked if one is not None]
    for batch in together(stages, questions):
        rows, these = [there[place] for place in batch], [questions[place] for place in batch]
        said = answered(model, stages, these)
        ranks[rows] = places(said, these)
        alike["spearman"][rows] = spearman(said).float().cpu().numpy()
        alike["pearson"][rows] = pearson(said).float().cpu().numpy()
    return described(part, [outcome for _, outcome in found], asked) | {"place": ranks, **alike}


def _dataset(table: pa.Table, names: Sequence[str]) -> xarray.Dataset:
    size = len(names)
    ranks = column(table, "place", size)
    data: dict[str, Any] = {"place": (("sentence", "stage"), ranks), "hits": (("stage", "k"), hits(ranks))}
    for name in ("spearman", "pearson"):
        data[name] = (("sentence", "stage", "other_stage"), column(table, name, size, size))
    return xarray.Dataset(data, coordinates(table, names) | {"other_stage": list(names)})
