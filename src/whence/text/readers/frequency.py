"""How frequent words and tokens are in a language: their ranks, from a file or from the package wordfreq."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from whence.errors import BadInput
from whence.text.readers.lines import Line, check_file, lines

WORDFREQ = "wordfreq:"


@dataclass(frozen=True)
class Frequencies:
    """Ranks by word or by token id; 1 is the most frequent, and equal counts have equal ranks."""

    name: str
    ranks: Mapping[Any, int]
    by_id: bool


@dataclass(frozen=True)
class Ranked:
    """One rank per item, NaN for those not in the list."""

    ranks: np.ndarray
    unknown: int


def ranks(items: Iterable[str | int], frequencies: Frequencies) -> Ranked:
    """The ranks of words or token ids; a word that is not in the list as written is looked up in lower case."""
    table = frequencies.ranks
    listed = list(items)
    _check_kind(listed, frequencies)
    lowered = (item if frequencies.by_id or item in table else str(item).lower() for item in listed)
    values = np.array([table.get(item, np.nan) for item in lowered], dtype=float)
    return Ranked(values, int(np.isnan(values).sum()))


def frequencies(source: str | PathLike[str]) -> Frequencies:
    """A frequency list: "wordfreq:en", or a file whose lines are `rank count id`, or `word<TAB>count`."""
    path = fspath(source)
    if path.startswith(WORDFREQ):
        return _wordfreq(path.removeprefix(WORDFREQ))
    check_file(path)
    rows = [line for line in lines(path) if line.fault or line.text.strip()]
    if not rows:
        raise BadInput(f"{path} is empty, and a frequency list was expected.")
    return _by_word(path, rows) if "\t" in rows[0].text and rows[0].text.count("\t") == 1 else _by_id(path, rows)


def _check_kind(items: list[str | int], frequencies: Frequencies) -> None:
    wrong = next((item for item in items if isinstance(item, str) == frequencies.by_id), None)
    if wrong is not None:
        kind = "token ids" if frequencies.by_id else "words"
        raise BadInput(f"The frequency list {frequencies.name!r} is one of {kind}, and it was asked for {wrong!r}.")


def _by_id(path: str, rows: list[Line]) -> Frequencies:
    rank_of: dict[int, int] = {}
    for line in rows:
        cells = line.text.split()
        if line.fault or len(cells) != 3 or not all(cell.isdecimal() for cell in cells):
            _refuse(path, line, "rank, count and token id, or a word, a tab and its count")
        rank, _, token = map(int, cells)
        if token in rank_of:
            raise BadInput(f"{path}, line {line.number}: the token id {token} is listed twice.")
        rank_of[token] = rank
    return Frequencies(path, rank_of, by_id=True)


def _by_word(path: str, rows: list[Line]) -> Frequencies:
    counts: Counter[str] = Counter()
    for line in rows:
        word, _, count = line.text.rpartition("\t")
        if line.fault or not word or not count.strip().isdecimal():
            _refuse(path, line, "a word, a tab and its count")
        counts[word] += int(count)
    return Frequencies(path, _ranked(counts), by_id=False)


def _refuse(path: str, line: Line, expected: str) -> None:
    reason = line.fault or f"{line.text!r:.40} was found."
    raise BadInput(f"{path}, line {line.number}: {reason} Expected: {expected}.")


def _ranked(counts: Mapping[str, int | float]) -> dict[str, int]:
    rank_of: dict[str, int] = {}
    rank, before = 0, None
    for place, (word, count) in enumerate(sorted(counts.items(), key=lambda item: -item[1]), 1):
        rank, before = (rank, before) if count == before else (place, count)
        rank_of[word] = rank
    return rank_of


def _wordfreq(language: str) -> Frequencies:
    try:
        import wordfreq
    except ImportError as error:
        raise BadInput("Frequencies of a language need a package: pip install 'whence[frequency]'.") from error
    known = sorted(wordfreq.available_languages())
    if language not in known:  # the package would silently take the nearest
        raise BadInput(f"wordfreq has no language {language!r}; it has {', '.join(known)}.")
    return Frequencies(f"{WORDFREQ}{language}", _ranked(wordfreq.get_frequency_dict(language)), by_id=False)
