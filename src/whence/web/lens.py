"""What the explorer shows of one hidden token by a lens: whence it came, and what it is disposed to say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.errors import BadInput
from whence.page.whither import payload
from whence.plot.lens import is_read_out
from whence.sentence.lens_file import load_lens
from whence.sentence.lens_trace import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    import xarray

    from whence.models.load import Model
    from whence.sentence.lens import Lens
    from whence.text.sentence import Sentence

BEST = 5  # tokens that are named of every state


def lenses(files: Iterable[str | PathLike[str]], models: Mapping[str, Model]) -> dict[str, Lens]:
    """The lens of each model that one was given for; a file that belongs to none of them is refused."""
    lenses: dict[str, Lens] = {}
    for file in files:
        lens = load_lens(Path(file))
        of = [model for model in models.values() if _belongs(lens, model)]
        if not of:
            known = ", ".join(models)
            raise BadInput(f"The lens {str(file)!r} is of {lens.about['model']['id']}, and the explorer has {known}.")
        lenses |= {model.id: lens for model in of}
    return lenses


def _belongs(lens: Lens, model: Model) -> bool:
    try:
        lens.check(model)
    except BadInput:
        return False
    return True


def sides(
    model: Model, lens: Lens, parsed: Sentence, options: Mapping[str, Any], truncate: bool, progress: Callable
) -> xarray.Dataset:
    """One hidden token from both sides: of the positions that were asked for, the first; the last token if none."""
    place, *_ = options["positions"] or [-1]
    return trace(lens, model, parsed, place, BEST, truncate, progress)


def page(dataset: xarray.Dataset) -> dict[str, Any]:
    """The same as the page reads it."""
    if not is_read_out(dataset):
        raise BadInput("This result is not of a lens; ask for the measure 'lens'.")
    return payload(dataset)
