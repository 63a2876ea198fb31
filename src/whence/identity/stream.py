"""From sentences to files of hidden states, part by part: what is in memory is bounded, what is written is whole."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from whence.errors import BadInput, Unsupported
from whence.identity.keys import Digested
from whence.models.batching import batches, padded, padding_id
from whence.models.block import Batch
from whence.models.capture import walk
from whence.models.embeddings import layer_zero
from whence.models.encode import Encoded, encode
from whence.models.load import Model
from whence.models.memory import attention_bytes, claim
from whence.sealed import COUNT, Damaged, parsed, sealed, unsealed
from whence.text.sentence import Sentence

log = logging.getLogger("whence")

PART = 64  # sentences between two notes of how far we are, or fewer
PART_BYTES = 2**28  # when their states, all layers, take more than this
BATCH_BYTES = 2**27  # the same of one forward pass
BATCH_TOKENS = 2048
CHUNK = 2**20
NOTE = "done.json"
FRESH = {"sentences": 0, "tokens": 0}
SHAPE = {
    "sentences": COUNT,
    "tokens": COUNT,
    "corpus": str,
    "finished?": bool,
    "files": {str: {"bytes": COUNT, "sha256": str}},
}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Stream:
    """From sentences to files."""

    model: Model
    folder: Path
    embeddings: str
    truncate: bool
    memory_limit: int | None
    corpus: str
    "The digest it must have."

    def write(self, corpus: Iterable[object], begun: dict[str, Any], count: int, progress: Progress | None) -> None:
        """Goes on where the files end, if they are of these sentences; else from the start."""
        begun = begun if _begins_so(corpus, begun) else FRESH
        read, sentences, tokens = Digested(corpus), begun["sentences"], begun["tokens"]
        with ExitStack() as opened:
            ends = self._ends(sentences, tokens)
            files = {name: opened.enter_context(closing(Hashed(self.folder / name, end))) for name, end in ends.items()}
            for part in self._parts(islice(read, sentences, None), sentences):
                self._write_part(part, files)
                sentences, tokens = sentences + len(part), tokens + sum(len(one.tokens) for one in part)
                _note(self.folder, {"sentences": sentences, "tokens": tokens, "corpus": read.digest}, files)
                if progress:
                    progress(sentences, count)
            self._check_corpus(read)
            about = {"sentences": sentences, "tokens": tokens, "corpus": read.digest, "finished": True}
            _note(self.folder, about, files)

    def _check_corpus(self, read: Digested) -> None:
        """It was read once for its name and once for its states."""
        if read.digest != self.corpus:
            (self.folder / NOTE).unlink(missing_ok=True)
            raise BadInput("The corpus was changed while it was read; start again when nothing writes to it.")

    def _parts(self, given: Iterator[Sentence], first: int) -> Iterator[list[Encoded]]:
        """The sentences in runs of bounded size."""
        part: list[Encoded] = []
        for place, checked in enumerate(given, start=first):
            part.append(self._encode(checked, place))
            if len(part) == PART or self._row * sum(len(one.tokens) for one in part) >= PART_BYTES:
                yield part
                part = []
        if part:
            yield part

    @property
    def _row(self) -> int:
        """Bytes of a token in all layers."""
        return 4 * self.model.anatomy.width * (self.model.anatomy.layers + 1)

    def _encode(self, checked: Sentence, place: int) -> Encoded:
        encoded = encode(self.model.anatomy, self.model.tokenizer, checked, self.truncate)
        if len(encoded.tokens) < 2:
            raise BadInput(
                f"Sentence {place + 1} ({checked.text[:40]!r}) is a single token, which has no other to be taken for;"
                " leave such sentences out."
            )
        return encoded

    def _write_part(self, encoded: list[Encoded], files: dict[str, "Hashed"]) -> None:
        found = self._states(encoded)
        for layer in range(self.model.anatomy.layers + 1):
            for rows in found:
                files[layer_name(layer)].write(rows[layer].tobytes())
        for one in encoded:
            files["ids.int32"].write(one.batch.ids[0].numpy().astype(np.int32).tobytes())
            files["special.bool"].write(np.array(one.special).tobytes())
            files["lengths.int32"].write(np.int32(len(one.tokens)).tobytes())
        for file in files.values():
            file.flush()

    def _states(self, encoded: list[Encoded]) -> list[np.ndarray]:
        """layer x token x width for every sentence, in order; sentences of like length share a pass."""
        found: list[np.ndarray] = [np.empty(0)] * len(encoded)
        most = min(BATCH_TOKENS, BATCH_BYTES // self._row)
        for places in batches([len(one.tokens) for one in encoded], lambda longest: most // longest):
            batch = padded([encoded[place].batch for place in places], padding_id(self.model.anatomy))
            self._claim(batch)
            trace = walk(self.model.anatomy, batch, lambda block: block.output.float().cpu())
            first = layer_zero(self.model.anatomy, batch) if self.embeddings == "sum" else trace.embedding
            layers = torch.stack([first.float().cpu(), *trace.blocks])
            _check_finite(layers)
            for row, place in enumerate(places):
                found[place] = layers[:, row, : len(encoded[place].tokens)].numpy()
        return found

    def _claim(self, batch: Batch) -> None:
        rows, tokens = batch.ids.shape
        needed = attention_bytes(rows, self.model.anatomy.heads, tokens)
        claim(needed, tokens, self.model.model.device, self.memory_limit)

    def _ends(self, sentences: int, tokens: int) -> dict[str, int]:
        """File -> how many of its bytes are known to be whole."""
        width = 4 * self.model.anatomy.width
        layers = {layer_name(layer): width * tokens for layer in range(self.model.anatomy.layers + 1)}
        return layers | {"ids.int32": 4 * tokens, "special.bool": tokens, "lengths.int32": 4 * sentences}


def _check_finite(layers: torch.Tensor) -> None:
    if not bool(torch.isfinite(layers).all()):
        layer = int((~torch.isfinite(layers)).flatten(1).any(dim=1).nonzero()[0])
        raise Unsupported(f"The states of layer {layer} are not all finite numbers; load the model in float32.")


def _begins_so(corpus: Iterable[object], begun: Mapping[str, Any]) -> bool:
    """Whether the sentences whose states are there are the first of the corpus."""
    if not begun["sentences"]:
        return True
    read = Digested(corpus)
    for _ in islice(read, begun["sentences"]):
        pass
    return bool(read.digest == begun["corpus"])


class Hashed:
    """A file that is written on after its first `end` bytes, with a digest of all before; what is behind is cut off."""

    def __init__(self, path: Path, end: int):
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(end)
        self._found, self.bytes = _sha256(self._file, end), end

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._found.update(data)
        self.bytes += len(data)

    def flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    @property
    def checksum(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "sha256": self._found.hexdigest()}


def _sha256(file: BinaryIO, end: int) -> Any:
    """Of the first `end` bytes, or of fewer if there are no more; the file stands behind them."""
    found = hashlib.sha256()
    while end > 0 and (data := file.read(min(CHUNK, end))):
        found.update(data)
        end -= len(data)
    return found


def done(folder: Path) -> dict[str, Any]:
    """How far the files go; damaged ones count for nothing, since states can be made again."""
    path = folder / NOTE
    if not path.exists():
        return FRESH
    try:
        note = unsealed(parsed(path.read_bytes(), str(path)), SHAPE, str(path))
        wrong = next((name for name, file in note["files"].items() if not _is_sound(folder / name, file, note)), None)
    except Damaged as error:
        wrong = str(error)
    if wrong is None:
        return note
    log.warning("%s: damaged (%s); the states are computed again", folder, wrong)
    return FRESH


def _is_sound(path: Path, expected: Mapping[str, Any], note: Mapping[str, Any]) -> bool:
    """Its bytes are those that were written; what an interruption left behind them is no matter."""
    size = path.stat().st_size if path.exists() else -1
    if size < expected["bytes"] or (note.get("finished") and size > expected["bytes"]):
        return False
    with path.open("rb") as file:
        return _sha256(file, expected["bytes"]).hexdigest() == expected["sha256"]


def _note(folder: Path, about: Mapping[str, Any], files: Mapping[str, Hashed]) -> None:
    """Replaced in one step: a reader sees the old note or the new one."""
    fresh = folder / f"{NOTE}.new"
    fresh.write_bytes(sealed({**about, "files": {name: file.checksum for name, file in files.items()}}))
    os.replace(fresh, folder / NOTE)


def layer_name(layer: int) -> str:
    return f"layer_{layer:03}.float32"
