"""What is known of every token of the states: its sentence, position, piece and word, and the word's annotations."""

from collections.abc import Iterable

import numpy as np

from whence.identity.states import States
from whence.models.given_pair import answered
from whence.models.load import Model
from whence.models.vocabulary import pieces
from whence.text.sentence import sentence


def columns(model: Model, corpus: Iterable[object], states: States, truncate: bool) -> dict[str, np.ndarray]:
    """sentence, position, token, token_id, is_special, word, and a column for every label the words have."""
    numbers = np.repeat(np.arange(len(states.lengths)), states.lengths)
    labels: dict[str, np.ndarray] = {
        "sentence": numbers,
        "position": np.arange(len(numbers)) - states.starts[numbers],
        "token": np.array(pieces(model.tokenizer, states.ids.tolist()), dtype=str),
        "token_id": states.ids,
        "is_special": states.special,
    }
    return labels | _words(model, corpus, states, truncate)


def _words(model: Model, corpus: Iterable[object], states: States, truncate: bool) -> dict[str, np.ndarray]:
    """The word each token starts in, and its labels; empty where a token has no word, or the word no such label."""
    columns: dict[str, list[str]] = {"word": [""] * len(states.ids)}
    for text, start in zip(corpus, states.starts.tolist(), strict=True):
        encoded = answered(model, sentence(text), truncate)
        columns["word"][start : start + len(encoded.words)] = encoded.words
        for place, word in enumerate(encoded.word_ids):
            labels = encoded.sentence.words[word].labels if word is not None else {}
            for label, value in labels.items():
                columns.setdefault(label, [""] * len(states.ids))[start + place] = value
    return {label: np.array(values, dtype=str) for label, values in columns.items()}
