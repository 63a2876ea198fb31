"""What the explorer shows of a prediction: why it is made, rather than the second choice, and what is said next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import BadInput
from whence.models.coded import plain
from whence.sentence.question import Answer, question
from whence.sentence.rather import measures_given, rather
from whence.sentence.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import xarray

    from whence.models.load import Model
    from whence.text.sentence import Sentence

MOST = 400  # tokens of an answer


def reasons(
    model: Model,
    parsed: Sentence,
    options: Mapping[str, Any],
    truncate: bool,
    memory_limit: int | None,
    progress: Callable[[int, int], None],
) -> xarray.Dataset:
    """Why each prediction is made; a single one is told from the token that comes second, unless that is not wanted."""
    reply, text = options["answer"], _text(parsed, options)
    arguments: dict[str, Any] = {
        "measures": measures_given(model)[:1],
        "spans": options["spans"],
        "truncate": truncate,
        "memory_limit": memory_limit,
        "progress": progress,
    }
    if reply:
        return why(model, text, answer=reply, against=options["against"], **arguments)
    arguments["position"] = None if options["chat"] else options["positions"]
    if options["rather"] and options["against"] is None:
        return rather(model, text, **arguments)
    return why(model, text, against=options["against"], **arguments)


def answer(
    model: Model, parsed: Sentence, options: Mapping[str, Any], progress: Callable[[int, int], None]
) -> xarray.Dataset:
    """What a decoder says next: the numbers of the answer's tokens so far and of some more, and whether it has ended.

    A few at a time, so that whoever asks may stop when it has said enough.
    """
    import xarray

    text, so_far, more = _text(parsed, options), options["answer"] or [], options["more"]
    if len(so_far) + more > MOST:
        raise BadInput(f"An answer has at most {MOST} tokens here, and this one would have {len(so_far) + more}.")
    if so_far:
        text = question(model, text, None, None, Answer(so_far), False).encoded.batch.ids[0].tolist()
    fresh = question(model, text, None, None, Answer(generate=more), False).tokens or []
    progress(1, 1)
    end = np.atleast_1d(getattr(model.model.generation_config, "eos_token_id", None) or [])
    ended = len(fresh) < more or fresh[-1] in end
    tokens = [*so_far, *fresh]
    attributes = {"answer": plain(model.tokenizer, tokens), "ended": int(ended)}
    return xarray.Dataset({"token": ("place", tokens)}, attrs=attributes)


def _text(parsed: Sentence, options: Mapping[str, Any]) -> object:
    return [{"role": "user", "content": parsed.text}] if options["chat"] else parsed
