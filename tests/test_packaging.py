"""A release is refused unless tag, version, citation and changelog agree; what ships names files that exist."""

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def release(tmp_path):
    """packaging/version.py in a folder with copies of the files that it reads."""
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "packaging").mkdir()
    copy = shutil.copy(ROOT / "packaging" / "version.py", tmp_path / "packaging")
    spec = importlib.util.spec_from_file_location("version", copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_bump_is_written_everywhere(release):
    release.bump("9.8.7")
    assert release.current() == "9.8.7"
    assert "\nversion: 9.8.7\n" in (release.ROOT / "CITATION.cff").read_text()


def test_a_tag_is_refused_until_all_agree(release):
    release.bump("9.8.7")
    assert len(release.problems("v9.8.8")) == 2  # the tag and the changelog
    changelog = release.ROOT / "CHANGELOG.md"
    changelog.write_text(changelog.read_text() + "\n## 9.8.7 – 2027-01-31\n")
    assert release.problems("v9.8.7") == []
    (release.ROOT / "CITATION.cff").write_text("version: 9.8.6\n")
    assert release.problems("v9.8.7") == ["CITATION.cff does not say 9.8.7."]


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    run = recipe[recipe.index("  run:") : recipe.index("tests:")]
    wanted = {re.sub(r"\s", "", line.strip(" -")).replace("pytorch", "torch") for line in run.splitlines()[1:] if line}
    assert wanted - {f"python{project['requires-python']}"} == set(project["dependencies"])
    assert f'version: "{project["version"]}"' in recipe


def test_the_page_for_programs_names_verbs_that_exist():
    import whence

    named = set(re.findall(r"whence\.([a-z_]+)\(", (ROOT / "docs/llms.txt").read_text()))
    assert named and named <= set(whence.__all__)
