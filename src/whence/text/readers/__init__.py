"""Reads files and datasets lazily as sentences, by a table of formats."""

from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any

from whence._arguments import whole
from whence.errors import BadInput
from whence.text.readers.corpus import Corpus
from whence.text.readers.formats import COMPRESSIONS, by_ending, formats
from whence.text.readers.lines import STANDARD_INPUT, check_file
from whence.text.readers.mistaken import check_text
from whence.text.sentence import check_encodable

__all__ = ["Corpus", "read"]


def read(source: str | PathLike[str], *, skip_bad: bool = False, limit: int | None = None, **options: Any) -> Corpus:
    """A corpus of texts, with whatever annotation the file has.

    Args:
        source: a file, whose extension says how it is read, or a prefix and a name as in "mrpc:dev.tsv",
            "hf:user/dataset", "stdin:". "shards/*.txt.gz" reads all matching files, sorted by name
        skip_bad: count malformed records in `corpus.skipped`; otherwise one is an error that names file and line
        limit: the first sentences only
        options: of the format, such as the columns `text`, `pair` and `label` of a table

    Returns:
        The corpus: an iterable of sentences that reads the file as it goes.

    Examples:
        >>> import pathlib
        >>> _ = pathlib.Path("corpus.txt").write_text("Paris is a city.\\nA cat sat.\\n")
        >>> [sentence.text for sentence in whence.read("corpus.txt")]
        ['Paris is a city.', 'A cat sat.']
    """
    location = fspath(source)
    check_encodable(location, "The name of the corpus")
    prefix, colon, rest = location.partition(":")
    named = bool(colon) and prefix in formats()
    if colon and not named and len(prefix) > 1 and Path(rest).is_file() and not Path(location).exists():
        raise BadInput(f"There is no format {prefix!r}; there are {', '.join(formats())}.")
    path = rest if named else location
    name = prefix if named else "text" if path == STANDARD_INPUT else by_ending(path)
    limit = None if limit is None else whole("limit", limit, 0)
    _check_options(name, options)
    files = (path,) if name == "hf" else _files(path)
    for file in files if name == "text" and not named else ():
        check_text(file)
    return Corpus(_stem(path), name, files, options, skip_bad, limit)


def _files(path: str) -> tuple[str, ...]:
    files = sorted(glob(path, recursive=True)) if has_magic(path) and not Path(path).exists() else [path]
    if not files:
        raise BadInput(f"No file is called {path!r}.")
    for file in files:
        check_encodable(file, "The name of the file")
        check_file(file)
    return tuple(files)


def _check_options(name: str, options: dict[str, Any]) -> None:
    known = formats()[name].options()
    for option in options:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise BadInput(f"The format {name} has no option {option!r}; {has}.")


def _stem(path: str) -> str:
    """The file's name without its extensions."""
    name = PurePath(path.rstrip("/")).name if path != STANDARD_INPUT else "stdin"
    for endings in (COMPRESSIONS, tuple(ending for row in formats().values() for ending in row.endings)):
        name = next((name.removesuffix(ending) for ending in endings if name.endswith(ending)), name)
    return name
