"""Text to tokens: ids, legible pieces, the characters and words of each, and what is special."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.errors import BadInput, TooLong
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.coded import Coded, coded
from whence.models.vocabulary import pieces, special_ids
from whence.text.align import Span, worded, words_over_tokens
from whence.text.sentence import Sentence

UNLIMITED = 1_000_000  # transformers writes "no limit" as 1e30
LABELS = ("upos", "xpos", "deprel", "ner")  # annotations of words that tokens take over


@dataclass(frozen=True)
class Encoded:
    """One sentence as the model reads it; the lists have one item per token."""

    batch: Batch
    tokens: list[str]
    words: list[str]
    "The word each token starts in, as it is written; empty for special tokens."
    special: list[bool]
    sentence: Sentence
    "With its words: the annotated ones, or else Unicode's."
    spans: list[Span | None]
    "Characters of sentence.texts[part]; none for special tokens."
    parts: list[int | None]
    "0 for the text, 1 for the second of a pair."
    words_over: list[list[int]]
    "Indices in sentence.words of every word the token has characters of."
    last: int
    "The last token that stands for text: some tokenizers add an end token after it."
    places: Mapping[str, Sequence[int | float]] = field(default_factory=dict)
    "Where the tokens stand in a picture or a sound: row and column, start and end."
    picture: str | None = None
    "The picture as the model reads it, as a data URI."

    @property
    def continued(self) -> str:
        """The text that a decoder goes on with: the second of two stacks."""
        return self.sentence.texts[-1 if self.batch.split is not None else 0]

    @property
    def word_ids(self) -> list[int | None]:
        """The index in sentence.words of the word each token starts in."""
        return [places[0] if places else None for places in self.words_over]

    @property
    def tokens_of_words(self) -> list[list[int]]:
        """The tokens that have characters of each word; none where the sentence was cut off."""
        tokens: list[list[int]] = [[] for _ in self.sentence.words]
        for token, places in enumerate(self.words_over):
            for place in places:
                tokens[place].append(token)
        return tokens

    def labels(self, name: str) -> list[str | None]:
        """An annotation of each token's word, None where there is none."""
        return [None if word is None else self.sentence.words[word].labels.get(name) for word in self.word_ids]

    def entities(self) -> list[str | None]:
        """The entities mentioned by each token's word, the shortest mention first, joined by |."""
        names: dict[int, list[str]] = {}
        for mention in sorted(self.sentence.mentions, key=lambda mention: len(mention.words)):
            for word in mention.words:
                names.setdefault(word, []).append(mention.entity)
        return [None if word is None or word not in names else "|".join(names[word]) for word in self.word_ids]

    def annotations(self) -> dict[str, list[str | None]]:
        """Labels and entities by name, those that any token has."""
        columns = {name: self.labels(name) for name in LABELS} | {"entity": self.entities()}
        return {name: values for name, values in columns.items() if any(values)}


def encode(anatomy: Anatomy, tokenizer: Any, sentence: Sentence, truncate: bool = False) -> Encoded:
    """The sentence's tokens; longer than the model takes is an error unless `truncate`."""
    longest = limit(anatomy, tokenizer)
    return aligned(anatomy, tokenizer, coded(tokenizer, sentence, longest if truncate else None))


def aligned(anatomy: Anatomy, tokenizer: Any, coded: Coded) -> Encoded:
    """What a tokenizer coded, with the word and the name of every token; refused where the model takes less."""
    ids, sentence = coded.ids, worded(coded.sentence)
    _check_length(len(ids), limit(anatomy, tokenizer))
    _check_ids(anatomy, coded)
    textless, mask = special_ids(tokenizer), tokenizer.mask_token_id  # slow properties
    special = [token in textless for token in ids]
    parts = [None if flag else part for flag, part in zip(special, coded.parts, strict=True)]
    spans = [None if part is None else span for part, span in zip(parts, coded.spans, strict=True)]
    over = _words_over(sentence, parts, spans)
    tokens = pieces(tokenizer, ids)
    shown = [
        _shown(sentence, piece, spans[token], parts[token], over[token], ids[token] == mask)
        for token, piece in enumerate(tokens)
    ]
    batch = Batch(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), coded.segments)
    return Encoded(batch, tokens, shown, special, sentence, spans, parts, over, coded.last)


def _check_length(count: int, longest: int | None) -> None:
    if not count:
        raise BadInput("The text gives no token in this model's vocabulary; give at least one word.")
    if longest is not None and count > longest:
        raise TooLong(
            f"The text is {count:,} tokens long and the model takes at most {longest:,};"
            " shorten it, or let the end be cut off with --truncate (in Python: truncate=True)."
        )


def _check_ids(anatomy: Anatomy, coded: Coded) -> None:
    """Ids that were given may have no row in the embedding."""
    rows = getattr(anatomy.config, "vocab_size", None) if coded.given else None
    if rows is not None and (wrong := [token for token in coded.ids if token >= rows]):
        raise BadInput(f"The vocabulary has the tokens 0 to {rows - 1:,}, and the ids have {wrong[0]:,}.")


def _words_over(sentence: Sentence, parts: list[int | None], spans: list[Span | None]) -> list[list[int]]:
    """The words each token has characters of."""
    over: list[list[int]] = [[] for _ in parts]
    for part in range(len(sentence.texts)):
        own = [token for token, of in enumerate(parts) if of == part]
        places = [place for place, word in enumerate(sentence.words) if word.in_pair == part]
        of_words = [(sentence.words[place].start, sentence.words[place].end) for place in places]
        of_tokens = [spans[token] or (0, 0) for token in own]
        for token, words in zip(own, words_over_tokens(of_words, of_tokens), strict=True):
            over[token] = [places[place] for place in words]
    return over


def _shown(
    sentence: Sentence, piece: str, span: Span | None, part: int | None, over: Sequence[int], is_mask: bool
) -> str:
    """A token's word as it is written."""
    if part is None:
        return ""
    if is_mask or span is None:
        return piece
    return sentence.word(over[0]) if over else sentence.texts[part][slice(*span)].strip()


def limit(anatomy: Anatomy, tokenizer: Any) -> int | None:
    """The most tokens the model takes: the tokenizer's figure or the number of positions, whichever is smaller."""
    positions = getattr(anatomy.config, "max_position_embeddings", None)
    if positions is not None and anatomy.row is not None and anatomy.row.computes_positions:
        positions -= anatomy.config.pad_token_id + 1  # RoBERTa counts its positions from the padding id on
    figures = [figure for figure in (tokenizer.model_max_length, positions) if figure and 0 < figure < UNLIMITED]
    return min(figures, default=None)
