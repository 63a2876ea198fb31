"""What a study is, as data: sections of figures, claims and tables. To add one, see docs/studies/adding.md.

* A `Figure` is a query (from the study's `Context` to a table), an encoding (which column is drawn how) and a sentence
  (from the table to the picture's title). The query gives every row that is worth keeping; `only` picks what is drawn.
* A `Claim` is a statistic (from the context to an `Estimate`, or to several that all have to hold), a criterion
  (`frame.verdict`) and the key of the published number that it is held against (`published.json`).
* A `Table` is a query whose rows stand beside published ones.

A query measures through the context (`context.run`, `context.kept`), so that a stopped study resumes. What it cannot
give it refuses: `raise Absent("why")`, and the report says so. Nothing here knows how many models there are: the frame
asks every item of one model at a time, keeps the answers in files, and puts those of all models side by side
(`frame.across`).

    def tokens(context):
        return by_document(context.run("mixing", ["mixing"], Chosen(context.corpus, 100)).tokens)

    Figure(
        "mixing_depth",
        "figure 3",
        lambda context: tokens(context).groupby("layer", as_index=False)["mixing_attn_n"].mean(),
        {"kind": "lines", "x": "layer", "y": "mixing_attn_n"},
        lambda table: f"The last layer mixes {table['mixing_attn_n'].iloc[-1]:.0%}",
    )
    Claim(
        "Later layers mix less.",
        lambda context: estimate(tokens(context), "mixing_attn_n", "layer", trend),
        FALLS,
        ("kobayashi2021", "spearman_depth_ATTNRESLN-N"),
    )
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pandas

from whence.errors import Unsupported
from whence.plot.drawing import Drawing
from whence.stats.estimate import Estimate
from whence.studies.frame.verdict import Criterion, Interval, Verdict

Encoding = Mapping[str, Any]
"The settings of a `Drawing`; a value may be a function of the table that is drawn."
Query = Callable[[Any], pandas.DataFrame]
_SETTINGS = {field.name for field in fields(Drawing)} - {"table", "title", "subtitle"}


class Absent(Unsupported):
    """What this model or this data cannot give; the message says why, without a full stop."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture. `answers` names the figure or table of the paper that it repeats."""

    name: str
    "The name of its files, without the extension."
    answers: str
    query: Query
    encoding: Encoding
    sentence: Callable[[pandas.DataFrame], str]
    sample: str = ""
    "What one mark is, for the subtitle; a query may add to it: `table.attrs['sample']`."
    note: str = ""
    only: Callable[[pandas.DataFrame], pandas.DataFrame] | None = None
    "Which rows are drawn, under which names; all of them unless given."

    def __post_init__(self) -> None:
        if unknown := set(self.encoding) - _SETTINGS:
            raise TypeError(f"A drawing has no {sorted(unknown)[0]!r}; it has {', '.join(sorted(_SETTINGS))}.")

    def drawn(self, table: pandas.DataFrame) -> pandas.DataFrame:
        return table if self.only is None else self.only(table)


@dataclass(frozen=True, eq=False)
class Claim:
    """A finding of the paper. `statistic` gives an estimate, or several by name that all have to hold."""

    says: str
    statistic: Callable[[Any], Estimate | Mapping[str, Estimate]]
    criterion: Criterion | Mapping[str, Criterion]
    published: tuple[str, ...] = ()
    form: str = ".2f"
    "How its numbers are written: .1% for shares."
    beside_first: bool = False
    "The claim is about what the first model has and the others lack: the first less each other."


@dataclass(frozen=True, eq=False)
class Table:
    """Our numbers beside the published ones, and how the two samples differ."""

    name: str
    answers: str
    query: Query
    differs: str


Asked = Figure | Claim | Table
Items = tuple[Asked, ...]


@dataclass(frozen=True)
class Section:
    """One question. `needs` are capabilities of the model, as `whence verify` lists them."""

    title: str
    asks: str
    items: Items = ()
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Study:
    """A study as data."""

    name: str
    title: str
    asks: str
    paper: str
    data: str
    "The kind of corpus it needs, with an example for --data."
    sections: tuple[Section, ...]


@dataclass(frozen=True, eq=False)
class Shown:
    """A figure with its table, ready to be drawn."""

    name: str
    answers: str
    drawing: Drawing
    note: str = ""
    table: pandas.DataFrame | None = None
    "What is written as a table; by default, what is drawn."

    @property
    def written(self) -> pandas.DataFrame:
        return self.drawing.table if self.table is None else self.table


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict, the intervals it rests on, and both in words."""

    says: str
    verdict: Verdict
    statistic: str
    parts: Mapping[str, Interval] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    "Of several models: verdict -> how many have it by themselves."


@dataclass(frozen=True, eq=False)
class Beside:
    """A table with its rows."""

    name: str
    answers: str
    table: pandas.DataFrame
    differs: str


@dataclass(frozen=True)
class Left:
    """What is left out because this model or this data cannot give it, and why."""

    what: str
    why: str


Item = Shown | Finding | Beside | Left


@dataclass(frozen=True, eq=False)
class Answered:
    """A section with its answers."""

    section: Section
    items: list[Item] = field(default_factory=list)
