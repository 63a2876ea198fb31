"""JSON that is read back: a seal that tells when one bit of it has changed, and the shape it must have."""

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
    """A file is not what was written."""


def sealed(content: Mapping[str, Any]) -> bytes:
    """The content as JSON, its last member a digest of all the others."""
    found = json.dumps({**content, SEAL: digest(content)}, indent=1, ensure_ascii=False) + "\n"
    return found.encode(errors="backslashreplace")  # half of a surrogate pair becomes what JSON writes for it


def digest(content: object) -> str:
    """The same for the same content, however it is spaced and ordered."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parsed(data: bytes | str, name: str) -> dict[str, Any]:
    """The JSON object in a file, its seal not looked at yet."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name} is damaged: it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise Damaged(f"{name} is damaged: it holds a {type(found).__name__}, and a JSON object was expected")
    return found


def unsealed(found: Mapping[str, Any], shape: Shape, name: str) -> dict[str, Any]:
    """The content without its seal, if that is unbroken and the content has the shape."""
    content = {member: value for member, value in found.items() if member != SEAL}
    if found.get(SEAL) != digest(content):
        raise Damaged(f"{name} is damaged: it was changed after it was written")
    check_shape(content, shape, name)
    return content


def check_shape(value: object, shape: Shape, name: str, where: str = "") -> None:
    """Nothing, or which member is not what it should be."""
    if isinstance(shape, dict) and isinstance(value, dict):
        _check_members(value, shape, name, where)
    elif isinstance(shape, list) and isinstance(value, list):
        for item in value:
            check_shape(item, shape[0], name, where)
    elif isinstance(shape, dict | list) or not _fits(value, shape):
        raise Damaged(f"{name} is damaged: {where or 'the whole'} is {value!r:.40}, and {_said(shape)} was expected")


def _check_members(value: dict[str, Any], shape: dict[Any, Shape], name: str, where: str) -> None:
    for member, wanted in _wanted(value, shape):
        inside = f"{where} {member}".strip()
        if member not in value:
            raise Damaged(f"{name} is damaged: it has no {inside}")
        check_shape(value[member], wanted, name, inside)


def _wanted(value: dict[str, Any], shape: dict[Any, Shape]) -> Iterator[tuple[str, Shape]]:
    for member, wanted in shape.items():
        if member is str:
            yield from ((each, wanted) for each in value)
        elif not member.endswith("?") or member[:-1] in value:
            yield member.removesuffix("?"), wanted


def _fits(value: object, shape: type | UnionType | range) -> bool:
    """True is no number here, though Python counts it among them."""
    if isinstance(shape, range):
        return type(value) is int and value in shape
    return isinstance(value, shape) and (not isinstance(value, bool) or shape in (bool, object))


def _said(shape: Shape) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "a list", range: "a count"}
    return kinds[type(shape)] if type(shape) in kinds else str(getattr(shape, "__name__", shape))
