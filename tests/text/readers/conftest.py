"""The treebanks that several tests look at, read once: ours and GUM."""

from dataclasses import dataclass

import pytest

import whence
from whence.text.readers import Corpus
from whence.text.sentence import Sentence


@dataclass(frozen=True)
class Read:
    corpus: Corpus
    sentences: list[Sentence]


@pytest.fixture(scope="session")
def gum_read(data) -> Read:
    corpus = whence.read(data / "ud_gum" / "en_gum-ud-dev.conllu")
    return Read(corpus, list(corpus))


@pytest.fixture(scope="session")
def treebank(sample) -> list[Sentence]:
    return list(whence.read(sample / "treebank.conllu"))


@pytest.fixture(scope="session")
def gum(gum_read) -> list[Sentence]:
    return gum_read.sentences
