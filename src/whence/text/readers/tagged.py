"""A token and its tag a line, empty lines between sentences: the named entities of CoNLL-2002, 2003 and Wikigold."""

from collections.abc import Iterator, Sequence

from whence.text.readers.lines import Line
from whence.text.readers.plain import blocks, place
from whence.text.readers.skipped import Skipped
from whence.text.readers.spelling import joined, spans
from whence.text.sentence import Sentence, Word

_NEW_DOCUMENT = "-DOCSTART-"


def ner(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """The first column is the token, the last its tag; tokens are joined by spaces."""
    document = place(path, 1)
    for block in blocks(path):
        starts = [line for line in block if line.text.startswith(_NEW_DOCUMENT)]
        document = place(path, starts[-1].number) if starts else document
        rows = [line for line in block if not line.text.startswith(_NEW_DOCUMENT)]
        wrong = next((line for line in rows if line.fault or len(_cells(line)) < 2), None)
        if wrong:
            reason = wrong.fault or "the line has one column, and a token and a tag were expected."
            skipped.bad(wrong.kind or "malformed", reason, wrong.number)
        elif rows:
            yield _sentence(path, rows, document)


def _cells(line: Line) -> list[str]:
    return [cell for cell in line.text.split("\t") if cell.strip()] if "\t" in line.text else line.text.split()


def _sentence(path: str, rows: Sequence[Line], document: str) -> Sentence:
    forms = [_cells(line)[0].strip() for line in rows]
    tags = [_cells(line)[-1].strip() for line in rows]
    text = joined(forms, [True] * len(forms))
    words = (Word(*span, {"ner": tag}) for span, tag in zip(spans(text, forms), tags, strict=True))
    return Sentence(text, id=place(path, rows[0].number), document=document, words=tuple(words))
