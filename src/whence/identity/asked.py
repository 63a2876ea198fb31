"""What can be asked, and the sentences for what cannot: choices, layers, offsets, corpora, files of probes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from whence._arguments import LARGEST, numbers, seed_of, whole
from whence.errors import BadInput
from whence.identity import experiment
from whence.identity.probes import PROBES
from whence.identity.saved import ENDING, Saved
from whence.identity.states import States
from whence.models.load import Model
from whence.text.sentence import sentences

CHOICES = {**experiment.CHOICES, "embeddings": ("output", "sum")}


def check_choices(**given: str) -> None:
    for name, value in given.items():
        if value not in CHOICES[name]:
            raise BadInput(f"There is no {name} {value!r}; there are: {', '.join(CHOICES[name])}.")


def checked_numbers(folds: int, offset: int, seed: int, limit: int | None) -> tuple[int, int, int, int | None]:
    """The same, when they are whole numbers that make sense."""
    found = None if limit is None else whole("memory_limit", limit, 1)
    return whole("folds", folds, 1), whole("offset", offset, -LARGEST), seed_of(seed), found


def saved_probes(probe: str | Path, model: Model) -> Saved | None:
    """The file, when one is named; None for a probe to be fitted."""
    if str(probe) in PROBES:
        return None
    if not str(probe).endswith(ENDING):
        raise BadInput(
            f"There is no probe {str(probe)!r}; there are: {', '.join(PROBES)}, or a {ENDING} file of probes."
        )
    found = Saved(Path(probe))
    if found.about["width"] != model.anatomy.width:
        raise BadInput(
            f"The probes in {str(probe)!r} are for vectors of {found.about['width']} numbers ({found.about['model']}),"
            f" and those of {model.id} have {model.anatomy.width}."
        )
    return found


def readable_twice(corpus: Iterable[object]) -> Iterable[object]:
    """The corpus as it is when it can be read again; a generator is kept in memory."""
    return list(corpus) if isinstance(sentences(corpus), Iterator) else corpus


def layers_of(asked: int | Iterable[int] | None, count: int, unless: Sequence[int]) -> list[int]:
    """The layers asked for, in order; layer 0 is the input embedding."""
    found = sorted(set(unless if asked is None else numbers("layer", asked)))
    wrong = [layer for layer in found if not 0 <= layer <= count]
    if wrong or (asked is not None and not found):
        raise BadInput(f"The states have layers 0 to {count}, and {wrong[0] if wrong else 'none'} was asked for.")
    return found


def check_offset(states: States, offset: int) -> None:
    shortest = int(states.lengths.min())
    if abs(offset) >= shortest:
        raise BadInput(
            f"An offset of {offset} leaves nothing to find in the shortest sentence, which has {shortest} tokens;"
            " ask for a smaller one, or leave short sentences out."
        )
