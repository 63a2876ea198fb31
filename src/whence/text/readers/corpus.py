"""A corpus: a name, a format, and sentences read one at a time, as often as it is iterated over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from whence.errors import BadInput
from whence.text.readers.formats import TABLE, formats
from whence.text.readers.lines import STANDARD_INPUT, state
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence


@dataclass
class Corpus:
    """The sentences of files or of a dataset; nothing is read before it is iterated over, and nothing is kept."""

    name: str
    format: str
    files: tuple[str, ...]
    "Paths, read one after the other; a single name for a dataset of the Hub; none for a table in memory."
    options: Mapping[str, Any] = field(default_factory=dict)
    skip_bad: bool = False
    limit: int | None = None
    table: object = None
    "What is read in place of files: a data frame, a dataset, rows."
    skipped: Skipped = field(init=False, repr=False)
    "What the latest iteration has left out so far."

    def __post_init__(self) -> None:
        self._begun = False
        self.skipped = Skipped(self.name, self.skip_bad)

    def __iter__(self) -> Iterator[Sentence]:
        if self._begun and STANDARD_INPUT in self.files:
            raise BadInput("Standard input can be read once; save it to a file to read it again.")
        self._begun = True
        self.skipped = Skipped(self.name, self.skip_bad)
        return self._unchanged(islice(self._sentences(self.skipped), self.limit))

    def _unchanged(self, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
        """The sentences, then an error if a file was written to meanwhile: they may mix two versions."""
        before = {file: state(file) for file in self.files}
        yield from sentences
        for file in self.files:
            if state(file) != before[file]:
                raise BadInput(f"{file} was changed while it was read; read it again when nothing writes to it.")

    def _sentences(self, skipped: Skipped) -> Iterator[Sentence]:
        if self.table is not None:
            yield from TABLE.reader()(self.table, skipped, **self.options)
            return
        reader = formats()[self.format].reader()
        for file in self.files:
            skipped.name = file
            yield from reader(file, skipped, **self.options)
