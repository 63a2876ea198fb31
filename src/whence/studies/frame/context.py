"""What a section of a study may use: the models, the corpora, runs that resume, and how much is asked for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas
import xarray

from whence.corpus.open_run import Run, open_run
from whence.corpus.run import run
from whence.measures.options import Options
from whence.models.fingerprint import provenance
from whence.models.load import Model
from whence.sealed import digest
from whence.sentence.measure import measure
from whence.studies.frame.sentences import Chosen
from whence.text.readers import Corpus
from whence.text.sentence import Sentence

FALLING = -0.3  # a rank correlation nearer to zero than this is not called a trend
Progress = Callable[[str, int, int | None], None]


@dataclass(eq=False)
class Context:
    """One study at work. `out` keeps its runs, so that a stopped study resumes where it was."""

    model: Model
    corpora: tuple[Corpus, ...]
    out: Path
    quick: bool = False
    others: tuple[Model, ...] = ()
    text: str | None = None
    frequency: str | None = None
    progress: Progress | None = None
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def corpus(self) -> Corpus:
        return self.corpora[0]

    @property
    def about(self) -> str:
        """For subtitles."""
        return f"{self.model.id} · {called(self.corpus)}"

    def provenance(self, name: str) -> dict[str, Any]:
        """Of what model and data a report is."""
        return provenance(self.model, [name], {"quick": self.quick}) | {
            "data": self.data,
            "other": ", ".join(model.id for model in self.others),
            "quick": self.quick,
            "layers": self.model.anatomy.layers,
        }

    @property
    def data(self) -> str:
        return ", ".join(map(called, self.corpora))

    def amount(self, quick: int, full: int) -> int:
        """How many sentences."""
        return quick if self.quick else full

    def sentences(
        self, count: int, corpus: Corpus | None = None, prepare: Callable[[Sentence], Sentence | None] | None = None
    ) -> Chosen:
        """The first so many, each changed by `prepare`, which may leave one out (None)."""
        return Chosen(corpus or self.corpus, count, prepare)

    def run(
        self,
        name: str,
        measures: Iterable[str | Options],
        sentences: Chosen,
        model: Model | None = None,
        **options: Any,
    ) -> Run:
        """The measures over the sentences, from the study's folder if they were measured before."""
        if name not in self.runs:
            of = model or self.model
            made = repr((of.id, of.revision, sentences.sha256, sorted(map(str, measures)), options))
            folder = self.out / "runs" / f"{name}-{digest(made)[:8]}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            run(
                of,
                sentences,
                list(measures),
                out=folder,
                total=sentences.count,
                too_long=options.pop("too_long", "truncate"),
                progress=self.telling(f"{name}: {sentences.name}"),
                **options,
            )
            self.runs[name] = open_run(folder)
        return self.runs[name]

    def measure(self, text: object, measures: Iterable[str | Options], **options: Any) -> xarray.Dataset:
        return measure(self.model, text, list(measures), truncate=True, **options)

    def telling(self, what: str) -> Callable[[int, int | None], None] | None:
        """A progress callback for one piece of work."""
        tell = self.progress
        return None if tell is None else lambda done, of: tell(what, done, of)


def called(corpus: Corpus) -> str:
    """The name of a corpus for a reader: files of GLUE are all called dev."""
    return corpus.name if corpus.format in ("text", "paragraphs", "conllu") else f"{corpus.format} {corpus.name}"


def quartiles(values: pandas.Series) -> pandas.Series:
    """What a box shows: the middle half, the median, and the 5th and 95th per cent."""
    low, lower, middle, upper, high = values.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    return pandas.Series({"low": low, "lower": lower, "middle": middle, "upper": upper, "high": high, "n": len(values)})


def middle(layers: Iterable[int]) -> int:
    """The layer half-way up, as in the papers: 6 of 12."""
    found = sorted(set(layers))
    return found[(len(found) - 1) // 2]


def ends_and_middle(layers: Iterable[int]) -> set[int]:
    """The first, the middle and the last."""
    found = set(layers)
    return {min(found), middle(found), max(found)}


def spearman(first: pandas.Series, second: pandas.Series) -> float:
    """Rank correlation; NaN where one of them does not vary."""
    return float(first.rank().corr(second.rank()))


def falls(rho: float) -> bool:
    """Whether a rank correlation is far enough below zero to say that one falls as the other rises."""
    return rho <= FALLING
