"""Reads files and datasets lazily as sentences, by a table of formats."""

from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any

from whence._arguments import whole
from whence.errors import BadInput
from whence.text.readers.corpus import Corpus
from whence.text.readers.formats import COMPRESSIONS, TABLE, Format, by_ending, formats
from whence.text.readers.lines import STANDARD_INPUT, check_file
from whence.text.readers.memory import is_table
from whence.text.readers.mistaken import check_text
from whence.text.sentence import check_encodable

__all__ = ["Corpus", "read"]


def read(source: Any, *, skip_bad: bool = False, limit: int | None = None, **options: Any) -> Corpus:
    """A corpus of texts, with whatever annotation the file has.

    Args:
        source: a file, whose extension says how it is read, or a prefix and a name as in "mrpc:dev.tsv",
            "hf:user/dataset", "stdin:". "shards/*.txt.gz" reads all matching files, sorted by name. A table in memory
            is read as well: a data frame (pandas, polars), an Arrow table, a dataset of `datasets`, rows as dicts
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
    limit = None if limit is None else whole("limit", limit, 0)
    if not isinstance(source, str | PathLike):
        return _in_memory(source, options, skip_bad, limit)
    location = fspath(source)
    check_encodable(location, "The name of the corpus")
    prefix, colon, rest = location.partition(":")
    named = bool(colon) and prefix in formats()
    if colon and not named and len(prefix) > 1 and Path(rest).is_file() and not Path(location).exists():
        raise BadInput(f"There is no format {prefix!r}; there are {', '.join(formats())}.")
    path = rest if named else location
    name = prefix if named else "text" if path == STANDARD_INPUT else by_ending(path)
    _check_options(name, formats()[name], options)
    files = (path,) if name == "hf" else _files(path)
    for file in files if name == "text" and not named else ():
        check_text(file)
    return Corpus(_stem(path), name, files, options, skip_bad, limit)


def _in_memory(table: object, options: dict[str, Any], skip_bad: bool, limit: int | None) -> Corpus:
    if isinstance(table, Corpus):
        raise BadInput(f"{table.name} has been read already; it is a corpus as it is.")
    if not is_table(table):
        raise BadInput(f"A corpus is read from a file's name or a table, and {type(table).__name__} was given.")
    _check_options("table", TABLE, options)
    return Corpus("table", "table", (), options, skip_bad, limit, table)


def _files(path: str) -> tuple[str, ...]:
    files = sorted(glob(path, recursive=True)) if has_magic(path) and not Path(path).exists() else [path]
    if not files:
        raise BadInput(f"No file is called {path!r}.")
    for file in files:
        check_encodable(file, "The name of the file")
        check_file(file)
    return tuple(files)


def _check_options(name: str, row: Format, options: dict[str, Any]) -> None:
    known = row.options()
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
