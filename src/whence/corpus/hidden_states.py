"""The hidden states of a corpus, cached on disk: written part by part into one file per layer, and resumable.

Further files hold the ids of the tokens, which of them are special, and the lengths of the sentences. A part writes
to its own byte range of each file; its record has the checksums of these ranges.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from whence.corpus.manifest import manifest, run_id, shape
from whence.corpus.parts import Part, cut
from whence.corpus.resume import Progress, Resumable, resumed
from whence.corpus.store import MANIFEST, Store, at, read_manifest, write_record
from whence.errors import BadInput, Unsupported
from whence.identity.states import States, layer_name
from whence.models.batching import batches, padded, padding_id
from whence.models.block import Batch
from whence.models.capture import walk
from whence.models.embeddings import layer_zero
from whence.models.encode import Encoded
from whence.models.given_pair import answered
from whence.models.load import Model
from whence.models.memory import attention_bytes, claim
from whence.sealed import Damaged, digest

PART = 64  # sentences
BATCH_BYTES = 2**27  # of the states of one forward pass, all layers
BATCH_TOKENS = 2048
IDS, SPECIAL, LENGTHS = "ids.int32", "special.bool", "lengths.int32"
SHAPE = shape({"embeddings": str, "truncate": bool})


def default_folder() -> Path:
    """WHENCE_CACHE, or whence in the user's cache folder."""
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
    """The states of every token at every layer, from the cache or computed now; the corpus is read twice.

    `embeddings` says what layer 0 is: the "output" of the embedding layer, or the "sum" before its norm.
    """
    hashes, count = [], 0
    for part in cut(corpus, PART):
        hashes.append(part.sha256)
        count += len(part.sentences)
    requested = manifest("states", model, {"part_size": PART, "embeddings": embeddings, "truncate": truncate}, corpus)
    store = at(Path(cache or default_folder()) / "states" / digest([run_id(requested), hashes])[:40])
    with store.locked(wait=True):
        _forget_damaged(store)
        with resumed(store, requested, SHAPE, corpus, progress, count) as work:
            writer = _Writer(model, work.store, embeddings, truncate, memory_limit)
            for part in work.pending():
                _check_unchanged(hashes[: part.number + 1] == work.hashes)
                work.count(writer.write(part, work.totals["tokens"]))
            _check_unchanged(hashes == work.hashes)
            writer.cut_off(work)
            work.finish()
    return _opened(Path(store.root), model, requested["model"]["weights_sha256"], digest(hashes))


def _forget_damaged(store: Store) -> None:
    """Deletes a damaged manifest: states can be computed again."""
    try:
        read_manifest(store, ("states",), SHAPE)
    except Damaged:
        os.remove(store.path(MANIFEST))


def _check_unchanged(same: bool) -> None:
    """The corpus is read once for its hash and once for its states."""
    if not same:
        raise BadInput("The corpus was changed while it was read; start again when nothing writes to it.")


@dataclass(frozen=True)
class _Writer:
    """Writes the states of a part to its byte range of every file."""

    model: Model
    store: Store
    embeddings: str
    truncate: bool
    memory_limit: int | None

    def write(self, part: Part, token: int) -> dict[str, Any]:
        """The record of the part that begins at this token, once its states are on disk."""
        encoded = [self._encode(sentence, number) for number, sentence in enumerate(part.sentences, part.first + 1)]
        tokens = sum(len(sentence.tokens) for sentence in encoded)
        starts, ends = self._ends(part.first, token), self._ends(part.first + len(encoded), token + tokens)
        self._put(encoded, token, starts)
        ranges = {
            name: {"first": first, "bytes": ends[name] - first, "sha256": self.store.sha256(name, first, ends[name])}
            for name, first in starts.items()
        }
        about = {"sha256": part.sha256, "sentences": len(encoded), "tokens": tokens}
        return write_record(self.store, part.number, ranges, about)

    def _put(self, encoded: list[Encoded], token: int, starts: dict[str, int]) -> None:
        """Writes sentences as they come from the model, each to its place in the files."""
        first = np.cumsum([token, *(len(sentence.tokens) for sentence in encoded)])
        with self._opened(starts) as files:
            for name, values in _of_tokens(encoded).items():
                files[name].write(values.tobytes())
            for place, layers in self._states(encoded):
                for layer, rows in enumerate(layers):
                    files[layer_name(layer)].seek(4 * self.model.anatomy.width * int(first[place]))
                    files[layer_name(layer)].write(rows.tobytes())

    def cut_off(self, work: Resumable) -> None:
        """Truncates what an interrupted attempt left after the last part."""
        for name, end in self._ends(work.totals["sentences"], work.totals["tokens"]).items():
            with open(self.store.path(name), "ab") as file:
                file.truncate(end)

    @contextmanager
    def _opened(self, starts: dict[str, int]) -> Iterator[dict[str, BinaryIO]]:
        """The files, each at the offset where the part begins; flushed to disk in the end."""
        try:
            with ExitStack() as opened:
                files: dict[str, BinaryIO] = {}
                for name, first in starts.items():
                    path = Path(self.store.path(name))
                    files[name] = opened.enter_context(path.open("r+b" if path.exists() else "w+b"))
                    files[name].seek(first)
                yield files
                for file in files.values():
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise self.store.cannot_write(layer_name(0), error) from error

    def _encode(self, sentence: Any, number: int) -> Encoded:
        encoded = answered(self.model, sentence, self.truncate)
        if len(encoded.tokens) < 2:
            raise BadInput(
                f"Sentence {number} ({sentence.text[:40]!r}) is a single token, which has no other to be taken for;"
                " leave such sentences out."
            )
        return encoded

    def _states(self, encoded: list[Encoded]) -> Iterator[tuple[int, np.ndarray]]:
        """The index and the states of every sentence, layer x token x width; batched by similar length."""
        anatomy = self.model.anatomy
        most = min(BATCH_TOKENS, BATCH_BYTES // (4 * anatomy.width * (anatomy.layers + 1)))
        most = most if anatomy.encoder is None else 0  # pairs one by one
        for places in batches([len(sentence.tokens) for sentence in encoded], lambda longest: most // longest):
            rows = [encoded[place].batch for place in places]
            layers = self._layers(
                rows[0] if len(rows) == 1 else padded(rows, padding_id(anatomy, self.model.tokenizer))
            )
            for row, place in enumerate(places):
                yield place, layers[:, row, : len(encoded[place].tokens)].numpy()

    def _layers(self, batch: Batch) -> Float[Tensor, "l b s m"]:
        anatomy, (rows, tokens) = self.model.anatomy, batch.ids.shape
        claim(attention_bytes(rows, anatomy.heads, tokens), tokens, self.model.device, self.memory_limit)
        trace = walk(anatomy, batch, lambda block: block.output.float().cpu())
        first = layer_zero(anatomy, batch) if self.embeddings == "sum" else trace.embedding
        layers = torch.stack([first.float().cpu(), *trace.blocks])
        if not bool(torch.isfinite(layers).all()):
            layer = int((~torch.isfinite(layers)).flatten(1).any(dim=1).nonzero()[0])
            raise Unsupported(f"The states of layer {layer} are not all finite numbers; load the model in float32.")
        return layers

    def _ends(self, sentences: int, tokens: int) -> dict[str, int]:
        """File -> its size in bytes after so many sentences and tokens."""
        width = 4 * self.model.anatomy.width
        layers = {layer_name(layer): width * tokens for layer in range(self.model.anatomy.layers + 1)}
        return layers | {IDS: 4 * tokens, SPECIAL: tokens, LENGTHS: 4 * sentences}


def _of_tokens(encoded: list[Encoded]) -> dict[str, np.ndarray]:
    return {
        IDS: np.concatenate([sentence.batch.prefix.ids[0].numpy() for sentence in encoded]).astype(np.int32),
        SPECIAL: np.concatenate([sentence.special for sentence in encoded]),
        LENGTHS: np.array([len(sentence.tokens) for sentence in encoded], dtype=np.int32),
    }


def _opened(folder: Path, model: Model, weights_sha256: str, corpus_sha256: str) -> States:
    return States(
        folder=folder,
        layers=model.anatomy.layers,
        width=model.anatomy.width,
        lengths=np.fromfile(folder / LENGTHS, np.int32).astype(np.int64),
        ids=np.fromfile(folder / IDS, np.int32),
        special=np.fromfile(folder / SPECIAL, np.bool_),
        weights_sha256=weights_sha256,
        corpus_sha256=corpus_sha256,
    )
