"""A tokenizer's vocabulary: its entries made legible, and which of them stand for no text."""

import functools
import json
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode


def pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The vocabulary's entries made legible: byte-level pieces as text (with ▁ for a space in front) or as <0xE2>.

    Rows of the embedding that the tokenizer has no token for are named by their number.
    """
    count = len(tokenizer)  # counts the vocabulary anew each time
    known = iter(_pieces(tokenizer, [token for token in ids if token < count]))
    return [next(known) if token < count else f"<{token}>" for token in ids]


def _pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    entries = [str(entry) for entry in tokenizer.convert_ids_to_tokens(ids)]
    if not _is_byte_level(tokenizer):
        return entries
    special = special_ids(tokenizer) | {tokenizer.mask_token_id}
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


def special_ids(tokenizer: Any) -> set[int]:
    """Ids that stand for no text; the mask and the unknown token do.

    Byte-level vocabularies know everything, and name their end of text as the unknown token too.
    """
    named = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "pad_token_id")
    without = {getattr(tokenizer, name) for name in named}
    return set(tokenizer.all_special_ids) - {tokenizer.mask_token_id} - ({tokenizer.unk_token_id} - without)
