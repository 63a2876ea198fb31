"""Coreference: the mentions that CoNLL-U marks by brackets, as Entity= in its last column."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from whence.errors import BadInput
from whence.text.sentence import Mention

FIELDS = ("eid", "etype", "head", "other")  # CorefUD's default; GUM declares its own
_IDENTITY = ("GRP", "eid")
_LABELS = ("etype", "infstat")
_BRACKET = re.compile(r"\((?P<opened>[^()]+)(?P<closed_at_once>\))?|(?P<closed>[^()]+)\)")
_PART = re.compile(r"(?P<entity>.+)\[(?P<part>\d+)/(?P<of>\d+)\]")  # a mention in several pieces


@dataclass
class _Open:
    name: str
    start: int
    labels: Mapping[str, str]


@dataclass
class Brackets:
    """The mentions of one sentence, collected node by node."""

    fields: tuple[str, ...] = FIELDS
    open: list[_Open] = field(default_factory=list)
    parts: dict[str, list[int]] = field(default_factory=dict)
    mentions: list[Mention] = field(default_factory=list)
    wordless: int = 0

    def node(self, value: str, place: int, is_word: bool) -> None:
        """Brackets at a node that `place` words precede."""
        if "".join(match.group() for match in _BRACKET.finditer(value)) != value:
            raise BadInput(f"Entity={value:.80} is not made of brackets such as (3-person, 3) or (3-person).")
        for match in _BRACKET.finditer(value):
            if match["opened"]:
                self._open(match["opened"], place)
            if match["closed"] or match["closed_at_once"]:
                name = match["closed"] or self.open[-1].name
                self._close(name, place + is_word)

    def finish(self) -> tuple[Mention, ...]:
        """The mentions by their first word, the longer first."""
        unfinished = [mention.name for mention in self.open] + list(self.parts)
        if unfinished:
            raise BadInput(f"the mention of entity {unfinished[0]!r} is not closed within its sentence.")
        return tuple(sorted(self.mentions, key=lambda mention: (mention.words[0], -len(mention.words))))

    def _open(self, body: str, place: int) -> None:
        values = body.split("-", len(self.fields) - 1)
        attributes = dict(zip(self.fields, values, strict=False))
        name = next((attributes[key] for key in _IDENTITY if attributes.get(key)), values[0])
        labels = {key: attributes[key] for key in _LABELS if attributes.get(key)}
        self.open.append(_Open(name, place, labels))

    def _close(self, name: str, end: int) -> None:
        place = next((place for place in reversed(range(len(self.open))) if self.open[place].name == name), None)
        if place is None:
            raise BadInput(f"the mention of entity {name!r} is closed and was not opened.")
        opened = self.open.pop(place)
        self._keep(opened, list(range(opened.start, end)))

    def _keep(self, opened: _Open, words: list[int]) -> None:
        part = _PART.fullmatch(opened.name)
        entity = part["entity"] if part else opened.name
        if part:
            words = self.parts.setdefault(entity, []) + words
            self.parts[entity] = words
            if part["part"] != part["of"]:
                return
            del self.parts[entity]
        if words:
            self.mentions.append(Mention(entity, tuple(sorted(set(words))), opened.labels))
        else:
            self.wordless += 1
