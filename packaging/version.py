"""The version, in the one place that counts and the two that repeat it.

python packaging/version.py 0.2.0        write it into pyproject.toml and CITATION.cff
python packaging/version.py --tag v0.2.0 fail unless the tag is that version and the changelog has a heading for it
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = r"\d+\.\d+\.\d+((a|b|rc)\d+)?"
PLACES = {"pyproject.toml": f'^version = "{VERSION}"$', "CITATION.cff": f"^version: {VERSION}$"}


def current() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def bump(version: str) -> None:
    for name, pattern in PLACES.items():
        old = (ROOT / name).read_text()
        text, count = re.subn(pattern, lambda line: re.sub(VERSION, version, line[0]), old, flags=re.M)
        assert count == 1, f"{name} has {count} lines with a version, and one was expected."
        (ROOT / name).write_text(text)


def problems(tag: str) -> list[str]:
    """What keeps this tag from being released."""
    version, changelog = current(), (ROOT / "CHANGELOG.md").read_text()
    found = []
    if tag != f"v{version}":
        found.append(f"The tag is {tag}, and pyproject.toml says {version}.")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        found.append(f"CITATION.cff does not say {version}.")
    if not re.search(rf"^## {re.escape(version)} – \d{{4}}-\d\d-\d\d$", changelog, re.M):
        found.append(f"CHANGELOG.md has no heading '## {version} – YYYY-MM-DD'.")
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--tag", tag]:
            sys.exit("\n".join(problems(tag)) or 0)
        case [version] if re.fullmatch(VERSION, version):
            bump(version)
        case _:
            sys.exit(__doc__)
