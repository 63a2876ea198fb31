"""CoNLL-U: words by their characters, tags, dependencies and mentions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELD_PARSERS, DEFAULT_FIELDS

from whence.errors import BadInput
from whence.text.align import Span
from whence.text.readers.entities import FIELDS, Brackets
from whence.text.readers.lines import Line
from whence.text.readers.plain import blocks, place
from whence.text.readers.skipped import Skipped
from whence.text.readers.spelling import joined, spans
from whence.text.sentence import Mention, Sentence, Word

LABELS = ("upos", "xpos", "lemma", "deprel")
# the package cuts a value in MISC at a second equals sign, and spends half its time on columns that are not used here
PARSERS = DEFAULT_FIELD_PARSERS | {
    "misc": lambda cells, column: dict(part.split("=", 1) for part in cells[column].split("|") if "=" in part),
    "feats": lambda cells, column: cells[column],
    "deps": lambda cells, column: cells[column],
}


@dataclass(frozen=True)
class _Node:
    """A line other than a comment: a word (kind ""), a multiword token ("-") or an empty node (".")."""

    line: int
    kind: str
    first: int
    last: int
    cells: Any


@dataclass(frozen=True)
class _Context:
    """What the comments of a file say about all the sentences after them."""

    document: str
    fields: tuple[str, ...] = FIELDS


class _Fault(Exception):
    """A malformed line, and what is wrong with it."""

    def __init__(self, reason: str, line: int, kind: str = "malformed") -> None:
        super().__init__(reason)
        self.reason, self.line, self.kind = reason, line, kind


def conllu(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """The sentences of a treebank; one malformed line makes its sentence malformed."""
    context = _Context(PurePath(path).name)
    for block in blocks(path):
        context = _context(context, path, block)
        try:
            sentence = _sentence(path, block, context, skipped)
        except _Fault as fault:
            skipped.bad(fault.kind, fault.reason, fault.line)
            continue
        if sentence is not None:
            yield sentence


def _context(context: _Context, path: str, block: Sequence[Line]) -> _Context:
    for line in block:
        key, value = _comment(line)
        if key in ("newdoc id", "newdoc"):
            context = replace(context, document=value or place(path, line.number))
        elif key == "global.Entity" and value:
            context = replace(context, fields=tuple(value.split("-")))
    return context


def _comment(line: Line) -> tuple[str, str]:
    key, _, value = line.text.removeprefix("#").partition("=")
    return (key.strip(), value.strip()) if line.text.startswith("#") else ("", "")


def _sentence(path: str, block: Sequence[Line], context: _Context, skipped: Skipped) -> Sentence | None:
    comments = dict(_comment(line) for line in block)
    nodes = [_node(line) for line in block if not line.text.startswith("#")]
    words = [node for node in nodes if not node.kind]
    if not nodes:
        return None  # comments that stand alone
    _check_numbers(nodes)
    if not any(node.cells["form"].strip("_") for node in words):
        skipped.left_out("blanked", "every word is blanked by underscores.", nodes[0].line)
        return None
    heads = _governors(words)
    text, where = _spelled(comments.get("text", ""), nodes)
    mentions = _mentions(nodes, context.fields, skipped)
    skipped.within["empty nodes"] += sum(node.kind == "." for node in nodes)
    parts = zip(words, where, heads, strict=True)
    return Sentence(
        text,
        id=comments.get("sent_id") or place(path, nodes[0].line),
        document=context.document,
        words=tuple(Word(*span, _labels(node), head) for node, span, head in parts),
        mentions=mentions,
    )


def _node(line: Line) -> _Node:
    if line.fault:
        raise _Fault(line.fault, line.number, line.kind)
    cells = [cell.strip(" ") for cell in line.text.split("\t")]  # other spaces are letters of a word
    if len(cells) != len(DEFAULT_FIELDS) or not all(cell.strip() for cell in cells):
        expected = f"{len(DEFAULT_FIELDS)} between tabs, none of them empty, were expected."
        raise _Fault(f"the line has {len(cells)} columns, and {expected}", line.number)
    try:
        # the package's own parser takes two spaces for the end of a column
        values: dict[str, Any] = {
            name: PARSERS[name](cells, place) if name in PARSERS else cells[place]
            for place, name in enumerate(DEFAULT_FIELDS)
        }
    except (ParseException, ValueError) as error:
        raise _Fault(f"{str(error).rstrip('.')}.", line.number) from error
    number = values["id"]
    if number is None:
        raise _Fault("the first column is empty, and the word's number was expected.", line.number)
    first, kind, last = (number, "", number) if isinstance(number, int) else number
    return _Node(line.number, kind, first, last, values)


def _check_numbers(nodes: Sequence[_Node]) -> None:
    """Words are numbered 1, 2, 3 …; a multiword token comes before its words, an empty node after a word."""
    seen, covered, count = 0, 0, sum(not node.kind for node in nodes)
    for node in nodes:
        if node.kind == "-":
            wrong = node.first != seen + 1 or node.first <= covered or node.last > count
            covered = node.last
        else:
            wrong = node.first != seen + (not node.kind)
            seen += not node.kind
        if wrong:
            raise _Fault(f"the number {node.cells['id']} is out of order after {seen} words.", node.line)
    if not count:
        raise _Fault("the sentence has no words.", nodes[0].line)


def _governors(words: Sequence[_Node]) -> list[int | None]:
    """The index of each word's governor; None for roots and where the column is empty."""
    heads = [node.cells["head"] for node in words]
    for node, head in zip(words, heads, strict=True):
        if head is not None and (not 0 <= head <= len(words) or head == node.first):
            raise _Fault(f"the governor {head} is not another of the {len(words)} words.", node.line)
    governors = [head - 1 if head else None for head in heads]
    circle = _in_circle(governors)
    if circle is not None:
        raise _Fault(f"the governors of word {circle + 1} go round in a circle.", words[circle].line)
    return governors


def _in_circle(heads: Sequence[int | None]) -> int | None:
    """A word that governs itself through others, if there is one."""
    under_root: set[int] = set()
    for word in range(len(heads)):
        trail: dict[int, None] = {}
        above: int | None = word
        while above is not None and above not in under_root:
            if above in trail:
                return above
            trail[above] = None
            above = heads[above]
        under_root.update(trail)
    return None


def _spelled(text: str, nodes: Sequence[_Node]) -> tuple[str, list[Span]]:
    """The text and each word's span.

    The words of a multiword token have their own letters where these spell it (do|n't), and all of its letters where
    they do not (French du for de + le).
    """
    covered = {number for node in nodes if node.kind == "-" for number in range(node.first, node.last + 1)}
    surfaces = [node for node in nodes if node.kind == "-" or not (node.kind or node.first in covered)]
    forms = [node.cells["form"] for node in surfaces]
    text = text or joined(forms, [node.cells["misc"].get("SpaceAfter") != "No" for node in surfaces])
    by_number = {node.first: node for node in nodes if not node.kind}
    word_spans: list[Span] = []
    try:
        for node, (start, end) in zip(surfaces, spans(text, forms), strict=True):
            inside = [by_number[number].cells["form"] for number in range(node.first, node.last + 1)]
            word_spans += _within(text[start:end], inside, start)
    except BadInput as error:
        raise _Fault(str(error), nodes[0].line) from error
    return text, word_spans


def _within(surface: str, forms: Sequence[str], start: int) -> list[Span]:
    try:
        return [(start + first, start + last) for first, last in spans(surface, forms)]
    except BadInput:
        return [(start, start + len(surface))] * len(forms)


def _labels(node: _Node) -> dict[str, str]:
    return {name: node.cells[name] for name in LABELS if node.cells[name] not in (None, "_")}


def _mentions(nodes: Sequence[_Node], fields: tuple[str, ...], skipped: Skipped) -> tuple[Mention, ...]:
    brackets = Brackets(fields)
    seen = 0
    for node in nodes:
        value = node.cells["misc"].get("Entity")
        try:
            if value:
                brackets.node(value, seen, is_word=not node.kind)
        except BadInput as error:
            raise _Fault(str(error), node.line) from error
        seen += not node.kind
    try:
        mentions = brackets.finish()
    except BadInput as error:
        raise _Fault(str(error), nodes[-1].line) from error
    skipped.within["mentions without words"] += brackets.wordless
    return mentions
