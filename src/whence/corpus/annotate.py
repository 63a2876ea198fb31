"""What is known of every token of a sentence before anything is measured: its word, its class, its annotations."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from whence.errors import BadInput
from whence.models.encode import Encoded
from whence.models.given import encoded_of
from whence.models.given_pair import both_of, pair_of
from whence.models.inputs import TEXT
from whence.models.load import Model
from whence.text.readers.files import CONTENT
from whence.text.sentence import Sentence

# single marks that models treat unlike words (Brunner et al. 2020, figure 1)
MARKS = (".", ",")
OTHER = "other"


@dataclass(frozen=True, eq=False)
class Coded:
    """One sentence of the corpus with its tokens."""

    number: int
    encoded: Encoded
    classes: list[str]
    "Special tokens and the mask by their own name, full stop, comma, other."

    def __len__(self) -> int:
        return len(self.encoded.tokens)

    @property
    def first(self) -> int:
        """The first token that has a row: of an encoder-decoder's pair the first of the answer."""
        return self.encoded.batch.split or 0

    @property
    def sentence(self) -> Sentence:
        """With its words: the annotated ones, or else Unicode's."""
        return self.encoded.sentence

    @cached_property
    def word_ids(self) -> list[int | None]:
        """The index of the word each token starts in."""
        return self.encoded.word_ids

    @cached_property
    def pieces(self) -> dict[int, list[int]]:
        """Word -> its tokens, of the words that have any: the end of a sentence may have been cut off."""
        return {word: tokens for word, tokens in enumerate(self.encoded.tokens_of_words) if tokens}

    @property
    def averaging(self) -> Float[np.ndarray, "w t"]:
        """One row per word that has tokens: the weights of the mean over its pieces."""
        weights = np.zeros((len(self.pieces), len(self)), dtype=np.float32)
        for row, tokens in enumerate(self.pieces.values()):
            weights[row, tokens] = 1 / len(tokens)
        return weights

    def label(self, word: int, name: str) -> str | None:
        return self.sentence.words[word].labels.get(name)


def read(model: Model, number: int, sentence: Sentence, truncate: bool) -> Coded:
    """A sentence as the model reads it: a text, a source with its answer, or the file of a picture or sound."""
    if model.encoder is not None:
        encoded = both_of(model, pair_of(model, sentence), truncate).together
        return coded(model, number, replace(encoded, sentence=replace(sentence, words=encoded.sentence.words)))
    if model.reads != TEXT:
        return coded(model, number, replace(encoded_of(model, sentence.text), sentence=sentence))
    if CONTENT in sentence.labels:
        other = "; give the other tower (model.pictures)" if model.pictures is not None else ""
        raise BadInput(f"{type(model.model).__name__} reads texts here, and the file of a picture was given{other}.")
    return coded(model, number, encoded_of(model, sentence, truncate))


def coded(model: Model, number: int, encoded: Encoded) -> Coded:
    has_texts = model.encoder is not None or model.reads == TEXT
    mask = model.tokenizer.mask_token_id if has_texts else None
    ids = encoded.batch.ids[0].tolist()
    named = [special or identity == mask for special, identity in zip(encoded.special, ids, strict=True)]
    classes = [token if own else _class(token) for token, own in zip(encoded.tokens, named, strict=True)]
    return Coded(number, encoded, classes)


def _class(token: str) -> str:
    bare = token.lstrip("▁")
    return bare if bare in MARKS else OTHER
