"""What a small change of the input does to the prediction: recipes, and the ranks and correlations before and after."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import xarray

from whence._arguments import listed, whole
from whence.corpus.answers import Columns, answers, column
from whence.corpus.cloze import answered, coordinates, counted, described, hits, places, together
from whence.corpus.questions import Question, question_of
from whence.corpus.resume import Progress
from whence.errors import BadInput
from whence.measures.lm_head.ranks import paired, ranks
from whence.measures.lm_head.stages import Stages, stages_of
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.models.vocabulary import pieces
from whence.text.sentence import Sentence

PERIOD, END, MASK = "final period", "end token", "mask"
PART = 128


@dataclass(frozen=True)
class Recipe:
    """Which token is replaced, and by what; without `by` it is dropped.

    `token` is PERIOD, END or MASK, a piece as the vocabulary shows it (its first occurrence), or a position (from the
    end when negative). `by` is a word; if it is several tokens, the tokens after it shift.
    """

    token: str | int
    by: str | None = None

    @property
    def name(self) -> str:
        return f"without {self.token}" if self.by is None else f"{self.token} -> {self.by}"


# those of the paper (Podkorytov, Bis & Liu 2021, figures 3 and 7)
RECIPES = {"no-period": Recipe(PERIOD), "no-end": Recipe(END), "mask-word": Recipe(MASK, by="cat")}


def perturb(
    model: Model,
    corpus: Iterable[object],
    recipes: Iterable[str | Recipe] = tuple(RECIPES),
    *,
    out: str | Path | None = None,
    part_size: int = PART,
    progress: Progress | None = None,
) -> xarray.Dataset:
    """How each recipe changes the scores of the LM head's stages, sentence by sentence.

    Args:
        model: a loaded model with an LM head
        corpus: any iterable of sentences with a mask and labels["answer"], such as whence.read("lama:FILE")
        recipes: names ("no-period", "no-sep", …), or functions of a sentence
        out: a folder in which finished parts are kept, so that the same call resumes where it stopped
        part_size: sentences per part
        progress: progress(done, total) is called during the work, and may end it by raising

    Returns:
        A Dataset with `spearman(recipe, sentence, stage)`, which compares the scores at the masked position before and
        after the change; `place` and `hits` of the answers in the unchanged sentences, `place_after` and `hits_after`
        with the change, and `hits_before` of the same sentences without it. NaN where a recipe does not apply
        (`applied` counts where it does).

    After Podkorytov et al. (2021).

    Examples:
        >>> from whence.text.sentence import Sentence
        >>> clozes = [Sentence("Paris is the capital of [MASK].", labels={"answer": "France"})]
        >>> whence.perturb(whence.load(), clozes, ["no-period"]).spearman.dims
        ('recipe', 'sentence', 'stage')
    """
    chosen = recipes_of(recipes)
    stages = stages_of(loaded(model).anatomy)
    settings = {"stages": stages.names, "recipes": {name: asdict(recipe) for name, recipe in chosen.items()}}
    compute = partial(_columns, model, stages, list(chosen.values()))
    table = answers("perturb", model, settings, corpus, compute, out, whole("part_size", part_size, 1), progress)
    dataset = _dataset(table, stages.names, list(chosen))
    return dataset.assign_attrs(provenance(model, ["perturb"], settings) | counted(table))


def recipes_of(recipes: Iterable[str | Recipe]) -> dict[str, Recipe]:
    """Recipes by name: from the table, and the user's own."""
    chosen = listed("recipe", recipes, str, Recipe)
    wrong = [recipe for recipe in chosen if not isinstance(recipe, Recipe) and recipe not in list(RECIPES)]
    if wrong or not chosen:
        raise BadInput(
            f"There is no recipe {wrong[0]!r}; there are {', '.join(RECIPES)}, and your own:"
            " Recipe(token, by) of whence.perturb."
            if wrong
            else "No recipe was given; for example: no-period."
        )
    return dict((recipe, RECIPES[recipe]) if isinstance(recipe, str) else (recipe.name, recipe) for recipe in chosen)


def changed(model: Model, question: Question, recipe: Recipe) -> Question | None:
    """The question with the recipe applied and its position shifted along; None when there is nothing to change."""
    place = _place(model, question, recipe.token)
    if place is None or (recipe.by is None and place == question.position):
        return None
    ids = [] if recipe.by is None else _pieces_of(model, recipe.by)
    segments = question.segments
    moved = question.position + (len(ids) - 1 if place < question.position else 0)
    return replace(
        question,
        ids=_spliced(question.ids, place, ids),
        segments=None if segments is None else _spliced(segments, place, [segments[place]] * len(ids)),
        special=_spliced(question.special, place, [False] * len(ids)),
        position=moved,
    )


def _spliced(row: tuple, place: int, new: Sequence) -> tuple:
    return (*row[:place], *new, *row[place + 1 :])


def _place(model: Model, question: Question, token: str | int) -> int | None:
    if isinstance(token, int):
        return token % len(question.ids) if -len(question.ids) <= token < len(question.ids) else None
    find = _FINDERS.get(token)
    return _first(model, question, token) if find is None else find(model, question)


def _period(model: Model, question: Question) -> int | None:
    """The last token that is not special, if it is a full stop: not any full stop before it."""
    last = max((place for place, special in enumerate(question.special) if not special), default=None)
    return last if last is not None and pieces(model.tokenizer, [question.ids[last]])[0].strip("▁") == "." else None


def _end(model: Model, question: Question) -> int | None:
    last = len(question.ids) - 1
    return last if question.special[last] and question.ids[last] != model.tokenizer.bos_token_id else None


def _mask(model: Model, question: Question) -> int | None:
    return question.position if question.ids[question.position] == model.tokenizer.mask_token_id else None


_FINDERS: dict[str, Callable[[Model, Question], int | None]] = {PERIOD: _period, END: _end, MASK: _mask}


def _first(model: Model, question: Question, token: str) -> int | None:
    shown = pieces(model.tokenizer, list(question.ids))
    return next((place for place, piece in enumerate(shown) if piece == token or piece.strip("▁") == token), None)


def _pieces_of(model: Model, word: str) -> list[int]:
    """The word's tokens after a space: most vocabularies mark the start of a word that way."""
    ids = model.tokenizer(f" {word.strip()}", add_special_tokens=False)["input_ids"]
    if not ids:
        raise BadInput(f"{word!r} gives no token in this model's vocabulary; put another word in the recipe.")
    return list(ids)


def _columns(model: Model, stages: Stages, recipes: Sequence[Recipe], part: Sequence[Sentence]) -> Columns:
    """One part as columns, one row per sentence."""
    parsed = [question_of(model, sentence) for sentence in part]
    masked = [(row, question) for row, (question, _) in enumerate(parsed) if question is not None]
    size, number = (len(part), len(recipes), len(stages.names)), len(stages.names)
    before = np.full((len(part), number), np.nan, dtype=np.float32)
    alike, after = (np.full(size, np.nan, dtype=np.float32) for _ in range(2))
    for batch in together(stages, [question for _, question in masked]):
        rows, batched = np.array([masked[at][0] for at in batch]), [masked[at][1] for at in batch]
        scores = answered(model, stages, batched)
        before[rows], order = places(scores, batched), ranks(scores)
        for index, recipe in enumerate(recipes):
            edited = [changed(model, question, recipe) for question in batched]
            kept = [row for row, question in enumerate(edited) if question is not None]
            applied = [question for question in edited if question is not None]
            if applied:
                new_scores = answered(model, stages, applied)
                old_order = order[torch.tensor(kept, device=order.device)]
                alike[rows[kept], index] = paired(old_order, ranks(new_scores)).float().cpu().numpy()
                after[rows[kept], index] = places(new_scores, applied)
    columns = described(part, [outcome for _, outcome in parsed], [question for question, _ in parsed])
    return columns | {"place": before, "place_after": after, "spearman": alike}


def _dataset(table: pa.Table, names: Sequence[str], recipes: Sequence[str]) -> xarray.Dataset:
    size = (len(recipes), len(names))
    by_recipe = ("recipe", "sentence", "stage")
    ranks_before = column(table, "place", len(names))
    alike, after = (column(table, name, *size).swapaxes(0, 1) for name in ("spearman", "place_after"))
    applied = ~np.isnan(alike[..., -1])
    same = np.where(applied[..., None], ranks_before[None], np.nan)
    data = {
        "spearman": (by_recipe, alike),
        "place": (("sentence", "stage"), ranks_before),
        "place_after": (by_recipe, after),
        "hits": (("stage", "k"), hits(ranks_before)),
        "hits_before": (("recipe", "stage", "k"), hits(same)),
        "hits_after": (("recipe", "stage", "k"), hits(after)),
        "applied": (("recipe",), applied.sum(axis=1)),
    }
    return xarray.Dataset(data, coordinates(table, names) | {"recipe": list(recipes)})
