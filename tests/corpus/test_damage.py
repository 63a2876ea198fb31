"""A run that is damaged or incomplete is refused with its remedy, and the remedy works."""

import json
import random
import shutil

import pandas
import pytest

import whence
from tests import tiny
from whence.corpus.worker import Worker
from whence.errors import BadInput, WhenceError
from whence.sealed import SEAL, sealed

ASKED = {"measures": ["mixing", "value_rank"], "part_size": 2, "threads": 1}
TEXTS = tiny.texts(6, longest=4)


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def sound(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("damage") / "run"
    whence.run(model, TEXTS, out=out, **ASKED)
    return out


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "run")


def numbers(folder) -> list:
    run = whence.open_run(folder)
    tables = [run.tokens, run.sentences, run.heads, run.moments, pandas.read_parquet(folder / "moments.parquet")]
    return [repr(run).replace(str(folder), ""), run.attrs, run.finished, *(table.to_json() for table in tables)]


def files(folder) -> list:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "journal.jsonl"))


def measured(model, folder, monkeypatch) -> list[int]:
    """The same run started again: the parts that were measured for it."""
    done, measure = [], Worker.measure
    monkeypatch.setattr(Worker, "measure", lambda self, part: done.append(part.part.number) or measure(self, part))
    whence.run(model, TEXTS, out=folder, **ASKED)
    return done


def test_one_bit_flipped_is_seen_or_changes_nothing(sound, folder):
    chance, wanted, refused = random.Random(0), numbers(sound), 0
    for _ in range(200):
        file = chance.choice(files(folder))
        before = file.read_bytes()
        damaged = bytearray(before)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        try:
            assert numbers(folder) == wanted
        except WhenceError:
            refused += 1
        file.write_bytes(before)
    assert refused > 190


@pytest.mark.parametrize("damage", ["gone", "cut short", "changed"])
def test_every_file_is_named_and_repaired(model, sound, folder, monkeypatch, damage):
    for file in files(sound):
        name = file.relative_to(sound)
        target, data = folder / name, file.read_bytes()
        change = {"cut short": data[: len(data) // 2], "changed": data[:-9] + b"x" + data[-8:]}
        target.unlink() if damage == "gone" else target.write_bytes(change[damage])
        with pytest.raises(BadInput, match=f"{name}.*start the same run again|is no run") as error:
            whence.open_run(folder)
        if "delete it" in str(error.value):
            target.unlink()
        with monkeypatch.context() as patch:
            assert measured(model, folder, patch) == ([int(name.stem)] if "/" in str(name) else [])
        assert target.read_bytes() == data and numbers(folder) == numbers(sound)


def test_a_stray_record_is_named(folder):
    shutil.copy(folder / "parts" / "00001.json", folder / "parts" / "00007.json")
    with pytest.raises(BadInput, match=r"parts/00007.json is damaged: it is the record of part 1"):
        whence.open_run(folder)
    record = json.loads((folder / "parts" / "00001.json").read_text()) | {"part": 7}
    record.pop(SEAL)
    (folder / "parts" / "00007.json").write_bytes(sealed(record))
    with pytest.raises(BadInput, match=r"finished with 3 parts, and parts/00007.json is one more; delete it"):
        whence.open_run(folder)


def test_what_is_not_ours_is_left_alone(sound, folder):
    for name in (".DS_Store", "Thumbs.db", "._00000.json", "00000.json~"):
        (folder / "parts" / name).write_bytes(b"\0")
    assert numbers(folder) == numbers(sound)


def test_parts_of_another_run_do_not_count(model, folder, tmp_path, monkeypatch):
    whence.run(tiny.model(seed=1), TEXTS, out=tmp_path / "other", **ASKED)
    for table in ("parts", "tokens", "sentences", "heads", "moments"):
        (file,) = (tmp_path / "other" / table).glob("00001.*")
        shutil.copy(file, folder / table)
    with pytest.raises(BadInput, match=r"Part 1 .* is of another run.*start the same run again"):
        whence.open_run(folder)
    assert measured(model, folder, monkeypatch) == [1]
    (tmp_path / "other" / "manifest.json").unlink()
    with pytest.raises(BadInput, match=r"has parts of another run, and no manifest.json; name another folder"):
        whence.run(model, TEXTS, out=tmp_path / "other", **ASKED)


def test_other_folders_are_no_runs(builtin, model, folder, tmp_path):
    with pytest.raises(BadInput, match=r"was made by whence.run and whence.open_run, and a folder of whence.cloze"):
        whence.cloze(builtin, ["A [MASK]."], out=folder)
    whence.cloze(builtin, ["A [MASK]."], out=tmp_path / "cloze")
    for use in (whence.open_run, lambda out: whence.run(model, TEXTS, out=out, **ASKED)):
        with pytest.raises(BadInput, match=r"was made by whence.cloze, and a folder of whence.run"):
            use(tmp_path / "cloze")


VALUES = [None, True, -1, 0, 2**70, 1.5, "x", "", [], {}, [None], {"x": 1}]


def changed(chance: random.Random, content: object) -> object:
    """The same JSON with one value put in, taken out or replaced somewhere."""
    if isinstance(content, dict | list) and content and chance.random() < 0.8:
        found = content.copy()
        place = chance.choice(list(found)) if isinstance(found, dict) else chance.randrange(len(found))
        if chance.random() < 0.3:
            del found[place]
        else:
            found[place] = changed(chance, found[place])
        return found
    return chance.choice(VALUES)


@pytest.mark.parametrize("resealed", [False, True])
@pytest.mark.parametrize("name", ["manifest.json", "parts/00001.json"])
def test_json_of_any_shape_is_one_sentence(sound, folder, name, resealed):
    """Sealed again it may say other things of itself, but never ends in a raw KeyError or TypeError."""
    chance, wanted, refused = random.Random(1), numbers(sound), 0
    whole = json.loads((sound / name).read_text())
    for _ in range(150):
        found = changed(chance, {member: value for member, value in whole.items() if not resealed or member != SEAL})
        again = resealed and isinstance(found, dict)
        (folder / name).write_bytes(sealed(found) if again else json.dumps(found).encode())
        try:
            assert numbers(folder) == wanted or again
        except WhenceError:
            refused += 1
    assert refused > 75
