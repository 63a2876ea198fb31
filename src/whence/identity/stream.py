"""From sentences to files of hidden states, part by part: what is in memory is bounded, what is written is whole."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from whence.errors import BadInput, Unsupported
from whence.models.block import Batch
from whence.models.capture import walk
from whence.models.embeddings import layer_zero
from whence.models.encode import Encoded, encode
from whence.models.load import Model
from whence.models.memory import attention_bytes, claim
from whence.text.sentence import sentence

PART = 64  # sentences between two notes of how far we are, or fewer
PART_BYTES = 2**28  # when their states, all layers, take more than this
BATCH_BYTES = 2**27  # the same of one forward pass
BATCH_TOKENS = 2048
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Stream:
    """From sentences to files."""

    model: Model
    folder: Path
    embeddings: str
    truncate: bool
    memory_limit: int | None

    def write(self, corpus: Iterable[object], begun: dict[str, int], count: int, progress: Progress | None) -> None:
        sentences, tokens = begun["sentences"], begun["tokens"]
        with ExitStack() as opened:
            ends = self._ends(sentences, tokens)
            files = {name: opened.enter_context(_at(self.folder / name, end)) for name, end in ends.items()}
            for part in self._parts(corpus, sentences):
                self._write_part(part, files)
                sentences, tokens = sentences + len(part), tokens + sum(len(one.tokens) for one in part)
                _note(self.folder, {"sentences": sentences, "tokens": tokens})
                if progress:
                    progress(sentences, count)
        _note(self.folder, {"sentences": sentences, "tokens": tokens, "finished": True})

    def _parts(self, corpus: Iterable[object], first: int) -> Iterator[list[Encoded]]:
        """The sentences from the first that is missing, in runs of bounded size."""
        part: list[Encoded] = []
        for place, given in enumerate(islice(iter(corpus), first, None), start=first):
            part.append(self._encode(given, place))
            if len(part) == PART or self._row * sum(len(one.tokens) for one in part) >= PART_BYTES:
                yield part
                part = []
        if part:
            yield part

    @property
    def _row(self) -> int:
        """Bytes of a token in all layers."""
        return 4 * self.model.anatomy.width * (self.model.anatomy.layers + 1)

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
                files[layer_name(layer)].write(rows[layer].tobytes())
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
        most = min(BATCH_TOKENS, BATCH_BYTES // self._row)
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

    def _ends(self, sentences: int, tokens: int) -> dict[str, int]:
        """File -> how many of its bytes are known to be whole."""
        width = 4 * self.model.anatomy.width
        layers = {layer_name(layer): width * tokens for layer in range(self.model.anatomy.layers + 1)}
        return layers | {"ids.int32": 4 * tokens, "special.bool": tokens, "lengths.int32": 4 * sentences}


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


def done(folder: Path) -> dict[str, int]:
    path = folder / "done.json"
    return json.loads(path.read_text()) if path.exists() else {"sentences": 0, "tokens": 0}


def _note(folder: Path, done: dict[str, int]) -> None:
    """Replaced in one step: a reader sees the old note or the new one."""
    fresh = folder / "done.json.new"
    fresh.write_text(json.dumps(done))
    os.replace(fresh, folder / "done.json")


def layer_name(layer: int) -> str:
    return f"layer_{layer:03}.float32"
