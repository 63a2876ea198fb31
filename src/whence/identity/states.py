"""The hidden states of a corpus in files, opened for reading: memory stays small for any corpus."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class States:
    """A file of float32 rows per layer; 0 is what the first block reads.

    Rows are tokens, sentence after sentence, special tokens included.
    """

    folder: Path
    layers: int
    width: int
    lengths: np.ndarray
    ids: np.ndarray
    special: np.ndarray
    weights_sha256: str
    corpus_sha256: str
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


def layer_name(layer: int) -> str:
    return f"layer_{layer:03}.float32"
