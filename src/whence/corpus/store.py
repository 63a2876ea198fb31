"""A run's folder, local or on any Arrow filesystem: atomic writes, one writer, parts with checksums.

manifest.json               what was measured, of what, with what; sealed, as the records are
journal.jsonl               every attempt: when, by which command, how it ended
TABLE/00000.parquet         one file per table and part
parts/00000.json            written last: the part is done, and these are the checksums of its files
moments.parquet             the moments of all parts merged, when the run is finished
"""

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from whence.errors import BadInput, WhenceError
from whence.sealed import COUNT, SEAL, Damaged, Shape, check_shape, parsed, sealed, unsealed
from whence.text.sentence import check_encodable

SCHEMA = 2  # of the folder: its files, and what is in its JSON
MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
LOCK = ".lock"
PARTS = "parts"
UNFINISHED = ".unfinished"
CHUNK = 2**20
READERS = 4  # files hashed at the same time
_RECORD = re.compile(r"(\d{5,})\.json")  # anything else in the folder of records is not ours

# kind of folder -> what to call for it
KINDS = {
    "run": "whence.run and whence.open_run",
    "cloze": "whence.cloze",
    "perturb": "whence.perturb",
    "states": "whence.identify",
    "referee": 'whence.study("referee", ...)',
    "lens": "whence.lens",
}
# "first": where in a file that many parts write to
FILES = {str: {"bytes": COUNT, "sha256": str, "first?": COUNT}}


class CannotWrite(WhenceError):
    """The disk is full, or something else keeps a file from being written; what was written before is safe."""


class OtherRun(Damaged):
    """A record is intact, but of another run."""


@dataclass(frozen=True)
class Store:
    """Names inside the folder are relative, with slashes."""

    filesystem: FileSystem
    root: str
    run: str = ""
    "A digest of all that its numbers depend on except the corpus; every part's record has it."

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, LocalFileSystem)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None when there is none."""
        if self.size(name) is None:
            return None
        with self.filesystem.open_input_stream(self.path(name)) as file:
            return file.read()

    def sha256(self, name: str, first: int, end: int) -> str:
        """Of the file's bytes from `first` to `end`, which need not fit into memory."""
        digest = hashlib.sha256()
        with self.filesystem.open_input_file(self.path(name)) as file:
            file.seek(first)
            while data := file.read(min(CHUNK, end - file.tell())):
                digest.update(data)
        return digest.hexdigest()

    def size(self, name: str) -> int | None:
        info = self.filesystem.get_file_info(self.path(name))
        return info.size if info.type == FileType.File else None

    def names(self, folder: str) -> list[str]:
        """Names of the finished files of a folder, in order."""
        entries = self.filesystem.get_file_info(FileSelector(self.path(folder), allow_not_found=True))
        return sorted(entry.base_name for entry in entries if entry.is_file and UNFINISHED not in entry.base_name)

    def write(self, name: str, data: bytes) -> None:
        """Atomically: written under another name, flushed to disk, then renamed, so that nobody sees half a file."""
        temporary = self.path(f"{name}{UNFINISHED}-{uuid.uuid4().hex[:8]}")
        try:
            self.filesystem.create_dir(self.path(name).rpartition("/")[0])
            (_write_here if self.local else _write_there)(self.filesystem, temporary, self.path(name), data)
        except OSError as error:
            _forget(self.filesystem, temporary)
            raise self.cannot_write(name, error) from error

    def cannot_write(self, name: str, error: OSError) -> CannotWrite:
        return CannotWrite(
            f"{self.path(name)} cannot be written ({_reason(error)}); what was written before is safe:"
            " make room, then start the same run again, and it resumes from there."
        )

    def tidy(self) -> None:
        """Removes the unfinished files of killed writers."""
        entries = self.filesystem.get_file_info(FileSelector(self.root, allow_not_found=True, recursive=True))
        for entry in entries:
            if entry.is_file and UNFINISHED in entry.base_name:
                self.filesystem.delete_file(entry.path)

    @contextmanager
    def locked(self, wait: bool = False) -> Iterator[None]:
        """Refuses a second writer, or makes it wait. Only local and shared disks have locks."""
        if not self.local:
            yield
            return
        try:
            os.makedirs(self.root, exist_ok=True)
            lock = FileLock(self.path(LOCK))
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            raise BadInput(
                f"Another run is writing into {self.root!r}; wait until it is done, or name another folder."
            ) from None
        except OSError as error:
            raise BadInput(
                f"The folder {self.root!r} cannot be written ({_reason(error)}); name another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()


def at(out: str | PathLike[str]) -> Store:
    """The store at a folder or at a URI such as file:///data/run or s3://bucket/run."""
    if not isinstance(out, str | PathLike) or not str(out).strip() or "\0" in str(out):
        raise BadInput(f"A folder to write into was expected, and {out!r} was given; name one, such as 'run'.")
    name = str(fspath(out))
    check_encodable(name, "The name of the folder")
    if "://" not in name:
        return Store(LocalFileSystem(), str(Path(name).expanduser().absolute()))
    try:
        filesystem, path = FileSystem.from_uri(name)
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(f"There is no filesystem for {name!r} ({_reason(error)}).") from error
    return Store(filesystem, path.rstrip("/"))


def write_part(store: Store, number: int, tables: Mapping[str, bytes], about: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the part's files, then the record that says it is done; returns the record."""
    files = {}
    for table, data in tables.items():
        name = f"{table}/{number:05d}.parquet"
        store.write(name, data)
        files[name] = checksum(data)
    return write_record(store, number, files, about)


def write_record(
    store: Store, number: int, files: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    record = {"part": number, "run": store.run, **about, "files": dict(files)}
    store.write(record_name(number), sealed(record))
    return record


def checksum(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read_record(store: Store, number: int, shape: Shape) -> dict[str, Any] | None:
    """The record of a part; None when it is not done, Damaged when it is of another part or run."""
    name = record_name(number)
    data = store.read(name)
    if data is None:
        return None
    record = unsealed(parsed(data, name), {"part": COUNT, "run": str, "files": FILES, **shape}, name)
    if record["part"] != number:
        raise Damaged(f"{name} is damaged: it is the record of part {record['part']}")
    if record["run"] != store.run:
        raise OtherRun(f"{name} is of another run, with another model, other parameters or other versions")
    return record


def damaged(store: Store, files: Mapping[str, Mapping[str, Any]], verify: bool = True) -> list[str]:
    """The files that are gone or whose size or checksum has changed; without `verify` only sizes are compared."""

    def is_sound(name: str) -> bool:
        size, first = store.size(name), files[name].get("first", 0)
        end = first + files[name]["bytes"]
        if size is None or size < end or (size > end and "first" not in files[name]):
            return False
        return not verify or store.sha256(name, first, end) == files[name]["sha256"]

    with ThreadPoolExecutor(READERS) as readers:
        return [name for name, sound in zip(files, readers.map(is_sound, files), strict=True) if not sound]


def part_numbers(store: Store) -> list[int]:
    matches = (_RECORD.fullmatch(name) for name in store.names(PARTS))
    return sorted(int(match[1]) for match in matches if match)


def read_manifest(store: Store, kinds: Iterable[str], shape: Shape) -> dict[str, Any] | None:
    """The manifest of a folder of one of these kinds; None when it has none."""
    data = store.read(MANIFEST)
    try:
        return None if data is None else _manifest(store, parsed(data, store.path(MANIFEST)), kinds, shape)
    except Damaged as error:
        raise Damaged(f"{error}; delete it and start the same run again, which keeps the parts it has.") from error


def _manifest(store: Store, envelope: Mapping[str, Any], kinds: Iterable[str], shape: Shape) -> dict[str, Any]:
    if envelope.get("schema") != SCHEMA and SEAL not in envelope:  # of a version without seals
        raise _other_schema(store, envelope.get("schema"))
    content = unsealed(envelope, {"kind": str, "schema": int}, store.path(MANIFEST))
    if content["schema"] != SCHEMA:
        raise _other_schema(store, content["schema"])
    if content["kind"] not in kinds:
        raise BadInput(
            f"{store.root!r} was made by {KINDS.get(content['kind'], 'something else')}, and a folder of"
            f" {' or '.join(KINDS[kind] for kind in kinds)} was expected; name another folder."
        )
    check_shape(content, shape, store.path(MANIFEST))
    return content


def _other_schema(store: Store, schema: object) -> BadInput:
    return BadInput(
        f"{store.path(MANIFEST)} has the schema {schema!r:.40}, and this version of whence reads {SCHEMA};"
        " open it with the version that wrote it, or measure again into another folder."
    )


def record_name(number: int) -> str:
    return f"{PARTS}/{number:05d}.json"


def _write_here(filesystem: FileSystem, temporary: str, final: str, data: bytes) -> None:
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, final)
    if os.name == "posix":  # the new name has to reach the disk too
        folder = os.open(os.path.dirname(final), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _write_there(filesystem: FileSystem, temporary: str, final: str, data: bytes) -> None:
    with filesystem.open_output_stream(temporary) as file:
        file.write(data)
    filesystem.move(temporary, final)


def _forget(filesystem: FileSystem, temporary: str) -> None:
    if filesystem.get_file_info(temporary).type == FileType.File:
        filesystem.delete_file(temporary)


def _reason(error: BaseException) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.splitlines()[0].rstrip(".") if reason else type(error).__name__
