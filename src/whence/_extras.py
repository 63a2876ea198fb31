"""Packages that only some verbs need: asked for before the work, and one sentence where one is missing."""

from importlib.util import find_spec

from whence.errors import Unsupported


def require(what: str, extra: str, *packages: str) -> None:
    """Nothing when the packages are installed; else which one is missing and the extra that brings it."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise Unsupported(f"{what} {missing[0]}: pip install 'whence[{extra}]'.")
