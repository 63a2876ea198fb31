"""Where the information in every hidden token of a transformer comes from, and how much of the token itself is left.

import whence
model = whence.load()
ds = whence.measure(model, "Paris is the capital of [MASK].", ["attention", "mixing"])
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the table below says, for editors and type checkers
    from whence import errors as errors
    from whence import plot as plot
    from whence import stats as stats
    from whence.citations import cite as cite
    from whence.corpus.cloze import cloze as cloze
    from whence.corpus.open_run import open as open
    from whence.corpus.perturb import perturb as perturb
    from whence.corpus.run import run as run
    from whence.identity import identify as identify
    from whence.models.load import load as load
    from whence.page.report import report as report
    from whence.page.widget import flow as flow
    from whence.progress_bar import progress as progress
    from whence.sentence.alternative import alternative as alternative
    from whence.sentence.lm_head import head as head
    from whence.sentence.measure import measure as measure
    from whence.sentence.tables import measures as measures
    from whence.sentence.tables import verify as verify
    from whence.studies import study as study
    from whence.text.readers import read as read

    __version__: str

# the public verbs; each is imported when first used, so that `import whence` costs nothing
_VERBS = {
    "alternative": "whence.sentence.alternative",
    "cite": "whence.citations",
    "cloze": "whence.corpus.cloze",
    "head": "whence.sentence.lm_head",
    "identify": "whence.identity",
    "flow": "whence.page.widget",
    "load": "whence.models.load",
    "measure": "whence.sentence.measure",
    "measures": "whence.sentence.tables",
    "open": "whence.corpus.open_run",
    "perturb": "whence.corpus.perturb",
    "progress": "whence.progress_bar",
    "read": "whence.text.readers",
    "report": "whence.page.report",
    "run": "whence.corpus.run",
    "study": "whence.studies",
    "verify": "whence.sentence.tables",
}

_MODULES = ("errors", "plot", "stats")

__all__ = [*_VERBS, *_MODULES]


class _Package(ModuleType):
    """Importing whence.measure binds the name `measure` to that module; a verb keeps its name to itself."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _VERBS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("whence")
    if name in _MODULES:
        return importlib.import_module(f"whence.{name}")
    if name not in _VERBS:
        raise AttributeError(f"module 'whence' has no attribute {name!r}; its verbs are {', '.join(_VERBS)}")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    return __all__
