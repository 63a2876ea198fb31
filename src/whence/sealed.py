"""JSON that is read back: a seal that shows when a single bit has changed, and the shape it must have."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any

from whence.errors import BadInput

SEAL = "seal"
COUNT = range(2**63)
POSITIVE = range(1, 2**63)

# a type; a range of whole numbers; [shape] of every item; {name: shape}, "name?" may be missing; {str: shape} any names
Shape = Any


class Damaged(BadInput):
    """A file is not as it was written."""


def sealed(content: Mapping[str, Any]) -> bytes:
    """The content as JSON, its last member a digest of all the others."""
    text = json.dumps({**content, SEAL: digest(content)}, indent=1, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace")  # half of a surrogate pair becomes its JSON escape


def digest(content: object) -> str:
    """The same for the same content, whatever the order of its members."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parsed(data: bytes | str, name: str) -> dict[str, Any]:
    """The JSON object in a file, its seal not checked yet."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name} is damaged: it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise Damaged(f"{name} is damaged: it holds a {type(content).__name__}, and a JSON object was expected")
    return content


def unsealed(document: Mapping[str, Any], shape: Shape, name: str) -> dict[str, Any]:
    """The content without its seal, if that is unbroken and the content has the shape."""
    content = {member: value for member, value in document.items() if member != SEAL}
    if document.get(SEAL) != digest(content):
        raise Damaged(f"{name} is damaged: it was changed after it was written")
    check_shape(content, shape, name)
    return content


def check_shape(value: object, shape: Shape, name: str, where: str = "") -> None:
    """Refuses a value that does not have the shape, naming the member at fault."""
    if isinstance(shape, dict) and isinstance(value, dict):
        _check_members(value, shape, name, where)
    elif isinstance(shape, list) and isinstance(value, list):
        for item in value:
            check_shape(item, shape[0], name, where)
    elif isinstance(shape, dict | list) or not _fits(value, shape):
        raise Damaged(f"{name} is damaged: {where or 'the whole'} is {value!r:.40}, and {_name(shape)} was expected")


def _check_members(value: dict[str, Any], shape: dict[Any, Shape], name: str, where: str) -> None:
    for member, expected in _expected(value, shape):
        inside = f"{where} {member}".strip()
        if member not in value:
            raise Damaged(f"{name} is damaged: it has no {inside}")
        check_shape(value[member], expected, name, inside)


def _expected(value: dict[str, Any], shape: dict[Any, Shape]) -> Iterator[tuple[str, Shape]]:
    for member, expected in shape.items():
        if member is str:
            yield from ((name, expected) for name in value)
        elif not member.endswith("?") or member[:-1] in value:
            yield member.removesuffix("?"), expected


def _fits(value: object, shape: type | UnionType | range) -> bool:
    """True is not a number here, although bool is an int in Python."""
    if isinstance(shape, range):
        return type(value) is int and value in shape
    return isinstance(value, shape) and (not isinstance(value, bool) or shape in (bool, object))


def _name(shape: Shape) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", range: "a count"}
    return names[type(shape)] if type(shape) in names else str(getattr(shape, "__name__", shape))
