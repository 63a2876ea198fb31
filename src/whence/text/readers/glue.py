"""The tasks of GLUE that the studies use: which columns hold their sentences."""

from collections.abc import Iterator, Sequence

from whence.text.readers.formats import COMPRESSIONS
from whence.text.readers.rows import Row, json_rows, tab_rows
from whence.text.readers.skipped import Skipped
from whence.text.readers.tables import Columns, sentences
from whence.text.sentence import Sentence

# the names in GLUE's own files, in the corpora's first releases, and on the Hub
TASKS = {
    "mrpc": Columns(("#1 String", "sentence1"), ("#2 String", "sentence2"), ("Quality", "label")),
    "cola": Columns(("sentence",), label=("label",)),
    "mnli": Columns(("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label")),
    "sst2": Columns(("text_a", "sentence"), label=("label",)),
}


def mrpc(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """MRPC: a tab-separated file with a header; label 1 for paraphrases."""
    return _task("mrpc", path, skipped)


def cola(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """CoLA: source, label, mark, sentence between tabs, without a header; label 1 for acceptable sentences."""
    return _task("cola", path, skipped, names=("source", "label", "mark", "sentence"))


def mnli(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """MNLI: a tab-separated file with a header, or jsonl."""
    return _task("mnli", path, skipped)


def sst2(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """SST-2: a tab-separated file with a header; label 1 for positive sentences."""
    return _task("sst2", path, skipped)


def _task(name: str, path: str, skipped: Skipped, names: Sequence[str] = ()) -> Iterator[Sentence]:
    return sentences(path, skipped, _rows(path, skipped, names), TASKS[name])


def _rows(path: str, skipped: Skipped, names: Sequence[str]) -> Iterator[Row]:
    bare = next((path.removesuffix(ending) for ending in COMPRESSIONS if path.endswith(ending)), path)
    if bare.endswith((".jsonl", ".ndjson")):
        return json_rows(path, skipped)
    return tab_rows(path, skipped, header=not names, names=names)
