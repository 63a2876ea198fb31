"""Does what is shipped work where nothing of the repository is at hand?"""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "whence"
SENTENCE = "Paris is the capital of [MASK]."


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("whence-*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in PACKAGE.rglob("*") if is_source(path)}
    assert shipped == sources
    assert any(re.fullmatch(r"whence/models/builtin/.*\.safetensors", name) for name in shipped)


@pytest.mark.slow
def test_wheel_explains_a_sentence_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    environment = install(wheel, tmp_path / "environment")
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    origin = call(environment / "python", "-c", "import whence; print(whence.__file__)", cwd=elsewhere)
    assert Path(origin.strip()).is_relative_to(tmp_path)
    call(environment / "whence", "explain", SENTENCE, "--out", "page.html", cwd=elsewhere)
    assert "<html" in (elsewhere / "page.html").read_text(encoding="utf-8").lower()


def test_help_answers_at_once() -> None:
    """What takes long is importing: help does without libraries of numbers, and with few others (0.2 s or so)."""
    script = Path(sysconfig.get_path("scripts")) / "whence"
    assert script.exists(), f"{script.name} is not installed in this environment; run `make test`"
    found = subprocess.run([sys.executable, "-X", "importtime", script, "--help"], capture_output=True, text=True)
    imported = [line.rpartition("|")[2].strip() for line in found.stderr.splitlines()]
    assert "explain" in found.stdout and "whence.cli" in imported
    assert not {"numpy", "torch", "transformers", "pandas", "xarray", "pyarrow"} & set(imported)
    assert len(imported) < 300  # 230 when this was written


def test_no_file_names_a_place_on_one_machine() -> None:
    absolute = re.compile(r"(?<![\w.:/~-])/(?:root|home|Users|work|mnt|opt|scratch)/\w")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if absolute.search(line)
    ]
    assert not found, "\n".join(found)


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = list(chain(project["dependencies"], *project["optional-dependencies"].values()))
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program prints, run as a stranger to this repository would run it."""
    outcome = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=300
    )
    assert outcome.returncode == 0, f"{command[0]} ended with {outcome.returncode}\n{outcome.stdout}\n{outcome.stderr}"
    return outcome.stdout


def clean_environment() -> dict[str, str]:
    """No path into the sources, no network, text that is not ASCII allowed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}


def install(wheel: Path, folder: Path) -> Path:
    """An empty environment with the wheel in it; returns its folder of programs.

    The dependencies are lent from the environment the tests run in: a line in a .pth file adds its folder to the path
    but does not follow the .pth files inside, so the sources under test stay out of reach.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    paths = sysconfig.get_paths(scheme="venv", vars={"base": str(folder), "platbase": str(folder)})
    python = Path(paths["scripts"]) / "python"
    call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    lent = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    Path(paths["purelib"], "lent.pth").write_text("\n".join(lent))
    return python.parent


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".pyc", ".pyo"}


def tracked_files() -> list[Path]:
    """What git has or would take."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of files to read")
    listed = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    """The file's text, or nothing for weights and pictures."""
    data = path.read_bytes()
    return "" if b"\0" in data[:8192] else data.decode("utf-8", errors="replace")
