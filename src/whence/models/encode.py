"""Text to tokens: ids, legible pieces, the word of each, and what is special."""

import functools
import json
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from whence.align import words_of_tokens
from whence.errors import BadInput
from whence.models.anatomy import Anatomy
from whence.models.trace import Batch
from whence.text import Sentence

MASK = "[MASK]"
UNLIMITED = 1_000_000  # transformers writes "no limit" as 1e30


@dataclass(frozen=True)
class Encoded:
    """One sentence as the model reads it."""

    batch: Batch
    tokens: list[str]
    words: list[str]
    special: list[bool]


def encode(anatomy: Anatomy, tokenizer: Any, sentence: Sentence, truncate: bool = False) -> Encoded:
    """The sentence's tokens; longer than the model takes is an error unless `truncate`."""
    texts = [text for text in (sentence.text, sentence.pair) if text is not None]
    texts = [_own_mask(tokenizer, text) for text in texts]
    longest = limit(anatomy, tokenizer)
    coded = tokenizer(*texts, truncation=truncate, max_length=longest if truncate else None, verbose=False)
    ids = list(coded["input_ids"])
    if not ids:
        raise BadInput("The text gives no token in this model's vocabulary; give at least one word.")
    if longest is not None and len(ids) > longest:
        raise BadInput(
            f"The text is {len(ids):,} tokens long and the model takes at most {longest:,};"
            " shorten it, or let the end be cut off with --truncate (in Python: truncate=True)."
        )
    special = [token in _special(tokenizer) for token in ids]
    batch = Batch(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), _segments(coded))
    return Encoded(batch, pieces(tokenizer, ids), _words(tokenizer, coded, texts, ids, special), special)


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


def _is_byte_level(tokenizer: Any) -> bool:
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not tokenizer.is_fast:
        return False
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    return "ByteLevel" in json.dumps([parts["decoder"], parts["pre_tokenizer"]])


def _special(tokenizer: Any) -> set[int]:
    """Ids that stand for no text; the mask does stand for some."""
    return set(tokenizer.all_special_ids) - {tokenizer.mask_token_id}


def _own_mask(tokenizer: Any, text: str) -> str:
    """[MASK] is understood by every masked model, whatever its own mask token is."""
    return text if tokenizer.mask_token is None else text.replace(MASK, tokenizer.mask_token)


def _segments(coded: Any) -> torch.Tensor | None:
    return torch.tensor([coded["token_type_ids"]]) if "token_type_ids" in coded else None


def _words(tokenizer: Any, coded: Any, texts: list[str], ids: list[int], special: list[bool]) -> list[str]:
    if not tokenizer.is_fast:
        return ["" if flag else piece for flag, piece in zip(special, pieces(tokenizer, ids), strict=True)]
    encoding = coded.encodings[0]
    found = ["" if flag else piece for flag, piece in zip(special, pieces(tokenizer, ids), strict=True)]
    for place, text in enumerate(texts):
        own = [
            token
            for token, part in enumerate(encoding.sequence_ids)
            if part == place and not special[token] and ids[token] != tokenizer.mask_token_id
        ]
        spans = [encoding.offsets[token] for token in own]
        for token, word in zip(own, words_of_tokens(text, spans), strict=True):
            found[token] = word
    return found
