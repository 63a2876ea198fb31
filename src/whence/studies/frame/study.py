"""What a study is: questions in sections; and what may answer them: a picture, a verdict, a reason why not."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas

from whence.plot.drawing import Drawing

if TYPE_CHECKING:
    from whence.studies.frame.context import Context


@dataclass(frozen=True, eq=False)
class Shown:
    """A picture with its table. `answers` names the figure or table of the paper it stands beside."""

    name: str
    "Of its files."
    answers: str
    drawing: Drawing
    note: str = ""
    table: pandas.DataFrame | None = None
    "What is written as a table; what was drawn unless given."

    @property
    def written(self) -> pandas.DataFrame:
        return self.drawing.table if self.table is None else self.table


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, held against this model: confirmed, not, or (None) not to be decided here."""

    says: str
    confirmed: bool | None
    statistic: str


@dataclass(frozen=True, eq=False)
class Beside:
    """Our numbers and the published ones, with what differs between the two."""

    name: str
    answers: str
    table: pandas.DataFrame
    differs: str


@dataclass(frozen=True)
class Left:
    """What this model or this data cannot give, and why."""

    what: str
    why: str


Item = Shown | Claim | Beside | Left
Make = Callable[["Context"], Iterable[Item]]


@dataclass(frozen=True)
class Section:
    """One question. `needs` are capabilities of the model (as `whence verify` lists them) or "masks", "words"."""

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
    "What kind of corpus it is about, with an example for --data."
    sections: tuple[Section, ...]


@dataclass(frozen=True, eq=False)
class Answered:
    """A section with what it gave."""

    section: Section
    items: list[Item] = field(default_factory=list)

    def of(self, kind: type[Item]) -> Iterator[Item]:
        return (item for item in self.items if isinstance(item, kind))
