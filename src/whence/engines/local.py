"""Parts one after the other, in this process."""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.run.parts import Part
    from whence.run.work import Worker


def work(
    worker: "Worker", parts: Iterator["Part"], address: str | None = None, workers: int | None = None
) -> Generator[dict[str, Any], None, None]:
    """The record of each part, as soon as it is written."""
    for part in parts:
        yield worker.do(part)
