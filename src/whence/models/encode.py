"""Text to tokens: ids, legible pieces, the characters and words of each, and what is special."""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from whence.errors import BadInput, TooLong
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.text.align import Span, located, worded, words_over_tokens
from whence.text.sentence import MASK, Sentence

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

    @property
    def last(self) -> int:
        """The last token that stands for text: some tokenizers add an end token after it."""
        text = [place for place, special in enumerate(self.special) if not special]
        return text[-1] if text else len(self.special) - 1

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
    texts = [own_mask(tokenizer, text) for text in sentence.texts]
    longest = limit(anatomy, tokenizer)
    coded = tokenizer(*texts, truncation=truncate, max_length=longest if truncate else None, verbose=False)
    ids = list(coded["input_ids"])
    if not ids:
        raise BadInput("The text gives no token in this model's vocabulary; give at least one word.")
    if longest is not None and len(ids) > longest:
        raise TooLong(
            f"The text is {len(ids):,} tokens long and the model takes at most {longest:,};"
            " shorten it, or let the end be cut off with --truncate (in Python: truncate=True)."
        )
    batch = Batch(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), _segments(coded))
    return _aligned(tokenizer, worded(sentence), coded, batch)


def _aligned(tokenizer: Any, sentence: Sentence, coded: Any, batch: Batch) -> Encoded:
    ids = batch.ids[0].tolist()
    textless = _special(tokenizer)
    special = [token in textless for token in ids]
    tokens = pieces(tokenizer, ids)
    parts, spans = _places(tokenizer, sentence, coded, tokens, special)
    over: list[list[int]] = [[] for _ in ids]
    for part in range(len(sentence.texts)):
        own = [token for token in range(len(ids)) if parts[token] == part]
        places = [place for place, word in enumerate(sentence.words) if word.in_pair == part]
        of_words = [(sentence.words[place].start, sentence.words[place].end) for place in places]
        of_tokens = [spans[token] or (0, 0) for token in own]
        for token, words in zip(own, words_over_tokens(of_words, of_tokens), strict=True):
            over[token] = [places[place] for place in words]
    mask = tokenizer.mask_token_id  # a slow property
    shown = [
        _shown(sentence, piece, spans[token], parts[token], over[token], ids[token] == mask)
        for token, piece in enumerate(tokens)
    ]
    return Encoded(batch, tokens, shown, special, sentence, spans, parts, over)


def _shown(
    sentence: Sentence, piece: str, span: Span | None, part: int | None, over: Sequence[int], is_mask: bool
) -> str:
    """A token's word as it is written."""
    if part is None:
        return ""
    if is_mask or span is None:
        return piece
    return sentence.word(over[0]) if over else sentence.texts[part][slice(*span)].strip()


def _places(
    tokenizer: Any, sentence: Sentence, coded: Any, tokens: list[str], special: list[bool]
) -> tuple[list[int | None], list[Span | None]]:
    """The text each token comes from, and its characters there."""
    if tokenizer.is_fast:
        encoding = coded.encodings[0]
        parts = [None if flag else part for flag, part in zip(special, encoding.sequence_ids, strict=True)]
        offsets: list[Span | None] = list(encoding.offsets)
    else:
        parts, offsets = _searched(tokenizer, sentence, tokens, special)
    originals = [_originals(tokenizer, text) for text in sentence.texts]
    spans = [
        None if part is None or span is None else _original(originals[part], span)
        for part, span in zip(parts, offsets, strict=True)
    ]
    return parts, spans


def _searched(
    tokenizer: Any, sentence: Sentence, tokens: list[str], special: list[bool]
) -> tuple[list[int | None], list[Span | None]]:
    """The same for slow tokenizers, which have no offsets: their pieces are searched for in the texts."""
    texts = [own_mask(tokenizer, text) for text in sentence.texts]
    second = len(texts[0]) + 1  # where the second text begins when both are looked through as one
    own = [token for token, flag in enumerate(special) if not flag]
    offsets = located(" ".join(texts), [tokens[token] for token in own], {str(tokenizer.unk_token)})
    parts: list[int | None] = [None] * len(tokens)
    spans: list[Span | None] = [None] * len(tokens)
    for token, span in zip(own, offsets, strict=True):
        part = int(span is not None and span[0] >= second)
        parts[token], spans[token] = part, span and (span[0] - second * part, span[1] - second * part)
    return parts, spans


def limit(anatomy: Anatomy, tokenizer: Any) -> int | None:
    """The most tokens the model takes: the tokenizer's figure or the number of positions, whichever is smaller."""
    positions = getattr(anatomy.config, "max_position_embeddings", None)
    if positions is not None and anatomy.row is not None and anatomy.row.computes_positions:
        positions -= anatomy.config.pad_token_id + 1  # RoBERTa counts its positions from the padding id on
    figures = [figure for figure in (tokenizer.model_max_length, positions) if figure and 0 < figure < UNLIMITED]
    return min(figures, default=None)


def pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    """The vocabulary's entries made legible: byte-level pieces as text (with ▁ for a space in front) or as <0xE2>."""
    entries = [str(entry) for entry in tokenizer.convert_ids_to_tokens(ids)]
    if not _is_byte_level(tokenizer):
        return entries
    special = _special(tokenizer) | {tokenizer.mask_token_id}
    return [entry if token in special else _legible(entry) for token, entry in zip(ids, entries, strict=True)]


def _legible(entry: str) -> str:
    table = _bytes_of_letters()
    if any(letter not in table for letter in entry):
        return entry
    data = bytes(table[letter] for letter in entry)
    try:
        return data.decode().replace(" ", "▁").replace("\n", "⏎")
    except UnicodeDecodeError:
        shown = {32: "▁"} | {byte: chr(byte) for byte in range(33, 127)}
        return "".join(shown.get(byte, f"<0x{byte:02X}>") for byte in data)


@functools.cache
def _bytes_of_letters() -> dict[str, int]:
    return {letter: byte for byte, letter in bytes_to_unicode().items()}


_BYTE_LEVEL: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # finding out costs as much as many sentences


def _is_byte_level(tokenizer: Any) -> bool:
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not tokenizer.is_fast:
        return False
    if tokenizer not in _BYTE_LEVEL:
        parts = json.loads(tokenizer.backend_tokenizer.to_str())
        _BYTE_LEVEL[tokenizer] = "ByteLevel" in json.dumps([parts["decoder"], parts["pre_tokenizer"]])
    return _BYTE_LEVEL[tokenizer]


def _special(tokenizer: Any) -> set[int]:
    """Ids that stand for no text; the mask and the unknown token do.

    Byte-level vocabularies know everything, and name their end of text as the unknown token too.
    """
    named = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "pad_token_id")
    without = {getattr(tokenizer, name) for name in named}
    return set(tokenizer.all_special_ids) - {tokenizer.mask_token_id} - ({tokenizer.unk_token_id} - without)


def own_mask(tokenizer: Any, text: str) -> str:
    """[MASK] is understood by every masked model, whatever its own mask token is."""
    return text if tokenizer.mask_token is None else text.replace(MASK, tokenizer.mask_token)


def _originals(tokenizer: Any, text: str) -> list[Span] | None:
    """For each character the model read, the characters of the text it stands for; None when they are the same."""
    mask = tokenizer.mask_token
    if mask is None or len(mask) == len(MASK) or MASK not in text:
        return None
    originals: list[Span] = []
    start = 0
    for piece in text.split(MASK):
        originals += [(place, place + 1) for place in range(start, start + len(piece))]
        start += len(piece) + len(MASK)
        originals += [(start - len(MASK), start)] * len(mask)
    return originals


def _original(originals: list[Span] | None, span: Span) -> Span:
    start, end = span
    if originals is None or start >= end:
        return span
    return originals[start][0], originals[end - 1][1]


def _segments(coded: Any) -> torch.Tensor | None:
    return torch.tensor([coded["token_type_ids"]]) if "token_type_ids" in coded else None
