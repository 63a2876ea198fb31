"""Measures of flow before a referee: what is lost when the sources that they name are taken away.

For every prediction of a corpus and every ranking of its sources: how much of the log-probability is lost without the
ranking's first sources, and with nothing but them, three ways of taking away; and how the ranking agrees with taking
each source away alone, from the text or (its values zeroed) from what other tokens can read.
"""

import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
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
from whence.corpus import rankings as ranking
from whence.corpus.answers import Columns, answers, column
from whence.corpus.resume import Progress
from whence.corpus.subjects import Prediction, prediction_of
from whence.errors import BadInput, Unsupported
from whence.faithfulness import edits, scores
from whence.faithfulness.edits import DELETION, EDITS, MASK_TOKEN, MEAN_EMBEDDING, Row, Subject, edited
from whence.measures.flow.prediction import logits
from whence.models.batching import batches, padded, padding_id
from whence.models.fingerprint import provenance
from whence.models.intervene import class_scores, classifies, last_states, mean_embedding, replaced
from whence.models.load import Model, loaded
from whence.text.sentence import Sentence

PART = 4
TOKENS = 4096  # of all rows in a batch
BLOCKS = 6  # whose values are zeroed one block at a time, evenly spread
KINDS = ("removed", "kept")
ALONE = (*EDITS, "values zeroed")
JUDGED = "judged"
Removed = frozenset[int]


@dataclass(frozen=True)
class Setting:
    """What is the same for all predictions of a model."""

    rankings: tuple[str, ...]
    layered: tuple[str, ...]
    edits: tuple[str, ...]
    blocks: tuple[int, ...]
    layers: int
    without: tuple[str, ...]

    @classmethod
    def of(cls, model: Model, blocks: int = BLOCKS, without: Collection[str] = ()) -> "Setting":
        attending = model.anatomy.attending if "attention" in model.gives else ()
        places = np.linspace(0, len(attending) - 1, min(blocks, len(attending))).round().astype(int).tolist()
        return cls(
            tuple(ranking.judged(model, without)),
            tuple(ranking.layered(model, without)),
            tuple(edit for edit in EDITS if _possible(model, edit)),
            tuple(attending[place] for place in dict.fromkeys(places)),
            model.anatomy.layers,
            tuple(without),
        )


def referee(
    model: Model,
    corpus: Iterable[object],
    *,
    blocks: int = BLOCKS,
    without: Collection[str] = (),
    out: str | Path | None = None,
    part_size: int = PART,
    progress: Progress | None = None,
) -> xarray.Dataset:
    """Every ranking judged by interventions, prediction by prediction; see `whence.corpus.subjects` for the texts.

    blocks   so many blocks, evenly spread, have their values zeroed one by one
    without  variables that are not measured, such as those that take long (`whence.corpus.rankings.SLOW`)

    removed (prediction, ranking, edit, share)  log-probability lost without the first so many per cent of the sources
    kept (prediction, ranking, edit, share)     log-probability lost with nothing but them
    agreement (prediction, ranking, alone)      Spearman's correlation with what is lost without each source alone, for
                                                each edit and for values zeroed in all blocks
    beyond (prediction, ranking, alone)         the same with the distance to the prediction held constant
    layered (prediction, variable, layer)       the same with leave-one-out by deletion, for every layer's scores
    zeroed (prediction, variable, block)        the same with values zeroed in this block only, for the scores of
                                                what it reads (share, dependence) or does (maps)
    probability, candidates, position (prediction)
    After DeYoung et al. (2020) and Mohebbi et al. (2023).
    """
    setting = Setting.of(loaded(model), whole("blocks", blocks, 1), without)
    settings = {"rankings": setting.rankings, "layered": setting.layered, "blocks": list(setting.blocks)}
    compute = partial(_columns, model, setting)
    table = answers("referee", model, settings, corpus, compute, out, whole("part_size", part_size, 1), progress)
    outcomes = Counter(table["outcome"].to_pylist())
    if not outcomes[JUDGED]:
        raise Unsupported(f"No text of the corpus can be judged: {outcomes.most_common(1)[0][0]}")
    about = {"judged": outcomes[JUDGED], "outcomes": json.dumps(outcomes)}
    return _dataset(table, setting).assign_attrs(provenance(model, ["referee"], {}) | about)


def _possible(model: Model, edit: str) -> bool:
    if edit == MASK_TOKEN:  # a decoder was not trained on it, even where its tokenizer has one
        return model.tokenizer.mask_token_id is not None and not model.anatomy.causal
    if edit == MEAN_EMBEDDING:
        try:
            mean_embedding(model.anatomy)
        except Unsupported:
            return False
    return True


@torch.no_grad()
def log_probabilities(
    model: Model, rows: Sequence[Row], unread: Sequence[Removed] = (), blocks: Collection[int] = ()
) -> Float[Tensor, "n v"]:
    """What the model says at the place of each row's prediction, or of its class; `unread` tokens have no values."""
    anatomy = model.anatomy
    batch = padded([row.batch for row in rows], padding_id(anatomy, model.tokenizer))
    size, places = batch.ids.shape, [row.position for row in rows]
    silent = _flags(unread, *size) if unread else None
    hidden = torch.zeros(size, dtype=torch.bool)
    for number, row in enumerate(rows):
        hidden[number, : len(row.replaced)] = torch.tensor(row.replaced)
    with replaced(anatomy, hidden, mean_embedding(anatomy)) if hidden.any() else nullcontext():
        if classifies(anatomy):
            values = class_scores(anatomy, batch, silent, blocks)
        else:
            values = logits(anatomy, last_states(anatomy, batch, places, silent, blocks))
    return values.float().log_softmax(dim=-1)


def _flags(places: Sequence[Removed], rows: int, tokens: int) -> Tensor:
    flags = torch.zeros(rows, tokens, dtype=torch.bool)
    for row, removed in enumerate(places):
        flags[row, list(removed)] = True
    return flags


def _said(
    model: Model, token: int, rows: Sequence[Row], unread: Sequence[Removed] = (), blocks: Collection[int] = ()
) -> Float[np.ndarray, " n"]:
    """The token's log-probability after each row, in batches of similar length."""
    said = np.empty(len(rows))
    for batch in batches([len(row.ids) for row in rows], lambda longest: max(1, TOKENS // longest)):
        silent = [unread[place] for place in batch] if unread else ()
        said[batch] = log_probabilities(model, [rows[place] for place in batch], silent, blocks)[:, token].cpu().numpy()
    return said


def settled(model: Model, prediction: Prediction) -> Prediction:
    """With the token or class that is predicted: the model's own best one where none was asked for."""
    subject = prediction.subject
    if subject.token >= 0:
        return prediction
    best = int(log_probabilities(model, [edited(subject, DELETION, ())])[0].argmax())
    tokens = None if classifies(model.anatomy) else [best]
    explained = replace(prediction.question, tokens=tokens)
    return replace(prediction, subject=replace(subject, token=best), question=explained)


def judged(model: Model, setting: Setting, prediction: Prediction, seed: int) -> dict[str, Any]:
    """Everything that is said of one prediction."""
    prediction = settled(model, prediction)
    subject, rankings = prediction.subject, ranking.rankings(model, prediction, seed, setting.without)
    candidates = subject.candidates
    values = np.stack([rankings.judged[name] for name in setting.rankings])
    chosen = [_chosen(subject, row, seed) for row in values]
    single = [frozenset((place,)) for place in candidates]
    wanted = dict.fromkeys([*single, *(tokens for row in chosen for kind in row for tokens in kind)])
    whole_text = _said(model, subject.token, [edited(subject, DELETION, ())])[0]
    lost = {edit: _lost(model, subject, edit, wanted, whole_text) for edit in setting.edits}
    removed, kept = np.full((2, len(values), len(EDITS), len(scores.SHARES)), np.nan)
    alone = np.full((len(ALONE), len(candidates)), np.nan)
    for place, edit in enumerate(EDITS):
        if edit in lost:
            alone[place] = [lost[edit][tokens] for tokens in single]
            for kind, into in enumerate((removed, kept)):
                into[:, place] = [[lost[edit][tokens] for tokens in row[kind]] for row in chosen]
    silenced = partial(_silenced, model, subject, single, whole_text)
    if setting.blocks:
        alone[-1] = silenced(range(1, setting.layers + 1))
    distances = np.abs(np.array(candidates, dtype=np.float64) - subject.position)
    wide = np.broadcast_to(values[:, None], (len(values), len(ALONE), len(candidates)))
    return {
        "probability": float(np.exp(whole_text)),
        "predicted": subject.token,
        "position": subject.position,
        "candidates": len(candidates),
        "removed": removed,
        "kept": kept,
        "agreement": scores.rank_correlation(wide, np.broadcast_to(alone, wide.shape)),
        "beyond": scores.partial(wide, np.broadcast_to(alone, wide.shape), np.broadcast_to(distances, wide.shape)),
        **_by_layer(setting, rankings, alone[0], {block: silenced([block]) for block in setting.blocks}),
    }


def _chosen(subject: Subject, values: np.ndarray, seed: int) -> tuple[list[Removed], list[Removed]]:
    """The sources that are taken away for each share: the ranking's first, and all but these. None of no ranking."""
    order = [subject.candidates[place] for place in scores.ranked(values, seed)]
    firsts = [frozenset(order[: edits.first(order, share)]) for share in scores.SHARES]
    return firsts, [frozenset(order) - first for first in firsts]


def _lost(
    model: Model, subject: Subject, edit: str, wanted: Iterable[Removed], whole_text: float
) -> dict[Removed, float]:
    sets = list(wanted)
    rows = [edited(subject, edit, removed, model.tokenizer.mask_token_id) for removed in sets]
    return dict(zip(sets, whole_text - _said(model, subject.token, rows), strict=True))


def _silenced(
    model: Model, subject: Subject, single: Sequence[Removed], whole_text: float, blocks: Collection[int]
) -> Float[np.ndarray, " n"]:
    """What is lost when nobody can read a token's value in these blocks."""
    rows = [edited(subject, DELETION, ())] * len(single)
    return whole_text - _said(model, subject.token, rows, single, blocks)


def _by_layer(
    setting: Setting, rankings: ranking.Rankings, alone: np.ndarray, by_block: dict[int, np.ndarray]
) -> dict[str, np.ndarray]:
    if not setting.layered:
        return {"layered": np.empty((0, setting.layers + 1)), "zeroed": np.empty((0, len(by_block)))}
    values = np.stack([rankings.by_layer[name] for name in setting.layered])
    zeroed = np.full((len(values), len(by_block)), np.nan)
    for place, (block, losses) in enumerate(by_block.items()):
        read = [block - 1 if name in ranking.OF_PREDICTION else block for name in setting.layered]
        rows = values[np.arange(len(values)), read]
        zeroed[:, place] = scores.rank_correlation(rows, np.broadcast_to(losses, rows.shape))
    return {"layered": scores.rank_correlation(values, np.broadcast_to(alone, values.shape)), "zeroed": zeroed}


def _columns(model: Model, setting: Setting, part: Sequence[Sentence]) -> Columns:
    """One part as columns, one row per text; NaN where there was nothing to judge, and `outcome` says why."""
    sizes = {name: tuple(len(names) for names in axes.values()) for name, axes in _axes(setting).items()}
    columns: dict[str, Any] = {name: np.full((len(part), *size), np.nan, np.float32) for name, size in sizes.items()}
    outcomes, tokens = [], []
    for row, sentence in enumerate(part):
        try:
            prediction = prediction_of(model, sentence)
        except BadInput as error:
            outcomes.append(str(error))
            tokens.append("")
            continue
        row_values = judged(model, setting, prediction, _seed(sentence))
        outcomes.append(JUDGED)
        tokens.append(" ".join(prediction.question.encoded.tokens))
        for name in columns:
            columns[name][row] = row_values[name]
    return columns | {
        "outcome": outcomes,
        "id": [sentence.id for sentence in part],
        "document": [sentence.document or sentence.id or sentence.text for sentence in part],
        "tokens": tokens,
    }


def _seed(sentence: Sentence) -> int:
    return zlib.crc32(sentence.text.encode())


def _axes(setting: Setting) -> dict[str, dict[str, Sequence[Any]]]:
    """Variable -> its axes after the prediction's, with their coordinates."""
    shares: dict[str, Sequence[Any]] = {"ranking": setting.rankings, "edit": EDITS, "share": scores.SHARES}
    alone: dict[str, Sequence[Any]] = {"ranking": setting.rankings, "alone": ALONE}
    return {
        **{name: {} for name in ("probability", "predicted", "position", "candidates")},
        **dict.fromkeys(KINDS, shares),
        **dict.fromkeys(("agreement", "beyond"), alone),
        "layered": {"variable": setting.layered, "layer": range(setting.layers + 1)},
        "zeroed": {"variable": setting.layered, "block": setting.blocks},
    }


def _dataset(table: pa.Table, setting: Setting) -> xarray.Dataset:
    data: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, axes in _axes(setting).items():
        data[name] = (("prediction", *axes), column(table, name, *(len(names) for names in axes.values())))
        coords |= {axis: list(names) for axis, names in axes.items()}
    for name in ("outcome", "id", "document", "tokens"):
        coords[name] = ("prediction", np.array(table[name].to_pylist(), dtype=object))
    dataset = xarray.Dataset(data, coords)
    return dataset.isel(prediction=dataset["outcome"].values == JUDGED)
