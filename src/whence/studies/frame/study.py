"""What a study is: sections that ask questions, and their answers: a picture, a verdict, or why there is none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas

from whence.plot.drawing import Drawing


@dataclass(frozen=True, eq=False)
class Shown:
    """A picture with its table. `answers` names the figure or table of the paper that it repeats."""

    name: str
    "The name of its files, without the extension."
    answers: str
    drawing: Drawing
    note: str = ""
    table: pandas.DataFrame | None = None
    "What is written as a table; by default, what is drawn."

    @property
    def written(self) -> pandas.DataFrame:
        return self.drawing.table if self.table is None else self.table


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, tested on this model: confirmed, not confirmed, or not decided (None)."""

    says: str
    confirmed: bool | None
    statistic: str


@dataclass(frozen=True, eq=False)
class Beside:
    """Our numbers beside the published ones, and how the two samples differ."""

    name: str
    answers: str
    table: pandas.DataFrame
    differs: str


@dataclass(frozen=True)
class Left:
    """What is left out because this model or this data cannot give it, and why."""

    what: str
    why: str


Item = Shown | Claim | Beside | Left
Make = Callable[[Any], Iterable[Item]]  # takes the Context of a study, or the Run that a report is about


@dataclass(frozen=True)
class Section:
    """One question. `needs` are capabilities of the model, as `whence verify` lists them."""

    title: str
    asks: str
    make: Make
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Study:
    """A published study as data."""

    name: str
    title: str
    asks: str
    paper: str
    data: str
    "The kind of corpus it needs, with an example for --data."
    sections: tuple[Section, ...]


@dataclass(frozen=True, eq=False)
class Answered:
    """A section with its answers."""

    section: Section
    items: list[Item] = field(default_factory=list)
