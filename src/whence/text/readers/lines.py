"""Bytes to numbered lines: compression, standard input, byte-order marks, line endings, encodings, lengths."""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.errors import BadInput

STANDARD_INPUT = "stdin:"
LONGEST = 2**20  # bytes of one line, or of all the lines of one record
_CHUNK = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CARRIAGE_RETURNS = (
    "the file's lines end with carriage returns alone, and line feeds were expected; convert it:"
    " tr '\\r' '\\n' <OLD >NEW."
)


@dataclass(frozen=True)
class Line:
    """A line without its line ending; or, in `fault`, what is wrong with it."""

    number: int
    text: str
    kind: str = ""
    fault: str = ""


def lines(path: str) -> Iterator[Line]:
    """The lines of a file, one at a time; a line ends with a line feed, or a carriage return and a line feed."""
    number = 0
    try:
        with _opened(path) as stream:
            for number, data in enumerate(_raw(stream), 1):
                yield _line(number, data)
    except (EOFError, OSError, zlib.error) as error:
        raise BadInput(
            f"{path} cannot be read past line {number}: {error}; the file is damaged or was not copied completely."
        ) from error


def check_file(path: str) -> None:
    """Refuses a missing file when the corpus is named, not when its first line is read."""
    if path == STANDARD_INPUT:
        return
    if Path(path).is_dir():
        raise BadInput(f"{path!r} is a folder, and a file was expected.")
    if not Path(path).exists():
        raise BadInput(f"There is no file {path!r}; give the path of a corpus, such as corpus.txt or mrpc:dev.tsv.")


def state(path: str) -> tuple[int, ...] | None:
    """A value that changes when a regular file is written to, replaced or removed."""
    try:
        status = os.stat(path)
    except OSError:  # standard input, a dataset of the Hub, a file that is gone
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ()


def _opened(path: str) -> AbstractContextManager[Any]:
    if path == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    if path.endswith(".zst"):
        import pyarrow  # detects a truncated file, which the readers of the package zstandard do not

        return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.OSFile(path), "zstd"))
    return open(path, "rb")


def _raw(stream: Any) -> Iterator[bytes]:
    """Lines as bytes; of one that is too long only the beginning, to bound memory."""
    while data := stream.readline(LONGEST + 3):  # room for one byte more than allowed, and for the line ending
        rest = data
        while not rest.endswith(b"\n") and (rest := stream.readline(_CHUNK)):
            pass
        yield data


def _line(number: int, data: bytes) -> Line:
    ended = data.endswith(b"\n")
    data = data.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    if number == 1 and not ended and b"\r" in data:
        return Line(number, "", "carriage returns", _CARRIAGE_RETURNS)
    if len(data) > LONGEST:
        return Line(number, "", "too long", f"the line is longer than {LONGEST:,} bytes.")
    if number == 1 and data.startswith(_UTF16_MARKS):
        return Line(number, "", "not UTF-8", "the file is UTF-16, and UTF-8 was expected.")
    if b"\0" in data:
        return Line(number, "", "NUL", f"byte {data.index(0)} of the line is NUL, which no text has.")
    try:
        return Line(number, data.decode())
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} of the line is 0x{data[error.start]:02x}, which is not UTF-8."
        return Line(number, "", "not UTF-8", fault)
