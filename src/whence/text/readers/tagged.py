"""One token and its tag per line, empty lines between sentences: named entities as in CoNLL-2002, 2003 and Wikigold."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whence.text.readers.lines import Line
from whence.text.readers.plain import blocks, place
from whence.text.readers.skipped import Skipped
from whence.text.readers.spelling import joined, spans
from whence.text.sentence import Sentence, Word

_NEW_DOCUMENT = "-DOCSTART-"
_SPACES = re.compile(" +")  # ASCII only: the no-break space in "10\u00a0000" is part of a word


@dataclass
class _Shape:
    """The separator and the number of columns, which the first row settles for the file."""

    tabs: bool = False
    columns: int = 0

    def fault(self, line: Line) -> str:
        """What is wrong with a row, if anything is."""
        tabs, columns = "\t" in line.text, len(row := cells(line.text))
        if columns < 2:
            return "the line has one column, and a token and a tag were expected."
        if not self.columns:
            self.tabs, self.columns = tabs, columns
        if (tabs, columns) != (self.tabs, self.columns):
            return f"the line has {_said(tabs, columns)}, and {_said(self.tabs, self.columns)} were expected."
        if not (row[0].strip() and row[-1].strip()):
            return "the first or the last column is empty, and a token and a tag were expected."
        return ""


def ner(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """The first column is the token, the last its tag; tokens are joined by spaces."""
    document, shape = place(path, 1), _Shape()
    for block in blocks(path):
        starts = [line for line in block if _starts_document(line)]
        document = place(path, starts[-1].number) if starts else document
        rows = [line for line in block if not _starts_document(line)]
        faults = ((line, line.fault or shape.fault(line)) for line in rows)
        wrong, reason = next((fault for fault in faults if fault[1]), (None, ""))
        if wrong:
            skipped.bad(wrong.kind or "malformed", reason, wrong.number)
        elif rows:
            yield _sentence(path, rows, document)


def cells(text: str) -> list[str]:
    """The columns of a row: between tabs, and between runs of spaces where there are no tabs."""
    return text.split("\t") if "\t" in text else _SPACES.split(text.strip(" "))


def _starts_document(line: Line) -> bool:
    return cells(line.text)[0] == _NEW_DOCUMENT


def _said(tabs: bool, columns: int) -> str:
    return f"{columns} columns between {'tabs' if tabs else 'spaces'}"


def _sentence(path: str, rows: Sequence[Line], document: str) -> Sentence:
    forms, tags = zip(*((row[0], row[-1]) for row in (cells(line.text) for line in rows)), strict=True)
    text = joined(forms, [True] * len(forms))
    words = (Word(*span, {"ner": tag}) for span, tag in zip(spans(text, forms), tags, strict=True))
    return Sentence(text, id=place(path, rows[0].number), document=document, words=tuple(words))
