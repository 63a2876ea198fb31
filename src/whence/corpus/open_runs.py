"""The runs of several models together: a mapping by model, and tables of all of them."""

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

import pandas

from whence.corpus.open_run import Run, open_run
from whence.corpus.store import MANIFEST
from whence.errors import BadInput

MODEL = "model"


def open_runs(out: str | Path, *, verify: bool = True) -> "Runs":
    """The runs in the folders of a folder, by the names that `whence.run` gave to the models.

    Args:
        out: the folder that `whence.run` wrote for a list of models
        verify: compare every checksum; else sizes

    Returns:
        A mapping from the name of each model to its run; `table("tokens")` is a table of all of them.

    Examples:
        >>> _ = whence.run([whence.load()], ["Paris is a city."], ["mixing"], out="runs")
        >>> list(whence.open_runs("runs")), whence.open_runs("runs").table("sentences")["model"].tolist()
        (['whence-builtin'], ['whence-builtin'])
    """
    if not isinstance(out, str | PathLike):
        raise BadInput(f"A folder of runs was expected, and {out!r:.40} was given.")
    folders = sorted(path.parent for path in Path(out).glob(f"*/{MANIFEST}"))
    if not folders:
        raise BadInput(f"{str(out)!r} has no runs in it; whence.run makes them from a list of models.")
    return Runs({folder.name: folder for folder in folders}, verify)


class Runs(Mapping[str, Run]):
    """Name of a model -> its run, opened when asked for."""

    def __init__(self, folders: Mapping[str, Path], verify: bool = True):
        self._folders, self._verify = folders, verify

    def __getitem__(self, name: str) -> Run:
        return open_run(self._folders[name], verify=self._verify)

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def table(self, name: str, columns: list[str] | None = None) -> pandas.DataFrame:
        """A table of all runs, such as tokens, with the model in the first column."""
        tables = [(model, run.arrow(name).to_table(columns=columns).to_pandas()) for model, run in self.items()]
        table = pandas.concat([rows.assign(**{MODEL: model}) for model, rows in tables], ignore_index=True)
        return table[[MODEL, *(column for column in table if column != MODEL)]]

    def __repr__(self) -> str:
        return f"Runs of {len(self)} models: {', '.join(self)}"
