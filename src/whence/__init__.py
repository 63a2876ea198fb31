"""Where the information in every hidden token of a transformer comes from, and how much of the token itself is left.

import whence
model = whence.load()
ds = whence.measure(model, "The keys to the cabinet [MASK] on the table.", ["attention", "mixing"])
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the table below, for editors and type checkers
    from whence import errors as errors
    from whence import plot as plot
    from whence import stats as stats
    from whence.citations import cite as cite
    from whence.corpus.cloze import cloze as cloze
    from whence.corpus.identify import identify as identify
    from whence.corpus.lens import lens as lens
    from whence.corpus.open_run import open_run as open_run
    from whence.corpus.open_runs import open_runs as open_runs
    from whence.corpus.perturb import perturb as perturb
    from whence.corpus.publish import publish as publish
    from whence.corpus.run import run as run
    from whence.measures.options import Block as Block
    from whence.measures.options import Contribution as Contribution
    from whence.measures.options import Effective as Effective
    from whence.measures.options import EffectiveCorrelation as EffectiveCorrelation
    from whence.measures.options import Gradient as Gradient
    from whence.measures.options import Jacobian as Jacobian
    from whence.measures.options import JacobianLocal as JacobianLocal
    from whence.measures.options import Minimum as Minimum
    from whence.measures.options import MinimumSimplex as MinimumSimplex
    from whence.measures.options import Null as Null
    from whence.measures.options import Origin as Origin
    from whence.measures.options import ValueRank as ValueRank
    from whence.models.load import load as load
    from whence.page.report import report as report
    from whence.page.widget import widget as widget
    from whence.progress_bar import progress as progress
    from whence.sentence.alternative import alternative_attention as alternative_attention
    from whence.sentence.lens_file import load_lens as load_lens
    from whence.sentence.list_measures import list_measures as list_measures
    from whence.sentence.lm_head import lm_head as lm_head
    from whence.sentence.measure import measure as measure
    from whence.sentence.verify import verify as verify
    from whence.sentence.why import why as why
    from whence.studies import study as study
    from whence.text.readers import read as read

    __version__: str

# The public verbs; each is imported when first used, so that `import whence` costs nothing. None shares its name with a
# module in this folder: importing that module would replace the verb.
_VERBS = {
    "alternative_attention": "whence.sentence.alternative",
    "cite": "whence.citations",
    "cloze": "whence.corpus.cloze",
    "identify": "whence.corpus.identify",
    "lens": "whence.corpus.lens",
    "list_measures": "whence.sentence.list_measures",
    "lm_head": "whence.sentence.lm_head",
    "load": "whence.models.load",
    "load_lens": "whence.sentence.lens_file",
    "measure": "whence.sentence.measure",
    "open_run": "whence.corpus.open_run",
    "open_runs": "whence.corpus.open_runs",
    "perturb": "whence.corpus.perturb",
    "progress": "whence.progress_bar",
    "publish": "whence.corpus.publish",
    "read": "whence.text.readers",
    "report": "whence.page.report",
    "run": "whence.corpus.run",
    "study": "whence.studies",
    "verify": "whence.sentence.verify",
    "why": "whence.sentence.why",
    "widget": "whence.page.widget",
}

# options of measures: whence.measure(model, text, [whence.Contribution(error=0.01)])
_OPTIONS = (
    "Block",
    "Contribution",
    "Effective",
    "EffectiveCorrelation",
    "Gradient",
    "Jacobian",
    "JacobianLocal",
    "Minimum",
    "MinimumSimplex",
    "Null",
    "Origin",
    "ValueRank",
)
_MODULES = ("errors", "plot", "stats")

__all__ = [*_VERBS, *_OPTIONS, *_MODULES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("whence")
    if name in _MODULES:
        return importlib.import_module(f"whence.{name}")
    if name in _OPTIONS:
        return getattr(importlib.import_module("whence.measures.options"), name)
    if name not in _VERBS:
        raise AttributeError(f"module 'whence' has no attribute {name!r}; its verbs are {', '.join(_VERBS)}")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    return __all__
