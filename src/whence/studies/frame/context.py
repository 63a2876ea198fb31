"""What the sections of a study work with: models, corpora, runs that resume, and the size of the sample."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas

from whence.corpus.open_run import Run, open_run
from whence.corpus.run import run
from whence.measures.options import Options
from whence.models.fingerprint import provenance
from whence.models.load import Model
from whence.sealed import digest
from whence.studies.frame.sentences import Chosen, Prepare
from whence.text.readers import Corpus

Progress = Callable[[str, int, int | None], None]
MARKS = {".": "period", ",": "comma"}  # too small to be read as names of lines and boxes


@dataclass(eq=False)
class Context:
    """A study while it asks one model. Its runs are kept in `out`, so that a stopped study resumes."""

    model: Model
    corpora: tuple[Corpus, ...]
    out: Path
    quick: bool = False
    text: str | None = None
    frequency: str | None = None
    sample: int | None = None
    "At most so many texts of each corpus, in place of the quick sample or the full one."
    progress: Progress | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    _kept: dict[Any, Any] = field(default_factory=dict)

    @property
    def corpus(self) -> Corpus:
        return self.corpora[0]

    @property
    def about(self) -> str:
        """The model and the corpus, for subtitles."""
        return f"{self.model.id} · {called(self.corpus)}"

    def provenance(self, name: str) -> dict[str, Any]:
        """The model and the data that a report is about."""
        return provenance(self.model, [name], {"quick": self.quick, "sample": self.sample}) | {
            "data": ", ".join(map(called, self.corpora)),
            "sample": self._sampled(),
            "layers": self.model.anatomy.layers,
        }

    def kept(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """`query(context, *arguments)`, computed once: several figures and claims may rest on it."""
        key = (query, arguments)
        if key not in self._kept:
            self._kept[key] = query(self, *arguments)
        return self._kept[key]

    def amount(self, quick: int, full: int) -> int:
        """A number for the quick sample or the full one."""
        return quick if self.quick else full

    def texts(self, quick: int, full: int, prepare: Prepare | None = None, corpus: Corpus | None = None) -> Chosen:
        """The first texts of a corpus (the first, unless given); in a sample, those of many documents."""
        most = min(full, self.sample or self.amount(quick, full))
        return Chosen(corpus or self.corpus, most, prepare, spread=self.quick or self.sample is not None)

    def run(
        self,
        name: str,
        measures: Iterable[str | Options],
        sentences: Chosen,
        **options: Any,
    ) -> Run:
        """The run of the measures over the sentences, read from the study's folder if it was made before."""
        if name not in self.runs:
            model = self.model
            identity = repr((model.id, model.revision, sentences.sha256, sorted(map(str, measures)), options))
            folder = self.out / "runs" / f"{name}-{digest(identity)[:8]}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            run(
                model,
                sentences,
                list(measures),
                out=folder,
                total=len(sentences),
                too_long=options.pop("too_long", "truncate"),
                progress=self.progress_of(f"{name}: {sentences.name}"),
                **options,
            )
            self.runs[name] = open_run(folder)
        return self.runs[name]

    def _sampled(self) -> str:
        if self.sample is not None:
            return f"{self.sample:,} texts of each corpus at most, of as many documents as there are"
        return "a quick sample" if self.quick else "the full sample"

    def progress_of(self, work: str) -> Callable[[int, int | None], None] | None:
        """A progress callback for one piece of work."""
        return None if self.progress is None else partial(self.progress, work)


def called(corpus: Corpus) -> str:
    """The name of a corpus for a reader; files of GLUE are all called dev, so they get their format too."""
    return corpus.name if corpus.format in ("text", "paragraphs", "conllu") else f"{corpus.format} {corpus.name}"


def quartiles(values: pandas.Series) -> pandas.Series:
    """What a box shows: the median, the quartiles, and the 5th and 95th percentiles."""
    low, lower, middle, upper, high = values.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    return pandas.Series({"low": low, "lower": lower, "middle": middle, "upper": upper, "high": high, "n": len(values)})


def middle(layers: Iterable[int]) -> int:
    """The layer half-way up, as in the papers: 6 of 12."""
    distinct = sorted(set(layers))
    return distinct[(len(distinct) - 1) // 2]


def ends_and_middle(layers: Iterable[int]) -> set[int]:
    """The first, the middle and the last layer."""
    distinct = set(layers)
    return {min(distinct), middle(distinct), max(distinct)}


def spearman(first: pandas.Series, second: pandas.Series) -> float:
    """Spearman's rank correlation; NaN if one of the two does not vary."""
    return float(first.rank().corr(second.rank()))


def trend(means: pandas.Series) -> float:
    """Spearman's correlation of values with the numbers that they are indexed by, such as layers."""
    known = means.dropna()
    return spearman(pandas.Series(known.index), known.reset_index(drop=True))


def by_document(table: pandas.DataFrame) -> pandas.DataFrame:
    """The table with a document in every row: where the corpus names none, or one for all, each sentence is one."""
    alone = "sentence " + table["sentence"].astype(str)
    if table["document"].nunique() < 2:
        return table.assign(document=alone)
    return table.assign(document=table["document"].where(table["document"].notna(), alone))
