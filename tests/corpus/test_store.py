"""The folder of a run: files are whole or not there, one writer, damage is seen."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from whence.corpus import store as module
from whence.corpus.store import CannotWrite, Store, at, damaged, part_numbers, read_manifest, read_record, write_part
from whence.errors import BadInput
from whence.sealed import Damaged, sealed


@pytest.fixture(params=["local", "elsewhere"])
def store(request, tmp_path):
    """On the local disk with flushing and locks, and on a filesystem that knows neither."""
    if request.param == "local":
        return at(tmp_path / "run")
    return Store(SubTreeFileSystem(str(tmp_path), LocalFileSystem()), "run")


def test_what_is_written_is_read(store):
    store.write("deep/er/file", b"content")
    store.write("deep/er/file", b"changed")
    assert store.read("deep/er/file") == b"changed" and store.size("deep/er/file") == 7
    assert store.read("nothing") is None and store.size("nothing") is None
    assert store.names("deep/er") == ["file"] and store.names("nowhere") == []


def test_a_part_and_its_record(store):
    record = write_part(store, 3, {"tokens": b"tt", "pairs": b"p"}, {"sentences": 2})
    assert read_record(store, 3, {"sentences": int}) == record and part_numbers(store) == [3]
    assert record["files"]["tokens/00003.parquet"]["bytes"] == 2
    assert damaged(store, record["files"]) == []


@pytest.mark.parametrize("damage", ["truncated", "changed", "gone"])
def test_damage_is_seen(store, tmp_path, damage):
    record = write_part(store, 0, {"tokens": b"content"}, {})
    file = tmp_path / "run" / "tokens" / "00000.parquet"
    {
        "truncated": lambda: file.write_bytes(b"cont"),
        "changed": lambda: file.write_bytes(b"cOntent"),
        "gone": file.unlink,
    }[damage]()
    assert damaged(store, record["files"]) == ["tokens/00000.parquet"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"part": ', "it is not JSON"),
        (b"[]", "it holds a list"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"part": 0}', "it was changed after it was written"),
        (sealed({"part": 0, "files": {}}), "it has no run"),
        (sealed({"part": True, "run": "", "files": {}}), "part is True, and a count was expected"),
        (sealed({"part": 0, "run": "", "files": []}), r"files is \[\], and an object was expected"),
        (sealed({"part": 7, "run": "", "files": {}}), "it is the record of part 7"),
        (sealed({"part": 0, "run": "x", "files": {}}), "is of another run"),
    ],
)
def test_a_damaged_record_is_named(store, data, says):
    store.write("parts/00000.json", data)
    with pytest.raises(Damaged, match=f"parts/00000.json is .*{says}|parts/00000.json {says}"):
        read_record(store, 0, {})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "is damaged: it is not JSON .*delete it and start the same run again"),
        (b"7", "is damaged: it holds a int"),
        (b'{"schema": 1}', "has the schema 1, and this version of whence reads 2"),
        (b'{"schema": 2}', "is damaged: it was changed after it was written"),
        (sealed({"kind": "run", "schema": 3}), "has the schema 3"),
        (sealed({"kind": "cloze", "schema": 2}), "was made by whence.cloze, and a folder of whence.run"),
        (sealed({"kind": "x", "schema": 2}), "was made by something else"),
        (sealed({"kind": "run", "schema": 2}), "is damaged: it has no seed"),
    ],
)
def test_a_manifest_that_is_none_is_named(store, data, says):
    store.write("manifest.json", data)
    with pytest.raises(BadInput, match=says):
        read_manifest(store, ("run",), {"seed": int})


def test_what_is_not_ours_is_no_part(store):
    write_part(store, 0, {}, {})
    for name in (".DS_Store", "._00000.json", "Thumbs.db", "00000.json~", "00000 (1).json"):
        store.write(f"parts/{name}", b"x")
    assert part_numbers(store) == [0]


@pytest.mark.parametrize("out", ["", " ", "a\0b", "run\udcff"])
def test_what_is_no_folder_is_refused(out):
    with pytest.raises(BadInput, match=r"A folder to write into was expected|The name of the folder .* is not UTF-8"):
        at(out)


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_done(tmp_path, monkeypatch):
    store = at(tmp_path / "run")
    store.write("before", b"safe")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(CannotWrite, match=r"No space left on device.*safe.*start the same run again"):
        store.write("file", b"content")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["before"]


def test_a_file_size_limit_is_met_for_real(tmp_path):
    """A real write that the system refuses, in a child because the limit holds for the whole process."""
    code = f"""
import resource, signal
from whence.corpus.store import CannotWrite, at
store = at({str(tmp_path / "run")!r})
store.write("before", b"safe")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.write("large", b"x" * 5000)
except CannotWrite as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "File too large" in found
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["before"]


def test_what_a_killed_writer_left_is_removed(store, tmp_path):
    store.write("tokens/00000.parquet", b"content")
    left = tmp_path / "run" / "tokens" / f"00001.parquet{module.UNFINISHED}-1a2b"
    left.write_bytes(b"hal")
    assert store.names("tokens") == ["00000.parquet"]
    store.tidy()
    assert not left.exists() and store.read("tokens/00000.parquet") == b"content"


def test_a_second_writer_is_refused(tmp_path):
    first, second = at(tmp_path / "run"), at(tmp_path / "run")
    with first.locked(), pytest.raises(BadInput, match="Another run is writing into"), second.locked():
        pass
    with second.locked():
        pass


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"), at(tmp_path / "file" / "run").locked():
        pass


def test_addresses(tmp_path):
    assert at(f"file://{tmp_path}/run/").root == f"{tmp_path}/run"
    assert at("some/run").root == str(Path.cwd() / "some/run")
    with pytest.raises(BadInput, match="no filesystem for 'nonsense://x'"):
        at("nonsense://x")


@pytest.mark.parametrize(
    ("size", "begin", "sound"),
    [
        (7, {}, True),
        (None, {}, False),
        (6, {}, False),
        (8, {}, False),
        (9, {"first": 2}, True),
        (12, {"first": 2}, True),
        (8, {"first": 2}, False),
    ],
)
def test_without_verification_sizes_are_compared(store, size, begin, sound):
    """A file may be longer than what is said of it only if that is a range of it."""
    if size is not None:
        store.write("tokens", b"x" * size)
    files = {"tokens": {"bytes": 7, "sha256": "not compared", **begin}}
    assert damaged(store, files, verify=False) == ([] if sound else ["tokens"])
