"""Tokens taken out of a text, three ways: left out, replaced by the mask token, replaced by the mean embedding.

deletion        the tokens are gone and those behind them move up: a shorter text, such as nobody may have written
mask token      the model's own mask stands in their place: a text that a masked LM has seen many of
mean embedding  the mean of all token embeddings stands in their place: nothing moves, and any model can be given it
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from whence.models.block import Batch

DELETION, MASK_TOKEN, MEAN_EMBEDDING = "deletion", "mask token", "mean embedding"
EDITS = (DELETION, MASK_TOKEN, MEAN_EMBEDDING)


@dataclass(frozen=True)
class Subject:
    """A prediction: what the model reads, where it predicts what, and which tokens may be taken away."""

    ids: tuple[int, ...]
    segments: tuple[int, ...] | None
    position: int
    token: int
    "Of the vocabulary, or the number of a class."
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A text after an edit, the place of its prediction, and the places that get the mean embedding."""

    ids: tuple[int, ...]
    segments: tuple[int, ...] | None
    position: int
    replaced: tuple[bool, ...]

    @property
    def batch(self) -> Batch:
        segments = None if self.segments is None else torch.tensor([self.segments])
        return Batch(torch.tensor([self.ids]), torch.ones(1, len(self.ids), dtype=torch.bool), segments)


def edited(subject: Subject, edit: str, removed: Collection[int], mask: int | None = None) -> Row:
    """The subject's text without these tokens."""
    gone = set(removed)
    assert subject.position not in gone, "the token that predicts stays where it is"
    if edit == DELETION:
        kept = [place for place in range(len(subject.ids)) if place not in gone]
        segments = None if subject.segments is None else tuple(subject.segments[place] for place in kept)
        ids = tuple(subject.ids[place] for place in kept)
        return Row(ids, segments, kept.index(subject.position), (False,) * len(kept))
    if edit == MASK_TOKEN:
        assert mask is not None, "the model has a mask token"
        ids = tuple(mask if place in gone else token for place, token in enumerate(subject.ids))
        return Row(ids, subject.segments, subject.position, (False,) * len(ids))
    return Row(subject.ids, subject.segments, subject.position, tuple(p in gone for p in range(len(subject.ids))))


def first(order: Sequence[int], share: float) -> int:
    """How many of the tokens this share is: at least one, rounded up."""
    return max(1, math.ceil(share * len(order) - 1e-9))
