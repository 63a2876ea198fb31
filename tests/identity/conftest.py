"""A slice of the sample's pairs and its states, made once; and states made up, where the right answer is known."""

import itertools

import numpy as np
import pytest
import torch

import whence
from tests.families import build
from whence.identity.states import States

SLICE = 60


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder for states that several tests share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    """Nothing is written to the user's folder."""
    monkeypatch.setenv("WHENCE_CACHE", str(cache))


@pytest.fixture(scope="session")
def pairs(sample):
    return whence.read(f"mrpc:{sample / 'pairs.tsv'}", limit=SLICE)


@pytest.fixture(scope="session")
def mrpc(data):
    return whence.read(f"mrpc:{data / 'mrpc' / 'dev.tsv'}", limit=SLICE)


@pytest.fixture(scope="session")
def llama(builtin):
    """A tiny random decoder without absolute positions, over the built-in vocabulary."""
    return whence.load(build("llama", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)


@pytest.fixture
def made(tmp_path):
    """made(layers, lengths): States with the given arrays as layers, token ids from 0 on unless given."""
    numbers = itertools.count()

    def make(layers, lengths, ids=None):
        folder = tmp_path / f"states{next(numbers)}"
        folder.mkdir()
        for number, rows in enumerate(layers):
            np.ascontiguousarray(rows, dtype=np.float32).tofile(folder / f"layer_{number:03}.float32")
        count = sum(lengths)
        ids = np.arange(count) if ids is None else ids
        return States(
            folder=folder,
            layers=len(layers) - 1,
            width=layers[0].shape[1],
            lengths=np.array(lengths),
            ids=np.array(ids, dtype=np.int32),
            special=np.zeros(count, dtype=bool),
            weights_sha256="",
            corpus_sha256="",
        )

    return make


@pytest.fixture
def linear_world(made):
    """40 sentences of 6 tokens whose hidden vectors are a fixed linear map of the inputs, with some noise."""
    drawn = torch.Generator().manual_seed(1)
    inputs = torch.randn(240, 12, generator=drawn)
    hidden = inputs @ torch.randn(12, 12, generator=drawn) + 0.1 * torch.randn(240, 12, generator=drawn)
    return made([inputs.numpy(), hidden.numpy()], [6] * 40)
