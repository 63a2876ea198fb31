"""The published studies, one call each: measured, drawn, and compared with what the paper says."""

import importlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from whence._extras import require
from whence._plugins import plugins
from whence.errors import BadInput, Unsupported

# checked first, because the imports below fail without them
require("Studies and reports of runs need", "plot,stats", "altair", "vl_convert", "scipy", "statsmodels")

from whence.models.load import Model, loaded  # noqa: E402
from whence.studies.frame.context import Context, Progress  # noqa: E402
from whence.studies.frame.study import Answered, Left, Section, Study  # noqa: E402
from whence.studies.frame.write import write  # noqa: E402
from whence.text.readers import Corpus, read  # noqa: E402

STUDIES = ("attention-identifiability", "token-identifiability", "attribution", "mixing", "correlates", "lm-head")


def study(
    name: str,
    model: Model,
    data: str | Corpus | Iterable[str | Corpus],
    out: str | PathLike[str],
    *,
    quick: bool = False,
    other: Model | Iterable[Model] | None = None,
    text: str | None = None,
    frequency: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Runs a study, writes it into the folder `out`, and returns the path of its report.

    data       one corpus or several, as whence.read takes them; most sections use the first
    quick      a small sample, in minutes
    other      a second model, or several, to compare with the first: fine-tuned, or of other sizes
    text       the sentence for single examples; by default one is chosen from the corpus
    frequency  a frequency list, or wordfreq:LANGUAGE; by default words are counted in the corpus
    A study that was stopped resumes when it is started again: what was measured is kept in `out`/runs.

    >>> import pathlib
    >>> _ = pathlib.Path("corpus.txt").write_text("Paris is the capital of France.\\nA cat sat on the mat.\\n" * 3)
    >>> whence.study("mixing", whence.load(), "corpus.txt", "study", quick=True).name
    'report.html'
    """
    chosen, model = find(name), loaded(model)
    sources = [data] if isinstance(data, str | Corpus) else list(data)
    if not sources:
        raise BadInput(f"The study {name!r} needs data: {chosen.data}.")
    corpora = tuple(read(source) if isinstance(source, str) else source for source in sources)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    others = tuple(loaded(second) for second in ([other] if isinstance(other, Model) else other or ()))
    context = Context(model, corpora, folder, quick, others, text, frequency, progress)
    answers = [_answered(section, context) for section in chosen.sections]
    return write(chosen, context.provenance(name), folder, answers)


def find(name: str) -> Study:
    """The study of this name, from this library or from another package (entry points `whence.studies`)."""
    if name in STUDIES:
        return importlib.import_module(f"whence.studies.{name.replace('-', '_')}").STUDY
    others = plugins("whence.studies", Study)
    if name not in others:
        raise BadInput(f"There is no study {name!r}; there are: {', '.join((*STUDIES, *others))}.")
    return others[name]


def _answered(section: Section, context: Context) -> Answered:
    """The section's answers; what the model cannot give becomes a sentence in the report, not an error."""
    if missing := section.needs - context.model.gives:
        family = context.model.anatomy.family
        return Answered(
            section, [Left(section.title, f"it needs {', '.join(sorted(missing))}, which {family!r} does not give")]
        )
    answered = Answered(section)
    try:
        answered.items.extend(section.make(context))
    except Unsupported as error:  # the answers before it stay
        answered.items.append(Left(section.title, str(error).rstrip(".")))
    return answered
