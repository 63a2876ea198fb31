"""Whether texts begin with BOS and end with EOS, as a GGUF file says: transformers ignores these two fields."""

from pathlib import Path
from typing import Any

from tokenizers.processors import TemplateProcessing

from whence.errors import BadInput

ENDS = {"bos": "tokenizer.ggml.add_bos_token", "eos": "tokenizer.ggml.add_eos_token"}


def with_ends(tokenizer: Any, file: Path) -> Any:
    """The tokenizer, adding BOS and EOS as the file says; unchanged where it says nothing else."""
    stated = _stated(file)
    current = {end: _adds(tokenizer, end) for end in ENDS}
    ends = current | stated
    if ends != current:
        tokenizer.backend_tokenizer.post_processor = _template(tokenizer, ends, file)
    return tokenizer


def _stated(file: Path) -> dict[str, bool]:
    from gguf import GGUFReader  # an extra; transformers has asked for it by now

    fields = GGUFReader(file).fields
    return {end: bool(fields[name].contents()) for end, name in ENDS.items() if name in fields}


def _adds(tokenizer: Any, end: str) -> bool:
    """Whether the tokenizer adds it to an empty text."""
    return getattr(tokenizer, f"{end}_token_id") in tokenizer("").input_ids


def _template(tokenizer: Any, ends: dict[str, bool], file: Path) -> TemplateProcessing:
    names = {end: getattr(tokenizer, f"{end}_token") for end, added in ends.items() if added}
    for end, name in names.items():
        if name is None:
            raise BadInput(f"{file} wants {end.upper()} added to texts and names no such token; correct its metadata.")
    begin, close = names.get("bos"), names.get("eos")
    first, second = ([*filter(None, (begin, text, close))] for text in ("$A:0", "$B:1"))
    ids = [(name, tokenizer.convert_tokens_to_ids(name)) for name in dict.fromkeys(names.values())]
    return TemplateProcessing(single=first, pair=first + second, special_tokens=ids)
