"""Optional packages that only some verbs need, checked before the work begins."""

from importlib.util import find_spec

from whence.errors import Unsupported


def require(purpose: str, extra: str, *packages: str) -> None:
    """Refuses when a package is missing, naming it and the extra that installs it."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise Unsupported(f"{purpose} {missing[0]}: pip install 'whence[{extra}]'.")
