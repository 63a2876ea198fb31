"""Plain text: one sentence per line or per paragraph."""

from collections.abc import Iterator
from pathlib import PurePath

from whence.text.readers.lines import LONGEST, Line, lines
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence


def text(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """One sentence per line; empty lines separate documents."""
    document, open_document = 0, False
    for line in lines(path):
        if line.fault:
            skipped.bad(line.kind, line.fault, line.number)
        elif not line.text.strip():
            open_document = False
        else:
            document += not open_document
            open_document = True
            yield Sentence(line.text.strip(), id=place(path, line.number), document=place(path, document))


def paragraphs(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """One sentence per paragraph, its lines joined by spaces; the file is one document."""
    for block in blocks(path):
        fault = next((line for line in block if line.fault), None)
        if fault:
            skipped.bad(fault.kind, fault.fault, fault.number)
            continue
        joined = " ".join(line.text.strip() for line in block)
        yield Sentence(joined, id=place(path, block[0].number), document=PurePath(path).name)


def blocks(path: str) -> Iterator[list[Line]]:
    """Blocks of lines between empty ones; of a block with a fault only that line and comments, to bound memory."""
    block: list[Line] = []
    size, faulty = 0, False
    for line in lines(path):
        if not line.fault and not line.text.strip():
            yield from [block] if block else []
            block, size, faulty = [], 0, False
            continue
        size += len(line.text)
        if size > LONGEST and not faulty:
            fault = f"the lines from {block[0].number} on are together longer than {LONGEST:,} characters."
            line = Line(line.number, "", "too long", fault)
        if not faulty or (line.text.startswith("#") and size <= LONGEST):
            block.append(line)
        faulty = faulty or bool(line.fault)
    yield from [block] if block else []


def place(path: str, number: int) -> str:
    """A name for a record that has none."""
    return f"{PurePath(path).name}:{number}"
