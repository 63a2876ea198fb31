"""Pictures and sounds, one to a file; the model's own processor reads them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence

CONTENT = "sha256"  # the label by which such a file is known from a text, and noticed where it changed


def files(path: str, skipped: Skipped) -> Iterator[Sentence]:
    """The file's path in place of a text, with the hash of its content."""
    name = Path(path).name
    yield Sentence(path, id=name, document=name, labels={CONTENT: hashlib.sha256(Path(path).read_bytes()).hexdigest()})
