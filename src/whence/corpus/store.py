"""A run's folder, here or on any Arrow filesystem: files that are whole or not there, one writer, parts with checksums.

manifest.json               what was measured, of what, with what
journal.jsonl               every attempt: when, by which command, how it ended
TABLE/00000.parquet         one file per table and part
parts/00000.json            written last: the part is done, and these are the checksums of its files
moments.parquet             the moments of all parts merged, when the run is finished
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from whence.errors import BadInput, WhenceError

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
LOCK = ".lock"
PARTS = "parts"
UNFINISHED = ".unfinished"


class CannotWrite(WhenceError):
    """The disk is full, or something else keeps a file from being written; what was written before is safe."""


@dataclass(frozen=True)
class Store:
    """Names inside the folder are relative, with slashes."""

    filesystem: FileSystem
    root: str

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

    def size(self, name: str) -> int | None:
        found = self.filesystem.get_file_info(self.path(name))
        return found.size if found.type == FileType.File else None

    def names(self, folder: str) -> list[str]:
        """Names of the finished files of a folder, in order."""
        found = self.filesystem.get_file_info(FileSelector(self.path(folder), allow_not_found=True))
        return sorted(entry.base_name for entry in found if entry.is_file and UNFINISHED not in entry.base_name)

    def write(self, name: str, data: bytes) -> None:
        """Under another name, flushed to the disk, then renamed: nobody ever sees half a file."""
        temporary = self.path(f"{name}{UNFINISHED}-{uuid.uuid4().hex[:8]}")
        try:
            self.filesystem.create_dir(self.path(name).rpartition("/")[0])
            (_write_here if self.local else _write_there)(self.filesystem, temporary, self.path(name), data)
        except OSError as error:
            _forget(self.filesystem, temporary)
            raise CannotWrite(
                f"{self.path(name)} cannot be written ({_reason(error)}); what was written before is safe:"
                " make room, then start the same run again, and it goes on from there."
            ) from error

    def tidy(self) -> None:
        """Removes what writers that were killed left half done."""
        found = self.filesystem.get_file_info(FileSelector(self.root, allow_not_found=True, recursive=True))
        for entry in found:
            if entry.is_file and UNFINISHED in entry.base_name:
                self.filesystem.delete_file(entry.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuses a second writer. Elsewhere than on a local or shared disk there are no locks, and none is taken."""
        if not self.local:
            yield
            return
        try:
            os.makedirs(self.root, exist_ok=True)
            lock = FileLock(self.path(LOCK))
            lock.acquire(timeout=0)
        except Timeout:
            raise BadInput(
                f"Another run is writing into {self.root!r}; wait until it is done, or name another folder."
            ) from None
        except OSError as error:
            raise BadInput(f"The folder {self.root!r} cannot be written ({_reason(error)}).") from error
        try:
            yield
        finally:
            lock.release()


def at(out: str | Path) -> Store:
    """The store at a folder or at a URI such as file:///data/run or s3://bucket/run."""
    name = str(out)
    if "://" not in name:
        return Store(LocalFileSystem(), str(Path(name).expanduser().absolute()))
    try:
        filesystem, path = FileSystem.from_uri(name)
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(f"There is no filesystem for {name!r} ({_reason(error)}).") from error
    return Store(filesystem, path.rstrip("/"))


def write_part(store: Store, number: int, tables: Mapping[str, bytes], about: Mapping[str, Any]) -> dict[str, Any]:
    """The part's files, then the record that says it is done; gives the record."""
    files = {}
    for table, data in tables.items():
        name = f"{table}/{number:05d}.parquet"
        store.write(name, data)
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    record = {"part": number, **about, "files": files}
    store.write(_record(number), as_json(record))
    return record


def read_record(store: Store, number: int) -> dict[str, Any] | None:
    """What was written of a part; None when it is not done, or its record is damaged."""
    data = store.read(_record(number))
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return None


def is_sound(store: Store, record: Mapping[str, Any]) -> bool:
    """Every file of the part is there with the bytes it was written with."""
    for name, expected in record["files"].items():
        if store.size(name) != expected["bytes"]:
            return False
        if hashlib.sha256(store.read(name) or b"").hexdigest() != expected["sha256"]:
            return False
    return True


def part_numbers(store: Store) -> list[int]:
    return [int(name.removesuffix(".json")) for name in store.names(PARTS)]


def read_manifest(store: Store) -> dict[str, Any] | None:
    data = store.read(MANIFEST)
    try:
        return None if data is None else json.loads(data)
    except ValueError as error:
        raise BadInput(f"{store.path(MANIFEST)} is damaged ({error}); name another folder.") from error


def as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _record(number: int) -> str:
    return f"{PARTS}/{number:05d}.json"


def _write_here(filesystem: FileSystem, temporary: str, final: str, data: bytes) -> None:
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, final)
    if os.name == "posix":  # the new name, too, has to reach the disk
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
    found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return found.splitlines()[0].rstrip(".") if found else type(error).__name__
