"""The studies, one call each: measured on every model, drawn, and compared with what the paper says."""

import gc
import importlib
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from whence._arguments import whole
from whence._extras import require
from whence._plugins import plugins
from whence.errors import BadInput

# checked first, because the imports below fail without them
require("Studies and reports of runs need", "plot,stats", "altair", "vl_convert", "scipy", "statsmodels")

from whence.models.load import load  # noqa: E402
from whence.models.several import Load, Named, several  # noqa: E402
from whence.sealed import digest  # noqa: E402
from whence.studies.frame.answers import Answers, answered, keep, kept  # noqa: E402
from whence.studies.frame.context import Context, Progress, called  # noqa: E402
from whence.studies.frame.report import ByModel, models_table, reported  # noqa: E402
from whence.studies.frame.study import Beside, Claim, Study  # noqa: E402
from whence.studies.frame.write import write  # noqa: E402
from whence.text.readers import Corpus, read  # noqa: E402
from whence.text.readers.lines import STANDARD_INPUT, state  # noqa: E402

STUDIES = (
    "attention-identifiability",
    "token-identifiability",
    "attribution",
    "mixing",
    "correlates",
    "lm-head",
    "lens",
    "referee",
    "lost",
)


def study(
    name: str,
    models: object,
    data: str | Corpus | Iterable[str | Corpus],
    out: str | PathLike[str],
    *,
    quick: bool = False,
    sample: int | None = None,
    text: str | None = None,
    frequency: str | None = None,
    load: Load = load,
    progress: Progress | None = None,
) -> Path:
    """Runs a study on one model or many, writes it into the folder `out`, and returns the path of its report.

    A study that was stopped resumes when it is started again: what was measured is kept in `out`, model by model.

    Args:
        name: of the study
        models: a loaded model or a name, or a list of them: Hub ids, "id@revision", folders, globs such as "ckpt/*";
            loaded one at a time
        data: one corpus or several, as whence.read takes them; most sections use the first
        out: the folder of the report
        quick: a small sample, in minutes
        sample: at most so many texts of each corpus, of as many of its documents as there are
        text: the sentence for single examples; by default one is chosen from the corpus
        frequency: a frequency list, or wordfreq:LANGUAGE; by default words are counted in the corpus
        load: what loads a model by its name, with options of your own
        progress: progress(what, done, of)

    Returns:
        The path of the report.

    Examples:
        >>> import pathlib
        >>> _ = pathlib.Path("corpus.txt").write_text("Paris is the capital of France.\\nA cat sat on the mat.\\n" * 3)
        >>> whence.study("mixing", whence.load(), "corpus.txt", "study", quick=True).name
        'report.html'
    """
    chosen, named = find(name), several(models)
    sample = None if sample is None else whole("sample", sample, 1)
    sources = [data] if isinstance(data, str | Corpus) else list(data)
    if not sources:
        raise BadInput(f"The study {name!r} needs data: {chosen.data}.")
    corpora = tuple(read(source) if isinstance(source, str) else source for source in sources)
    for corpus in corpora:
        if STANDARD_INPUT not in corpus.files and next(iter(corpus), None) is None:
            raise BadInput(f"The corpus {corpus.name!r} has no sentence in it; give another file.")
    made_from = [name, quick, sample, text, _state(frequency), [_corpus(corpus) for corpus in corpora], _code(chosen)]
    by_model: list[tuple[Named, Answers]] = []
    for model in named:
        home = Path(out) if len(named) == 1 else Path(out) / "models" / model.folder
        home.mkdir(parents=True, exist_ok=True)
        identity = digest([made_from, model.name, model.state])
        answers = kept(home, identity)
        if answers is None:
            context = Context(
                model.load(load), corpora, home, quick, text, frequency, sample, _named(progress, model, named)
            )
            answers = answered(chosen, context)
            if not answers.refused:
                keep(answers, identity)
            del context
            gc.collect()  # a model holds hooks that refer to it; without this two would be in memory
            (home / "report.html").unlink(missing_ok=True)
        by_model.append((model, answers))
        if len(named) > 1 and not (home / "report.html").exists():
            write(chosen, answers.about, home, reported(chosen, [(model, answers)]), interactive=False)
    if len(named) == 1:
        return write(chosen, by_model[0][1].about, Path(out), reported(chosen, by_model))
    return _together(chosen, by_model, Path(out))


def _together(chosen: Study, by_model: ByModel, out: Path) -> Path:
    """The report of many models, in the folder above theirs."""
    sections = reported(chosen, by_model)
    sections[-1].items.append(
        Beside("models", "the models: each by itself", models_table(chosen, by_model), "Verdicts by document.")
    )
    first, *others = (answers.about for _, answers in by_model)
    shared = {name: value for name, value in first.items() if all(value == other.get(name) for other in others)}
    about = shared | {"model": f"{len(by_model)} models"}
    return write(chosen, about, out, sections, models=[(named.name, named.folder) for named, _ in by_model])


def find(name: str) -> Study:
    """The study of this name, from this library or from another package (entry points `whence.studies`)."""
    if name in list(STUDIES):
        return importlib.import_module(f"whence.studies.{name.replace('-', '_')}").STUDY
    others = plugins("whence.studies", Study)
    if name not in list(others):
        raise BadInput(f"There is no study {name!r}; there are: {', '.join((*STUDIES, *others))}.")
    return others[name]


def _named(progress: Progress | None, model: Named, named: list[Named]) -> Progress | None:
    """Of several models, the name of each before what it does."""
    if progress is None or len(named) == 1:
        return progress
    return lambda work, done, total: progress(f"{model.name}: {work}", done, total)


def _corpus(corpus: Corpus) -> list[Any]:
    """What its sentences depend on: the files as they are now, and how they are read."""
    return [called(corpus), corpus.limit, repr(corpus.options), [_state(file) for file in corpus.files]]


def _state(file: str | None) -> Any:
    return [file, state(file)] if file is not None and Path(file).exists() else file


@cache
def _library() -> str:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return digest([version("whence"), *(file.read_text(encoding="utf-8") for file in files)])


def _code(chosen: Study) -> list[str]:
    """Answers are of one state of the study's code; after a change the model is asked again."""
    items = [item for section in chosen.sections for item in section.items]
    queries = [item.statistic if isinstance(item, Claim) else item.query for item in items]
    modules = {sys.modules[getattr(query, "func", query).__module__] for query in queries}
    return [_library(), *sorted(inspect.getsource(module) for module in modules)]
