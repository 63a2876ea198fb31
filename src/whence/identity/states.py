"""The hidden states of a corpus, streamed once from the model to files, so that memory stays small for any corpus.

A folder per model and corpus: a file of float32 rows per layer (0 is what the first block reads), one of token ids, one
of sentence lengths. Sentences are written part by part and `done.json` says how far, so interrupted work goes on.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from filelock import FileLock

from whence.errors import BadInput
from whence.identity.keys import corpus_digest, key
from whence.identity.stream import Progress, Stream, done, layer_name
from whence.models.fingerprint import weights_sha256
from whence.models.load import Model


@dataclass(frozen=True, eq=False)
class States:
    """The files, opened for reading. Rows are tokens, sentence after sentence, special tokens included."""

    folder: Path
    layers: int
    width: int
    lengths: np.ndarray
    ids: np.ndarray
    special: np.ndarray
    weights: str
    corpus: str
    _maps: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    def layer(self, layer: int) -> np.ndarray:
        """token x width, read from disk as it is looked at; mapped once, since every new map has to find its pages."""
        if layer not in self._maps:
            path, shape = self.folder / layer_name(layer), (len(self.ids), self.width)
            self._maps[layer] = np.memmap(path, np.float32, "r", shape=shape)
        return self._maps[layer]

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of every sentence."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])


def default_folder() -> Path:
    """WHENCE_CACHE, or whence in the user's folder for what can be made again."""
    if "WHENCE_CACHE" in os.environ:
        return Path(os.environ["WHENCE_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whence"


def states_of(
    model: Model,
    corpus: Iterable[object],
    embeddings: str = "output",
    truncate: bool = False,
    cache: str | Path | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> States:
    """The states of every token at every layer, from the cache or computed now; the corpus is read twice then.

    `embeddings` says what layer 0 is: the "output" of the embedding layer, or the "sum" before its norm.
    """
    corpus_name, count = corpus_digest(corpus)
    weights = weights_sha256(model)
    settings = {"embeddings": embeddings, "truncate": truncate}
    folder = Path(cache or default_folder()) / "states" / key(model, weights, corpus_name, settings)
    with _writable(folder), FileLock(folder.with_suffix(".lock")):
        begun = done(folder)
        if not begun.get("finished"):
            Stream(model, folder, embeddings, truncate, memory_limit, corpus_name).write(corpus, begun, count, progress)
    return _opened(folder, model, weights, corpus_name)


class _writable:  # noqa: N801  (reads as the statement it is)
    """The folder, made; a full or forbidden disk becomes one sentence."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(self._sentence(error)) from error

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise BadInput(self._sentence(error)) from error

    def _sentence(self, error: OSError) -> str:
        where = self.folder.parent.parent
        return f"States cannot be written to {where} ({error.strerror}); name another folder with --cache."


def _opened(folder: Path, model: Model, weights: str, corpus: str) -> States:
    return States(
        folder=folder,
        layers=model.anatomy.layers,
        width=model.anatomy.width,
        lengths=np.fromfile(folder / "lengths.int32", np.int32).astype(np.int64),
        ids=np.fromfile(folder / "ids.int32", np.int32),
        special=np.fromfile(folder / "special.bool", np.bool_),
        weights=weights,
        corpus=corpus,
    )
