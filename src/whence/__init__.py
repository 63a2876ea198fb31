"""Where the information in every hidden token of a transformer comes from, and how much of the token itself is left.

import whence
model = whence.load()
ds = whence.measure(model, "Paris is the capital of [MASK].", ["attention", "mixing"])
"""

import importlib
import sys
from types import ModuleType
from typing import Any

# the public verbs; each is imported when first used, so that `import whence` costs nothing
_VERBS = {
    "alternative": "whence.alternative",
    "cite": "whence.cite",
    "cloze": "whence.cloze",
    "head": "whence.head",
    "identify": "whence.identity",
    "flow": "whence.web.widget",
    "load": "whence.models.load",
    "measure": "whence.measure",
    "measures": "whence.tables",
    "open": "whence.results",
    "perturb": "whence.perturb",
    "read": "whence.readers",
    "report": "whence.report",
    "run": "whence.run",
    "study": "whence.studies",
    "verify": "whence.tables",
}

__all__ = list(_VERBS)


class _Package(ModuleType):
    """Importing whence.measure binds the name `measure` to that module; a verb keeps its name to itself."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _VERBS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _VERBS:
        raise AttributeError(f"module 'whence' has no attribute {name!r}; its verbs are {', '.join(__all__)}")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    return __all__
