"""The hidden states of a corpus, streamed once from the model to files, so that memory stays small for any corpus.

A folder per model and corpus: a file of float32 rows per layer (0 is what the first block reads), one of token ids, one
of sentence lengths. Sentences are written part by part and `done.json` says how far, so interrupted work goes on.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from filelock import FileLock

from whence.errors import BadInput, Unsupported
from whence.identity.keys import corpus_digest, key, weights_digest
from whence.models.capture import walk
from whence.models.embeddings import layer_zero
from whence.models.encode import Encoded, encode
from whence.models.load import Model
from whence.models.memory import attention_bytes, claim
from whence.models.trace import Batch
from whence.text import sentence

PART = 64  # sentences between two notes of how far we are
BATCH_BYTES = 2**27  # states of one forward pass, all layers
BATCH_TOKENS = 2048
Progress = Callable[[int, int], None]


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
            path, shape = self.folder / _layer_name(layer), (len(self.ids), self.width)
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
    weights = weights_digest(model)
    settings = {"embeddings": embeddings, "truncate": truncate}
    folder = Path(cache or default_folder()) / "states" / key(model, weights, corpus_name, settings)
    with _writable(folder), FileLock(folder.with_suffix(".lock")):
        done = _done(folder)
        if not done.get("finished"):
            stream = _Stream(model, folder, embeddings, truncate, memory_limit)
            stream.write(corpus, done, count, progress)
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


@dataclass(frozen=True)
class _Stream:
    """From sentences to files."""

    model: Model
    folder: Path
    embeddings: str
    truncate: bool
    memory_limit: int | None

    def write(self, corpus: Iterable[object], done: dict[str, int], count: int, progress: Progress | None) -> None:
        sentences, tokens = done["sentences"], done["tokens"]
        rest = islice(iter(corpus), sentences, None)
        with ExitStack() as opened:
            files = {name: opened.enter_context(_at(self.folder / name, end)) for name, end in self._ends(done).items()}
            while part := list(islice(rest, PART)):
                encoded = [self._encode(given, sentences + place) for place, given in enumerate(part)]
                self._write_part(encoded, files)
                sentences, tokens = sentences + len(part), tokens + sum(len(one.tokens) for one in encoded)
                _note(self.folder, {"sentences": sentences, "tokens": tokens})
                if progress:
                    progress(sentences, count)
        _note(self.folder, {"sentences": sentences, "tokens": tokens, "finished": True})

    def _encode(self, given: object, place: int) -> Encoded:
        checked = sentence(given)
        encoded = encode(self.model.anatomy, self.model.tokenizer, checked, self.truncate)
        if len(encoded.tokens) < 2:
            raise BadInput(
                f"Sentence {place + 1} ({checked.text[:40]!r}) is a single token, which has no other to be taken for;"
                " leave such sentences out."
            )
        return encoded

    def _write_part(self, encoded: list[Encoded], files: dict[str, BinaryIO]) -> None:
        found = self._states(encoded)
        for layer in range(self.model.anatomy.layers + 1):
            for rows in found:
                files[_layer_name(layer)].write(rows[layer].tobytes())
        for one in encoded:
            files["ids.int32"].write(one.batch.ids[0].numpy().astype(np.int32).tobytes())
            files["special.bool"].write(np.array(one.special).tobytes())
            files["lengths.int32"].write(np.int32(len(one.tokens)).tobytes())
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())

    def _states(self, encoded: list[Encoded]) -> list[np.ndarray]:
        """layer x token x width for every sentence, in order; sentences of like length share a pass."""
        found: list[np.ndarray] = [np.empty(0)] * len(encoded)
        order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].tokens))
        for places in self._batches(order, encoded):
            batch = _padded([encoded[place].batch for place in places])
            self._claim(batch)
            trace = walk(self.model.anatomy, batch, lambda block: block.output.float().cpu())
            first = layer_zero(self.model.anatomy, batch) if self.embeddings == "sum" else trace.embedding
            layers = torch.stack([first.float().cpu(), *trace.blocks])
            _check_finite(layers)
            for row, place in enumerate(places):
                found[place] = layers[:, row, : len(encoded[place].tokens)].numpy()
        return found

    def _batches(self, order: list[int], encoded: list[Encoded]) -> Iterator[list[int]]:
        anatomy = self.model.anatomy
        most = min(BATCH_TOKENS, BATCH_BYTES // (4 * (anatomy.layers + 1) * anatomy.width))
        batch: list[int] = []
        for place in order:
            if batch and (len(batch) + 1) * len(encoded[place].tokens) > most:
                yield batch
                batch = []
            batch.append(place)
        yield batch

    def _claim(self, batch: Batch) -> None:
        rows, tokens = batch.ids.shape
        needed = attention_bytes(rows, self.model.anatomy.heads, tokens)
        claim(needed, tokens, self.model.model.device, self.memory_limit)

    def _ends(self, done: dict[str, int]) -> dict[str, int]:
        """File -> how many of its bytes are known to be whole."""
        row = 4 * self.model.anatomy.width
        layers = {_layer_name(layer): row * done["tokens"] for layer in range(self.model.anatomy.layers + 1)}
        tokens = {"ids.int32": 4 * done["tokens"], "special.bool": done["tokens"]}
        return layers | tokens | {"lengths.int32": 4 * done["sentences"]}


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


def _padded(batches: list[Batch]) -> Batch:
    """Right padding; what stands there is masked, so any id will do."""
    longest = max(batch.ids.shape[1] for batch in batches)

    def joined(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([torch.nn.functional.pad(row, (0, longest - row.shape[1])) for row in rows])

    segments = [batch.segments for batch in batches if batch.segments is not None]
    ids, mask = joined([batch.ids for batch in batches]), joined([batch.mask for batch in batches])
    return Batch(ids, mask, joined(segments) if segments else None)


def _check_finite(layers: torch.Tensor) -> None:
    if not bool(torch.isfinite(layers).all()):
        layer = int((~torch.isfinite(layers)).flatten(1).any(dim=1).nonzero()[0])
        raise Unsupported(f"The states of layer {layer} are not all finite numbers; load the model in float32.")


def _at(path: Path, end: int) -> BinaryIO:
    """The file opened to go on after its first `end` bytes; what an interruption left behind them is cut off."""
    file = path.open("r+b" if path.exists() else "w+b")
    file.truncate(end)
    file.seek(end)
    return file


def _done(folder: Path) -> dict[str, int]:
    path = folder / "done.json"
    return json.loads(path.read_text()) if path.exists() else {"sentences": 0, "tokens": 0}


def _note(folder: Path, done: dict[str, int]) -> None:
    """Replaced in one step: a reader sees the old note or the new one."""
    fresh = folder / "done.json.new"
    fresh.write_text(json.dumps(done))
    os.replace(fresh, folder / "done.json")


def _layer_name(layer: int) -> str:
    return f"layer_{layer:03}.float32"
