"""Batches of sentences: which go through a model together, and how the shorter ones are padded."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from whence.models.anatomy import Anatomy
from whence.models.block import Batch


def batches(lengths: Sequence[int], rows_of: Callable[[int], int], longest_first: bool = False) -> list[list[int]]:
    """Indices of sentences, batched by length; `rows_of(longest)` is how many of them fit."""
    sign = -1 if longest_first else 1
    groups: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: (sign * lengths[index], index)):
        longest = max(longest, lengths[index])
        if not groups or len(groups[-1]) + 1 > rows_of(longest):
            groups.append([])
            longest = lengths[index]
        groups[-1].append(index)
    return groups


def padded(rows: Sequence[Batch], token: int) -> Batch:
    """Sentences of one row each, padded on the right."""
    longest = max(row.ids.shape[1] for row in rows)
    filled = [pad(row, "right", token, longest - row.ids.shape[1]) for row in rows]
    segments = [row.segments for row in filled if row.segments is not None]
    return Batch(
        torch.cat([row.ids for row in filled]),
        torch.cat([row.mask for row in filled]),
        torch.cat(segments) if segments else None,
    )


def pad(batch: Batch, side: str, token: int, width: int) -> Batch:
    """The batch with `width` padding tokens on one side; of two stacks the decoder's on the right."""
    if batch.split is not None:
        return Batch.of_both(pad(batch.source, side, token, width), pad(batch.prefix, "right", token, width))
    size = (width, 0) if side == "left" else (0, width)
    segments = None if batch.segments is None else torch.nn.functional.pad(batch.segments, size)
    return Batch(
        torch.nn.functional.pad(batch.ids, size, value=token),
        torch.nn.functional.pad(batch.mask, size, value=False),
        segments,
    )


def padding_id(anatomy: Anatomy, tokenizer: Any = None) -> int:
    """The model's own padding id: RoBERTa counts positions by it. Where there is none, any will do."""
    known = (getattr(anatomy.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None))
    return next((token for token in known if isinstance(token, int) and token >= 0), 0)
